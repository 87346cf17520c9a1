"""Draw charts of what a run costs as it grows, and where the time goes.

    python benchmarks/cost_charts.py HARNESS HOME [--rounds 3] [--adapters ours,openai_loop] [--images FOLDER]

HARNESS is the folder of the comparison harness, HOME the one with its virtual environments. Each measure is
made in a process of its own, all adapters one after the other, round after round; the least CPU time counts.
Other work on the machine disturbs all of them alike. Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
PORT = 8796
NAMES = {
    "ours": "ours, [fast]",
    "ours_httpx": "ours, default",
    "openai_loop": "SDK, by hand",
    "raw_stdlib": "sockets, by hand",
    "peer_pydantic_ai": "pydantic-ai",
    "peer_openai_agents": "openai-agents",
    "peer_langgraph": "langgraph",
    "peer_agno": "agno",
}
COLOURS = ("#d1495b", "#8d6cab", "#2e86ab", "#e08e1b", "#3a9d5d")
COLOURS += ("#7f8c8d", "#b5651d", "#5b7db1", "#c678a0")
Points = list[tuple[float, float]]


# -- measuring, in a process for each adapter ------------------------------------------------------------


async def _least(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """Return the least CPU time of some work, in milliseconds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        await work()
        found.append((time.process_time() - begun) * 1e3)
    return min(found)


async def _steps(adapter: Any) -> Points:
    return [(n, await _least(lambda n=n: adapter.run_steps(n), 3)) for n in (1, 2, 5, 10, 20, 50, 100)]


async def _tools(adapter: Any) -> Points:
    points = []
    for count in (1, 2, 5, 10, 20):
        agent = adapter.build([adapter.TOOLS.add, *adapter.TOOLS.TWENTY[1:count]])
        points.append((count, await _least(lambda agent=agent: adapter.run(agent, "Go. @@steps=5@@"), 5) / 6))
    return points


async def _chunks(adapter: Any) -> Points:
    return [(n, await _least(lambda n=n: adapter.stream_text(n), 3)) for n in (10, 50, 200, 1000, 4000)]


async def _at_once(adapter: Any) -> Points:
    counts = (1, 5, 20, 100)
    return [(n, await _least(lambda n=n: adapter.concurrent(n, 5), 2) / n) for n in counts]


