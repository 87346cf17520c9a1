"""Measure how often the embedded model makes the right calls with the three starter tools.

    python -m benchmarks.local_tools [--model NAME_OR_PATH] [--set first|held-out|both] [--way ours] [--show]
    python -m benchmarks.local_tools --tools full --set both --way ours   # the long list, and tasks

Two sets of 35 questions: 25 that need a tool, 10 that need none. The first set was written before anything
was tuned; the held-out set was written on the same day and run only when everything was settled.

Every way runs through the same `Agent`, in a folder that holds the files the questions speak of:

- ``native``: the tools are sent as tools, and the server's chat template is trusted.
- ``ours``: as `Agent` does it by itself: chosen by likelihood, then filled in.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.full_tools import (
    TASKS,
    Task,
    file_tools,
    full_tools,
    make_workspace,
    right_arguments,
    right_tools,
)
from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.local import open_local
from pure_agent_loop.local.engine import models
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox import starter_tools

LIST, READ, SUM = "list_dir", "read_file", "calculator"
MAX_TOKENS = 96
MAX_STEPS = 8
TOOLS: dict[str, Callable[[Path], list[Tool]]] = {
    "starter": starter_tools,
    "files": file_tools,
    "full": full_tools,
}


@dataclass(frozen=True)
class Question:
    """A question, the tool it needs (None: none), and the tool's value: a path, or what a sum comes to."""

    text: str
    tool: str | None = None
    value: str | float = ""


def _questions(tool: str | None, *rows: tuple[str, str | float]) -> list[Question]:
    return [Question(text, tool, value) for text, value in rows]


FIRST = [
    *_questions(
        LIST,
        ("Which files are in the docs folder?", "docs"),
        ("List the files in this directory.", "."),
        ("What is inside src?", "src"),
        ("Show me the contents of the tests folder.", "tests"),
        ("What files do we have here?", "."),
        ("Can you list everything in examples/basic?", "examples/basic"),
        ("Is there a file called LICENSE in this folder?", "."),
        ("How many files are in the data directory?", "data"),
    ),
    *_questions(
        READ,
        ("Read README.md", "README.md"),
        ("What does pyproject.toml say?", "pyproject.toml"),
        ("Show me the first line of notes.txt.", "notes.txt"),
        ("Which Python version does setup.cfg require?", "setup.cfg"),
        ("Open src/main.py and tell me what it does.", "src/main.py"),
        ("What is written in docs/guide.md?", "docs/guide.md"),
        ("Summarise CHANGELOG.md for me.", "CHANGELOG.md"),
        ("Print the text of config.json.", "config.json"),
    ),
    *_questions(
        SUM,
        ("What is 17 * 23?", 391),
        ("How much is 144 divided by 12?", 12),
        ("Calculate 3.5 + 4.25", 7.75),
        ("What is the sum of 17 and 25?", 42),
        ("Subtract 19 from 100.", 81),
        ("Work out (12 + 8) * 3.", 60),
        ("What is 2 to the power of 10?", 1024),
        ("I have 45 apples and eat 7. How many are left?", 38),
        ("What is 1024 - 768?", 256),
    ),
    Question("Hello, how are you?"),
    Question("What is the capital of France?"),
    Question("Tell me a joke."),
    Question("Who wrote Hamlet?"),
    Question("Thank you!"),
    Question("What can you do?"),
    Question("Write a short poem about rain."),
    Question("What colour is the sky?"),
    Question('Translate "good morning" into Spanish.'),
    Question("Why do cats purr?"),
]
HELD_OUT = [
    *_questions(
        LIST,
        ("What's in the assets folder?", "assets"),
        ("Show all files of the current directory.", "."),
        ("Which documents are stored in reports/2024?", "reports/2024"),
        ("List the directory build.", "build"),
        ("Give me the names of the files in scripts.", "scripts"),
        ("What do you see in the working folder?", "."),
        ("Are there any files in the logs directory?", "logs"),
        ("Please look into config and tell me what is there.", "config"),
    ),
    *_questions(
        READ,
        ("What is in the file todo.txt?", "todo.txt"),
        ("Read setup.py and explain it.", "setup.py"),
        ("Show me LICENSE", "LICENSE"),
        ("What does the file docs/api.md contain?", "docs/api.md"),
        ("What is the name of the project in package.json?", "package.json"),
        ("Please open data/users.csv.", "data/users.csv"),
        ("Display the content of main.c", "main.c"),
        ("Tell me what Makefile does.", "Makefile"),
    ),
    *_questions(
        SUM,
        ("What is 56 + 78?", 134),
        ("Multiply 12 by 34.", 408),
        ("How much is 1000 minus 333?", 667),
        ("What is 81 / 9?", 9),
        ("Compute 7 * (6 + 5)", 77),
        ("What do you get if you add 3, 4 and 5?", 12),
        ("What is 9 squared?", 81),
        ("A book costs 12 dollars. How much do 5 books cost?", 60),
        ("2.5 times 8 is what?", 20),
    ),
    Question("Good evening!"),
    Question("Who are you?"),
    Question("What is the largest planet?"),
    Question("Give me a name for my cat."),
    Question("How do I boil an egg?"),
    Question("Explain what a database is."),
    Question("Who painted the Mona Lisa?"),
    Question("Say something nice."),
    Question("What is the opposite of hot?"),
    Question("Where do penguins live?"),
]
SETS = {"first": FIRST, "held-out": HELD_OUT}


