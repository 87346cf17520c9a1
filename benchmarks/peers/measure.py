"""Compare this library with others: broken servers, killed processes, packages and costs.

    python -m benchmarks.peers.measure --venvs DIR faults kills packages costs    # makes what is missing
    python -m benchmarks.peers.measure --venvs DIR faults --only ours strands

The model is a scripted server on this machine. `libraries.py` has the agent of each library, set up as its
documentation does; it runs in the library's environment, this driver in ours.

`faults`: runs against a server or a model that does one thing wrong and then goes on well. Each library
runs with its defaults, and once more with what it documents against failures but does not do by default
(`careful`). `kills`: a process is killed (SIGKILL) at a named moment of a run and started again, as the
library's documentation says how to resume; marks in a file tell which calls took effect. `packages`: what
a fresh environment gets. `costs`: CPU time of the process, never wall time; in each round every library
runs beside a hand-written loop, and shares are of that loop in the same round. The table has the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pure_agent_loop.testing import (
    EndEarly,
    ErrorChunk,
    Reset,
    ScriptedServer,
    answer,
    call,
    deltas,
    raw_call,
    status,
)

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "benchmarks" / "peers" / "libraries.py"
PACKAGES = {
    "ours": [f"{ROOT}[fast]"],
    "pydantic_ai": ["pydantic-ai-slim[openai,retries,dbos]"],
    "openai_agents": ["openai-agents", "dbos-openai-agents"],
    "langgraph": ["langchain", "langchain-openai", "langgraph-checkpoint-sqlite"],
    "smolagents": ["smolagents[openai]"],
    "strands": ["strands-agents[openai]"],
    "agno": ["agno", "openai", "sqlalchemy[asyncio]"],
    "openai_loop": ["openai"],
}
# What one installs for an agent that talks to OpenAI's protocol, and nothing else.
LEAST = {
    "ours": [str(ROOT)],
    "pydantic_ai": ["pydantic-ai-slim[openai]"],
    "openai_agents": ["openai-agents"],
    "langgraph": ["langchain", "langchain-openai"],
    "smolagents": ["smolagents[openai]"],
    "strands": ["strands-agents[openai]"],
    "agno": ["agno", "openai"],
    "openai_loop": ["openai"],
}
LIBRARIES = tuple(PACKAGES)[:-1]
BASELINE = "openai_loop"
WHOLE = "Everything is in its place."
PATIENCE = 180.0  # seconds for one case
ENDLESS = 60  # requests after which a model that repeats itself ends


def python_of(folder: Path, name: str) -> Path:
    """Return the Python of a library's environment; create the environment if it is missing."""
    home = folder / name
    if not (home / "ready").exists():
        venv.create(home, with_pip=True)
        install = [home / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES[name]]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        (home / "ready").touch()
    return home / "bin" / "python"


def start(folder: Path, name: str, mode: str, url: str, files: Path, *words: str) -> subprocess.Popen[str]:
    """Start `libraries.py` in a library's environment."""
    library = name.removesuffix("_httpx").removesuffix("_idempotent")
    settings = {
        "PAL_HTTP": "httpx" if name.endswith("_httpx") else "aiohttp",
        "IDEMPOTENT": "1" if name.endswith("_idempotent") else "",
        "OPENAI_API_KEY": "k",
        "LANGSMITH_TRACING": "false",
    }
    return subprocess.Popen(
        [python_of(folder, library), PROGRAM, library, mode, url, files, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **settings},
        cwd=files,
    )


def result_of(process: subprocess.Popen[str], patience: float = PATIENCE) -> dict[str, Any]:
    """Return the result that a process prints; an empty one if it prints none in time."""
    timer = threading.Timer(patience, process.kill)
    timer.start()
    assert process.stdout is not None
    try:
        for line in process.stdout:
            _, mark, text = line.partition("RESULT ")  # behind what a library wrote to the terminal
            if mark:
                found: dict[str, Any] = json.loads(text)
                return found
    finally:
        timer.cancel()
    return {}


# -- faults ------------------------------------------------------------------------------------------------