async def _where(adapter: Any) -> Points:
    """Return the sampled microseconds of a request per owner of the code, in the order of `PARTS`."""
    seen: Counter[str] = Counter()
    known: dict[CodeType, str] = {}

    def note(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            code = frame.f_code
            if code not in known:
                known[code] = _part_of(frame)
            seen[known[code]] += 1

    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    begun, requests = time.process_time(), 0
    while (spent := time.process_time() - begun) < 4:
        await adapter.run_steps(20)
        requests += 21
    signal.setitimer(signal.ITIMER_PROF, 0)
    return [(n, seen[part] / seen.total() * spent / requests * 1e6) for n, part in enumerate(PARTS)]


PARTS = ("our loop", "our client", "the SDK, pydantic", "an HTTP library", "asyncio", "other")
_HTTP = r"aiohttp|yarl|multidict|httpx2?|httpcore2?|h11|anyio|sniffio"


def _part_of(frame: FrameType | None) -> str:
    """Return the owner of generated code: the owner of its caller."""
    while frame is not None and frame.f_code.co_filename.startswith("<"):
        frame = frame.f_back
    file = "" if frame is None else frame.f_code.co_filename
    if "/pure_agent_loop/" in file:
        return PARTS[1] if "/pure_agent_loop/llm/" in file else PARTS[0]
    if re.search(r"/(openai|pydantic|typing_extensions)\b|/typing\.py$", file):
        return PARTS[2]
    if re.search(rf"/({_HTTP})/", file):
        return PARTS[3]
    return PARTS[4] if re.search(r"/(asyncio/|selectors\.py)", file) else PARTS[5]


MEASURES: Mapping[str, Callable[[Any], Awaitable[Points]]] = {
    "steps": _steps,
    "tools": _tools,
    "chunks": _chunks,
    "at_once": _at_once,
    "where": _where,
}


async def _measure(adapter: Any, measure: str) -> Points:
    await adapter.run_steps(3)  # load modules and create objects before the measurement
    return await MEASURES[measure](adapter)


# -- all of it -------------------------------------------------------------------------------------------


@contextmanager
def _server(harness: Path, home: Path) -> Iterator[str]:
    process = subprocess.Popen([home / "venvs/server/bin/python", harness / "server.py", str(PORT)])
    try:
        for _ in range(50):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/stats").close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{PORT}/v1"
    finally:
        process.terminate()
        process.wait()


def _python_of(adapter: str, harness: Path, home: Path) -> str:
    places = [HERE / "adapters" / f"{adapter}.py", harness / "adapters" / f"{adapter}.py"]
    text = next(each for each in places if each.exists()).read_text(encoding="utf-8")
    found = re.search(r'^VENV.*?= "([^"]+)"', text, re.M)
    assert found is not None, adapter
    return str(home / "venvs" / found[1] / "bin/python")


def _run(adapter: str, measure: str, harness: Path, home: Path, url: str) -> Points:
    path = os.pathsep.join([str(HERE / "adapters"), str(harness / "adapters")])
    done = subprocess.run(
        [_python_of(adapter, harness, home), __file__, "--worker", adapter, measure],
        env={**os.environ, "FAKE_URL": url, "OPENAI_API_KEY": "sk-test", "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [(x, y) for x, y in json.loads(done.stdout.splitlines()[-1])]


def _better(old: Points | None, new: Points) -> Points:
    return new if old is None else [(x, min(a, b)) for (x, a), (_, b) in zip(old, new, strict=True)]


def _all(adapters: Sequence[str], rounds: int, harness: Path, home: Path) -> dict[str, dict[str, Points]]:
    found: dict[str, dict[str, Points]] = {measure: {} for measure in MEASURES}
    with _server(harness, home) as url:
        for number in range(rounds):
            for measure, by_name in found.items():
                for adapter in adapters:
                    new = _run(adapter, measure, harness, home, url)
                    keep_first = measure == "where" and adapter in by_name
                    by_name[adapter] = by_name[adapter] if keep_first else _better(by_name.get(adapter), new)
                    print(f"round {number + 1}: {measure} of {adapter}", file=sys.stderr)
    return found


# -- drawing ---------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 560, 300, 62, 34, 150, 42
_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#57606a}.t{font-weight:600;font-size:14px}"
    "line{stroke:#8c959f;stroke-opacity:.35}polyline{fill:none;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#adbac7}}</style>"
)


def _ticks(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def _picture(height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    name = f'<title>{escape(title)}</title>{_STYLE}<text class="t" x="8" y="20">{escape(title)}</text>'
    return "\n".join([head + name, *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "") -> str:
    fill = f' style="fill:{colour}"' if colour else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{fill}>{escape(text)}</text>'


def line_chart(title: str, unit: str, series: Mapping[str, Points]) -> str:
    """Draw lines over two logarithmic axes, each labelled at its end."""
    points = [each for line in series.values() for each in line]
    xs, ys = sorted({x for x, _ in points}), _ticks(min(y for _, y in points), max(y for _, y in points))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(y / ys[0]) / math.log(ys[-1] / ys[0])
        return LEFT + across * wide, TOP + (1 - up) * tall

    parts = []
    for y in ys:
        level = at(xs[0], y)[1]
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{level:.0f}" y2="{level:.0f}"/>')
        parts.append(_text(LEFT - 6, level + 4, f"{y:g}", "end"))
    parts += [_text(at(x, ys[0])[0], TOP + tall + 18, f"{x:g}", "middle") for x in xs]
    parts.append(_text(LEFT + wide / 2, HEIGHT - 6, unit, "middle"))
    names = sorted(series, key=lambda name: -series[name][-1][1])
    free = float(TOP)
    for name in names:
        colour = COLOURS[[*NAMES].index(name)] if name in NAMES else COLOURS[-1]
        line = " ".join("{:.1f},{:.1f}".format(*at(*each)) for each in series[name])
        parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
        free = max(free, at(*series[name][-1])[1] + 4)
        parts.append(_text(LEFT + wide + 8, free, NAMES.get(name, name), colour=colour))
        free += 15
    return _picture(HEIGHT, title, parts)


def bar_chart(title: str, series: Mapping[str, Points]) -> str:
    """Draw one bar per adapter, divided into parts as shares of the whole."""
    row, wide = 30, WIDTH - 2 * 135
    height = TOP + row * len(series) + 52
    parts = []
    for number, (name, points) in enumerate(series.items()):
        y, x, whole = TOP + number * row, 135.0, sum(share for _, share in points)
        parts.append(_text(x - 8, y + 16, NAMES.get(name, name), "end"))
        for place, share in points:
            width = share / whole * wide
            colour = COLOURS[int(place)]
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" fill="{colour}"/>')
            x += width
        parts.append(_text(x + 8, y + 16, f"{whole:,.0f} µs a request"))
    for number, part in enumerate(PARTS):
        x, y = 135 + number % 3 * 135, height - 34 + number // 3 * 18
        parts.append(f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{COLOURS[number]}"/>')
        parts.append(_text(x + 15, y, part))
    return _picture(height, title, parts)


TITLES = {
    "steps": ("CPU ms of a run", "steps of the run"),
    "tools": ("CPU ms of a request", "tools of the agent"),
    "chunks": ("CPU ms of a streamed answer", "chunks of the answer"),
    "at_once": ("CPU ms of a run of 5 steps", "runs at once"),
}


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("harness", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--adapters", default=",".join(NAMES))
    parser.add_argument("--images", type=Path, default=HERE.parent / "docs/images")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = _all(
        options.adapters.split(","), options.rounds, options.harness.resolve(), options.home.resolve()
    )
    for measure, (title, unit) in TITLES.items():
        picture = line_chart(title, unit, found[measure])
        (options.images / f"cost-{measure.replace('_', '-')}.svg").write_text(picture, encoding="utf-8")
    picture = bar_chart("Whose code is at work, in runs of 20 steps", found["where"])
    (options.images / "cost-where.svg").write_text(picture, encoding="utf-8")
    print(f"load {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end")
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(asyncio.run(_measure(importlib.import_module(sys.argv[2]), sys.argv[3]))))
        sys.stdout.flush()
        os._exit(0)
    main()