WAYS = {"native": "native", "ours": "auto"}  # tool modes


@dataclass
class Score:
    """Counts of one run."""

    tool: int = 0
    arguments: int = 0
    none: int = 0
    answer: int = 0
    steps: int = 0
    seconds: float = 0.0
    misses: list[str] = field(default_factory=list)

    def add(self, question: Question, calls: list[dict[str, Any]], answer: str, folder: Path) -> None:
        """Count one finished run."""
        first = calls[0] if calls else None
        right = (first["tool"] if first else None) == question.tool
        if question.tool is None:
            self.none += right
        elif right and first:
            self.tool += 1
            good = _right_arguments(question, first["args"])
            self.arguments += good
            right = good and _holds_value(question, answer, folder)
            self.answer += right
        if not right:
            self.misses.append(f"{question.text} -> {first or 'no call'}: {answer[:160]!r}")

    def add_task(
        self, task: Task, calls: list[tuple[str, dict[str, Any]]], answer: str, folder: Path
    ) -> None:
        """Count one finished task; every answer of a right one counts, the tools' results are shown in it."""
        right = right_tools(task, calls)
        if not task.steps:
            self.none += right
        elif right:
            self.tool += 1
            right = right_arguments(task, calls, folder)
            self.arguments += right
            self.answer += right and bool(answer.strip())
        if not right:
            self.misses.append(f"{task.text} -> {calls or 'no call'}: {answer[:160]!r}")


def _right_arguments(question: Question, arguments: dict[str, Any]) -> bool:
    if question.tool == SUM:
        return _comes_to(str(arguments.get("expression", "")), float(question.value))
    path = str(arguments.get("path", "."))
    return path.rstrip("/").removeprefix("./") in (
        question.value,
        "" if question.value == "." else question.value,
    )


def _comes_to(expression: str, value: float) -> bool:
    from pure_agent_loop.toolbox import calculator

    try:
        return abs(float(calculator(expression)) - value) < 1e-9
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not right
        return False


def _holds_value(question: Question, answer: str, folder: Path) -> bool:
    """True if the final answer holds what the tool found out."""
    if question.tool == SUM:
        return f"{question.value:g}" in answer
    path = folder / str(question.value)
    wanted = [p.name for p in path.iterdir()] if path.is_dir() else [path.read_text().strip()]
    return all(text in answer for text in wanted)