class Final:
    """The last answer of a run: a text, or a call for a library that ends by a call."""

    def __init__(self, *, is_call: bool) -> None:
        self.is_call = is_call

    def whole(self) -> Any:
        """Return the correct answer."""
        return call("final_answer", answer=WHOLE) if self.is_call else WHOLE

    def cut(self, *fault: Any, **options: Any) -> Any:
        """Return the beginning of an answer, followed by a fault."""
        begun = raw_call("final_answer", '{"answer": "Everything is ') if self.is_call else "Everything is "
        return deltas(begun, *fault, **options)


CASES: dict[str, Callable[[Final], list[Any]]] = {
    "429 with `Retry-After: 2`": lambda last: [
        status(429, "slow down", error_code="rate_limit_exceeded", headers={"Retry-After": "2"}),
        call("put", n=1),
        last.whole(),
    ],
    "503 once": lambda last: [status(503, "busy"), call("put", n=1), last.whole()],
    "connection reset in the answer": lambda last: [call("put", n=1), last.cut(Reset()), last.whole()],
    "answer ends early, without a finish reason": lambda last: [
        call("put", n=1),
        last.cut(EndEarly()),
        last.whole(),
    ],
    "error object in the answer": lambda last: [call("put", n=1), last.cut(ErrorChunk()), last.whole()],
    "stream ends inside a call": lambda last: [
        deltas(raw_call("put", '{"n": 1'), EndEarly()),
        call("put", n=1),
        last.whole(),
    ],
    "empty answer": lambda last: [call("put", n=1), answer(""), last.whole()],
    "answer cut at the output limit": lambda last: [
        call("put", n=1),
        last.cut(finish_reason="length"),
        last.whole() if last.is_call else "in its place.",
    ],
    "arguments are not JSON": lambda last: [raw_call("put", '{"n": 1'), call("put", n=1), last.whole()],
    "argument of a wrong type": lambda last: [call("put", n="one"), call("put", n=1), last.whole()],
    "unknown tool": lambda last: [call("take", n=1), call("put", n=1), last.whole()],
    "two calls with one id": lambda last: [
        [raw_call("put", '{"n": 1}', "c1"), raw_call("put", '{"n": 2}', "c1")],
        last.whole(),
    ],
    "the tool raises": lambda last: [[call("put", n=1), call("put", n=99)], last.whole()],
    "the same call for ever": lambda last: [call("put", n=1)] * ENDLESS + [last.whole()],
}
MARKS = {"two calls with one id": ["1", "2"]}


def play_faults(folder: Path, names: Iterable[str]) -> None:
    """Play every case in every library, streamed and plain, and print the table."""
    tables: dict[str, dict[str, str]] = {}
    for name in names:
        for words in ([], ["careful"]) if name not in ("ours", "smolagents") else ([],):
            title = f"{name}{', careful' if words else ''}"
            tables[title] = found = {}
            for case in CASES:
                cells = [play_case(folder, name, case, words, is_streamed) for is_streamed in (True, False)]
                found[case] = cells[0] if cells[0] == cells[1] else f"{cells[0]} / {cells[1]}"
                print(f"{title}: {case}: {found[case]}", file=sys.stderr, flush=True)
            good = sum(cell == "answer" for cell in found.values())
            found["answered, of those above"] = f"{good} of {len(CASES) - 1}"
    print_table("streamed / plain where they differ", [*CASES, "answered, of those above"], tables)


def play_case(folder: Path, name: str, case: str, words: Sequence[str], is_streamed: bool) -> str:
    """Play one case; return what came of it."""
    script = CASES[case](Final(is_call=name == "smolagents"))
    times: list[float] = []

    def next_item(_: Any) -> Any:
        times.append(time.monotonic())
        return script[min(len(times), len(script)) - 1]

    with tempfile.TemporaryDirectory() as files:
        marks = Path(files, "marks")
        marks.touch()
        with ScriptedServer(handler=next_item, check=False) as server:
            process = start(folder, name, "faults", server.base_url, Path(files), *words)
            assert process.stdin is not None
            process.stdin.write(json.dumps({"streamed": is_streamed}) + "\n")
            process.stdin.close()
            found = result_of(process)
            process.kill()
            process.wait()
        calls = sorted(marks.read_text().split())
    return verdict(case, found, times, calls)


