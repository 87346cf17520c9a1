"""Kill runs with a fallback model in the middle of responses: is a call made twice, or text doubled?

    python -m benchmarks.fallback_kill --kills 50

In each step the first model breaks off in the middle of its text, after a call that must never be made, and
the second one continues. The servers kill the run (SIGKILL) at random pieces of either part; it is resumed
until it is done. Each effect of a tool is a line in a file. At the end, effects, history and records are
compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, Fallback, OpenAIClient, RetryConfig, tool
from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.sessions import JsonlStore, Record, SqliteStore
from pure_agent_loop.testing import ScriptedServer, call, check_history, deltas
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import Reset, ServerFault

STEPS, WORDS, CUT = 4, 12, 6  # the last step has no call; words of a text, and of the first model's part
NEVER = 999
FARTHEST = 2 * WORDS  # pieces from the beginning of a run to a kill, so that most come in the middle
PATIENCE, MAX_RUNS = 60.0, 40


def text_of_step(step: int) -> list[str]:
    """Return the words of a step's text."""
    return [f"s{step}w{number} " for number in range(WORDS)]


class Killer:
    """Counts pieces of responses, and kills the run at one of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.places: Counter[str] = Counter()
        self._pid = self._left = 0

    def watch(self, pid: int, left: int) -> None:
        """Kill a process after this many pieces; never if 0."""
        self._pid, self._left = pid, left

    def count(self, model: str) -> None:
        """Count a piece of a model."""
        self._left -= 1
        if self._left == 0:
            os.kill(self._pid, signal.SIGKILL)
            self.places[model] += 1


@dataclass(frozen=True, slots=True)
class Piece(ServerFault):
    """End of a piece, at which the run may be killed."""

    killer: Killer
    model: str

    async def play(self, _: Exchange) -> bool:
        """Let the run read some pieces or none, and kill the run if due."""
        await asyncio.sleep(self.killer.rng.uniform(0, 0.003))
        self.killer.count(self.model)
        return True


def next_response(messages: Sequence[dict[str, Any]], piece: Piece, wrong: list[str]) -> Any:
    """Return a model's response, independent of the history."""
    done = [message for message in messages if message.get("tool_calls")]
    step = len(done) + 1
    for number, message in enumerate(done, 1):
        if message["content"] != "".join(text_of_step(number)):
            wrong.append(f"step {number} was sent as {message['content']!r}")
    words = text_of_step(step)
    if piece.model == "first":
        return deltas(*_in_pieces(words[:CUT], piece), call("put", n=NEVER), piece, Reset())
    is_told = "interrupted" in str(messages[-1]["content"])
    if not is_told or messages[-2]["content"] != "".join(words[:CUT]):
        wrong.append(f"step {step} is to be continued after {messages[-2:]}")
    calls = [call("put", n=step)] if step < STEPS else []
    return deltas(*_in_pieces(words[CUT:], piece), *calls, piece)


def _in_pieces(words: Sequence[str], piece: Piece) -> list[Any]:
    return [item for word in words for item in (word, piece)]


def store_of(folder: Path, kind: str) -> JsonlStore | SqliteStore:
    """Return the store of sessions of a kind."""
    return JsonlStore(folder / "files") if kind == "jsonl" else SqliteStore(folder / "sessions.sqlite")