def make_folder(folder: Path, questions: Sequence[Question]) -> None:
    """The files and folders the questions speak of."""
    for number, question in enumerate(questions):
        path = folder / str(question.value)
        if question.tool == LIST and question.value != ".":
            path.mkdir(parents=True, exist_ok=True)
            (path / f"part{number}.txt").write_text("x")
        elif question.tool == READ:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"the code word is k{number}w{number * 7}\n")


async def measure(
    client: BaseLLMClient, way: str, questions: Sequence[Question], folder: Path, tools: str = "starter"
) -> Score:
    """Ask each question of a new agent."""
    score = Score()
    for question in questions:
        agent = Agent(
            llm=client,
            tools=TOOLS[tools](folder),
            limits=LoopLimits(max_turns=3),
            temperature=0,
            max_tokens=MAX_TOKENS,
            tool_mode=WAYS[way],
        )
        started = time.monotonic()
        result = await agent.arun(question.text)
        score.seconds += time.monotonic() - started
        score.steps += result.steps
        calls = [e.data for e in result.events if e.type.value == "action"]
        score.add(question, calls, result.content, folder)
    return score


async def measure_tasks(client: BaseLLMClient, way: str, tasks: Sequence[Task], tools: str) -> Score:
    """Give each task to a new agent, in a new folder."""
    score = Score()
    for task in tasks:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_workspace(folder)
            limits = LoopLimits(max_turns=MAX_STEPS)
            agent = Agent(
                llm=client,
                tools=TOOLS[tools](folder),
                limits=limits,
                temperature=0,
                max_tokens=MAX_TOKENS,
                tool_mode=WAYS[way],
            )
            started = time.monotonic()
            result = await agent.arun(task.text)
            score.seconds += time.monotonic() - started
            score.steps += result.steps
            calls = [(e.data["tool"], e.data["args"]) for e in result.events if e.type.value == "action"]
            score.add_task(task, calls, result.content, folder)
    return score


async def compare(model: str, sets: Sequence[str], ways: Sequence[str], show: bool, tools: str) -> None:
    """Print the table."""
    client = open_local(model, print)
    print(f"\n{client.name}: tiny: {client.is_tiny}")
    print(
        "| set | way | right tool /25 | and arguments /25 | answer holds the value /25 | none /10 | s/step |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in sets:
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                make_folder(Path(folder), SETS[name])
                _print_row(name, way, await measure(client, way, SETS[name], Path(folder), tools), show)
    if tools != "starter":
        print("\n| tasks | way | right tools | and arguments | answer | none | s/step |")
        print("|---|---|---|---|---|---|---|")
        for name in sets:
            for way in ways:
                _print_row(_counted(name), way, await measure_tasks(client, way, TASKS[name], tools), show)
    await client.aclose()


def _counted(name: str) -> str:
    tasks = TASKS[name]
    none = sum(not task.steps for task in tasks)
    return f"{name} ({len(tasks) - none} need tools, {none} none)"


def _print_row(name: str, way: str, s: Score, show: bool) -> None:
    pace = s.seconds / max(1, s.steps)
    print(f"| {name} | {way} | {s.tool} | {s.arguments} | {s.answer} | {s.none} | {pace:.2f} |", flush=True)
    if show:
        print(*[f"    {miss}" for miss in s.misses], sep="\n", flush=True)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.local_tools")
    parser.add_argument("--model", default=models.DEFAULT)
    parser.add_argument("--set", choices=[*SETS, "both"], default="first")
    parser.add_argument("--way", action="append", choices=[*WAYS])
    parser.add_argument("--tools", choices=[*TOOLS], default="starter", help="which tools are offered")
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    options = parser.parse_args()
    sets = list(SETS) if options.set == "both" else [options.set]
    ways = options.way or [*WAYS]
    asyncio.run(compare(options.model, sets, ways, options.show, options.tools))


if __name__ == "__main__":
    main()