def verdict(case: str, found: dict[str, Any], times: Sequence[float], calls: Sequence[str]) -> str:
    """Describe in a few words how a run ended."""
    if case == "the same call for ever":
        return f"stopped at {len(times)}" if len(times) <= ENDLESS else "not stopped"
    if not found:
        return "hangs"
    if found["error"]:
        print("  ", found["error"], file=sys.stderr)
        return "error"
    text = found["answer"].strip()
    if text != WHOLE:
        return "half an answer" if "Everything" in text else "no answer"
    if calls != (wanted := MARKS.get(case, ["1"])):
        return "a call too many" if len(calls) > len(wanted) else "a call too few"
    is_early = case.startswith("429") and times[1] - times[0] < 2
    return "answer, too early" if is_early else "answer"


# -- kills -------------------------------------------------------------------------------------------------


def rounds_done(messages: Sequence[dict[str, Any]]) -> int:
    """Count the responses with calls in a history, also where a library writes them as text."""
    native = sum(bool(message.get("tool_calls")) for message in messages)
    return native or json.dumps([each for each in messages if each["role"] != "system"]).count(
        "Calling tools:"
    )


def last_item(request: Any, text: str) -> Any:
    """Return the last answer as the library takes it."""
    names = {tool["function"]["name"] for tool in request.body.get("tools") or ()}
    return call("final_answer", answer=text) if "final_answer" in names else text


def play_kills(folder: Path, names: Iterable[str]) -> None:
    """Kill each library at each moment, and print the table."""
    tables: dict[str, dict[str, str]] = {}
    for name in names:
        for variant in (name, "ours_idempotent") if name == "ours" else (name,):
            tables[variant] = found = {}
            for case in ("asking", "beside", "after", "before"):
                found |= kill_in(folder, variant, case)
    print_table("killed", list(next(iter(tables.values()))), tables)


def kill_in(folder: Path, name: str, case: str) -> dict[str, str]:
    """Run, be killed at the moment `case`, run again; return what happened how often."""
    rounds = [[1], [2, 3], [4]] if case == "beside" else [[1], [2], [3]]
    running: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as files:

        def next_item(request: Any) -> Any:
            done = rounds_done(request.messages)
            if case == "asking" and done == 2 and not Path(files, "killed").exists():
                Path(files, "killed").touch()
                running[-1].kill()
            return (
                [call("put", n=n) for n in rounds[done]] if done < len(rounds) else last_item(request, WHOLE)
            )

        with ScriptedServer(handler=next_item, check=False) as server:
            for _ in range(2):
                running.append(start(folder, name, "kill", server.base_url, Path(files), case))
                found = result_of(running[-1])
                running[-1].kill()
                running[-1].wait()
            assert Path(files, "killed").exists(), f"{name} was not killed: {found}"
            effects = Counter(map(int, Path(files, "marks").read_text().split()))
    end = found.get("answer") or found.get("error") or "nothing"
    print(name, case, dict(effects), end, file=sys.stderr, flush=True)
    twice = [str(n) for n, count in sorted(effects.items()) if count > 1]
    made = {
        "asking": {
            "during a request to the model: finished calls that were repeated": ", ".join(twice) or "none"
        },
        "beside": {
            "during one of two parallel calls: executions of the finished call": times(effects[2]),
            "the same: executions of the interrupted call": times(effects[3]),
        },
        "after": {"during a call, after its effect: executions": times(effects[2])},
        "before": {"during a call, before its effect: executions": times(effects[2])},
    }[case]
    return {**made, f"the run ends with its answer ({case})": "yes" if end == WHOLE else "no"}