def be_run(folder: Path, session: str, first: str, second: str) -> None:
    """Start or resume a run in a separate process."""
    handle = os.open(folder / f"{session}.marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @tool
    def put(n: int) -> str:
        """Put a thing in its place."""
        os.write(handle, f"{n}\n".encode())
        return f"put {n}"

    models = [OpenAIClient(name, "k", url) for name, url in (("first", first), ("second", second))]
    store = store_of(folder, session.partition("-")[0])
    agent = Agent(
        llm=Fallback(models, cooldown=0.001),
        tools=[put],
        sessions=store,
        retry=RetryConfig(max_retries=0),
    )
    is_new = not any(record.type == "run" for record in records_of(store, session))
    print("ready", flush=True)
    sys.stdin.readline()
    result = agent.run("Put everything in its place." if is_new else None, session_id=session)
    found = {"messages": result.messages, "reason": result.stop_reason, "content": result.content}
    new = folder / f"{session}.new"
    new.write_text(json.dumps(found))
    new.rename(folder / f"{session}.json")


def records_of(store: JsonlStore | SqliteStore, session: str) -> list[Record]:
    """Return the records of a session; none if it has not begun."""
    try:
        return list(store.read(session).records)
    except SessionNotFoundError:
        return []


def kill_runs(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill the run a number of times, resume, and compare.

    Args:
        folder: Folder of all files.
        kills: Number of kills.
        seed: Seed of the random moments.

    Returns:
        Counts, and a line for each thing that is wrong.
    """
    killer, wrong, done, runs, sessions = Killer(seed), list[str](), 0, 0, 0
    pieces = Piece(killer, "first"), Piece(killer, "second")
    with (
        ScriptedServer(handler=lambda request: next_response(request.messages, pieces[0], wrong)) as first,
        ScriptedServer(handler=lambda request: next_response(request.messages, pieces[1], wrong)) as second,
    ):
        while done < kills and not wrong:
            sessions += 1
            session = f"{('jsonl', 'sqlite')[sessions % 2]}-{sessions}"
            for _ in range(MAX_RUNS):
                words = [str(folder), session, first.base_url, second.base_url]
                runs += 1
                code = _run_once(words, killer, killer.rng.randint(1, FARTHEST) if done < kills else 0)
                done += code == -signal.SIGKILL
                if code not in (0, -signal.SIGKILL):
                    wrong.append(f"{session} ended with {code}")
                if (folder / f"{session}.json").exists() or wrong:
                    break
            wrong += [f"{session}: {problem}" for problem in compare(folder, session)]
    return {"kills": done, "in": dict(killer.places), "runs": runs, "sessions": sessions, "wrong": wrong}


def _run_once(words: Sequence[str], killer: Killer, left: int) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fallback_kill", "--run", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    killer.watch(process.pid, left)
    process.communicate("go\n", timeout=PATIENCE)
    return process.returncode


def compare(folder: Path, session: str) -> list[str]:
    """Return what is wrong with a finished session."""
    path = folder / f"{session}.json"
    if not path.exists():
        return ["it did not finish"]
    found, wrong = json.loads(path.read_text()), list[str]()
    wrong += check_history(found["messages"])
    marks = (folder / f"{session}.marks").read_text().split()
    if marks != [str(step) for step in range(1, STEPS)]:
        wrong.append(f"these calls were made: {marks}")
    texts = [message["content"] for message in found["messages"] if message["role"] == "assistant"]
    expected = ["".join(text_of_step(step)) for step in range(1, STEPS + 1)]
    if texts != expected or (found["content"], found["reason"]) != (expected[-1], "completed"):
        wrong.append(f"these texts were written: {texts}")
    records = records_of(store_of(folder, session.partition("-")[0]), session)
    answers = [record.data for record in records if record.type == "answer"]
    if [answer["key"] for answer in answers] != [f"{step}:model" for step in range(1, STEPS + 1)]:
        wrong.append(f"these responses were recorded: {[answer['key'] for answer in answers]}")
    seam = len("".join(text_of_step(1)[:CUT]))
    wrong += [
        f"{answer['key']} was served by {answer['value'].get('served')}"
        for answer in answers
        if answer["value"].get("served") != [["first", 0], ["second", seam]]
    ]
    return wrong


def main() -> int:
    """Parse the command line, kill runs, and print the results."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        be_run(Path(options.run[0]), *options.run[1:])
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_runs(Path(folder), options.kills, options.seed)
    print(json.dumps({**found, "seconds": round(time.monotonic() - begun, 1)}))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