def times(count: int) -> str:
    """Describe how often something happened."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


# -- packages ----------------------------------------------------------------------------------------------


def count_packages(folder: Path, names: Iterable[str]) -> None:
    """Print how many packages a fresh environment gets, and how large they are."""
    tables: dict[str, dict[str, str]] = {}
    for name in [*names, BASELINE]:
        with tempfile.TemporaryDirectory() as home:
            venv.create(home, with_pip=True)
            python = Path(home, "bin", "python")
            command = [python, "-m", "pip", "install", "--quiet", "--no-compile", *LEAST[name]]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            listed = subprocess.run(
                [python, "-m", "pip", "list", "--format", "json"],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            found = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
            for own in ("pip", "setuptools", "wheel"):
                found.pop(own, None)
            package = re.split(r"\[", Path(LEAST[name][0]).name if name != "ours" else "pure-agent-loop")[0]
            size = sum(
                path.stat().st_size
                for path in Path(home).rglob("*")
                if path.is_file()
                and not path.is_symlink()
                and "site-packages" in path.parts
                and not re.search(r"/(pip|setuptools|pkg_resources|_distutils_hack)[/-]|\.pyc$", str(path))
            )
            tables[name] = {"version": found[package], "packages": str(len(found)), "MB": f"{size / 1e6:.0f}"}
            print(name, tables[name], file=sys.stderr, flush=True)
    print_table("", ["version", "packages", "MB"], tables)


# -- costs -------------------------------------------------------------------------------------------------

COSTS = {
    "loaded": ("loading, CPU ms over bare Python", 1e3),
    "first": ("until the first answer of a process, CPU ms", 1e3),
    "step": ("one step in a run of 50, CPU µs", 1e6),
    "short": ("a run of 2 steps, CPU µs", 1e6),
    "chunk": ("a streamed chunk, CPU µs", 1e6),
}


def cost_item(request: Any) -> Any:
    """Answer with as many calls, one after another, or chunks, as the task says."""
    asked = re.search(r"(steps|chunks) (\d+)", json.dumps(request.messages))
    assert asked is not None
    if asked[1] == "chunks":
        return deltas(*(f"{number:04} " for number in range(int(asked[2]))))
    done = rounds_done(request.messages)
    return call("put", n=done) if done < int(asked[2]) else last_item(request, "Done.")


def measure_costs(folder: Path, names: Iterable[str], rounds: int) -> None:
    """Measure in rounds, and print the medians."""
    rows = [BASELINE]
    for name in names:
        rows += ["ours_httpx", "ours"] if name == "ours" else [name]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in rows}
    with tempfile.TemporaryDirectory() as files, ScriptedServer(handler=cost_item, check=False) as server:
        for number in range(rounds):
            for name in rows if number % 2 else rows[::-1]:
                process = start(folder, name, "costs", server.base_url, Path(files))
                found[name].append(result_of(process))
                process.wait()
                print(number, name, found[name][-1], file=sys.stderr, flush=True)
    tables: dict[str, dict[str, str]] = {name: {} for name in rows}
    for key, (title, factor) in COSTS.items():
        for name in rows:
            values = [one[key] for one in found[name] if key in one]
            shares = [
                one[key] / base[key]
                for one, base in zip(found[name], found[BASELINE], strict=True)
                if key in one
            ]
            share = f" ({statistics.median(shares):.2f})" if shares and name != BASELINE else ""
            tables[name][title] = f"{statistics.median(values) * factor:,.0f}{share}" if values else ""
            if shares:
                print(f"{name} {key}: shares {min(shares):.2f} to {max(shares):.2f}", file=sys.stderr)
    print_table("", [title for title, _ in COSTS.values()], tables)


def print_table(corner: str, rows: Sequence[str], columns: dict[str, dict[str, str]]) -> None:
    """Print a table of Markdown."""
    print(f"\n| {corner} | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for row in rows:
        print(f"| {row} | " + " | ".join(cells.get(row, "") for cells in columns.values()) + " |", flush=True)


def main() -> None:
    """Make the environments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="+", choices=("faults", "kills", "packages", "costs"))
    parser.add_argument("--venvs", type=Path, required=True, help="folder of the environments")
    parser.add_argument("--only", nargs="+", default=LIBRARIES, choices=LIBRARIES)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of costs")
    options = parser.parse_args()
    folder = options.venvs.resolve()
    for what in options.what:
        if what == "faults":
            play_faults(folder, options.only)
        elif what == "kills":
            play_kills(folder, options.only)
        elif what == "packages":
            count_packages(folder, options.only)
        else:
            measure_costs(folder, options.only, options.rounds)


if __name__ == "__main__":
    main()
