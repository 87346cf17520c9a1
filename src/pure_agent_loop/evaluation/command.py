"""``pure-agent-loop eval``: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pure_agent_loop.support.numbers import positive

if TYPE_CHECKING:
    from pure_agent_loop.evaluation.bfcl import Question
    from pure_agent_loop.evaluation.results import Record, ResultsFile
    from pure_agent_loop.evaluation.runner import Setup
    from pure_agent_loop.llm.base import ChatModel

ClientFactory = Callable[[argparse.Namespace], "ChatModel"]
DESCRIPTION = "Measure how well a model calls tools: the Berkeley Function Calling Leaderboard, single-turn."
EPILOG = """\
Groups of sets: standard (simple_python, multiple, parallel, parallel_multiple, irrelevance),
other_languages (simple_java, simple_javascript), live (live_simple, live_multiple, live_parallel,
live_parallel_multiple, live_irrelevance, live_relevance), all.

The questions and the checker come from the package bfcl-eval (Apache-2.0), fetched once (2 MB).
The same command goes on where it was stopped, and asks again where a request had failed.
Exit codes: 0 all questions answered, 75 some requests failed.
"""
DONE, TRANSIENT = 0, 75
DEFAULT_OUT = Path("eval.jsonl")


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the command's own options; those that choose the model are the caller's.

    Args:
        parser: A parser or a group of it.
    """
    parser.add_argument("--sets", metavar="A,B", help="sets or groups of sets (default: standard)")
    parser.add_argument("--limit", type=positive, metavar="N", help="so many questions of each set")
    parser.add_argument(
        "--seed", type=int, metavar="S", help="which questions --limit takes (default: the first ones)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="results (default: eval.jsonl)")
    parser.add_argument(
        "--concurrency", type=positive, default=1, metavar="N", help="questions at a time (default: 1)"
    )
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="limit of each answer")
    parser.add_argument(
        "--table",
        choices=("text", "markdown"),
        default="text",
        help="how the table is written (default: text)",
    )


def run(
    args: argparse.Namespace,
    client_factory: ClientFactory,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Evaluate, write the results file and the table, and return the exit code.

    Args:
        args: What `add_arguments` describes; ``temperature`` is used too if it is there (else 0).
        client_factory: Makes the client to ask; called once. The client is closed at the end.
        out: For the table; standard output if None.
        err: For progress; standard error if None.

    Raises:
        ConfigError: An option cannot work, or the leaderboard's package cannot be fetched.
        LLMError: The model cannot be reached at all. Results so far are in the file.
        KeyboardInterrupt: Ctrl-C. Results so far are in the file, and the table of them was written.
    """
    from pure_agent_loop.evaluation.bfcl import set_names
    from pure_agent_loop.evaluation.checker import Checker
    from pure_agent_loop.evaluation.package import ensure_package
    from pure_agent_loop.evaluation.results import ResultsFile
    from pure_agent_loop.evaluation.runner import Setup
    from pure_agent_loop.support.portal import run_sync

    out, err = out or sys.stdout, err or sys.stderr
    names = set_names(word.strip() for word in (args.sets or "standard").split(",") if word.strip())
    package = ensure_package(progress=lambda text: print(f"eval: {text}", file=err, flush=True))
    questions = _questions(package, names, args)
    client, options = client_factory(args), _options(args)
    label = describe(client, args, options)
    try:
        with ResultsFile(args.out or DEFAULT_OUT, label) as results, Checker(package) as checker:
            setup = Setup(client, checker, label, options, args.concurrency)
            return _Evaluation(setup, questions, results, out, err).run(args.table)
    finally:
        run_sync(_close(client))


def _questions(package: Path, names: list[str], args: argparse.Namespace) -> list[Question]:
    from pure_agent_loop.evaluation.bfcl import load_questions, pick

    chosen = [pick(load_questions(package, name), args.limit, args.seed) for name in names]
    return [question for each in chosen for question in each]


async def _close(client: Any) -> None:
    if hasattr(client, "aclose"):
        await client.aclose()


def _options(args: argparse.Namespace) -> dict[str, Any]:
    temperature = getattr(args, "temperature", None)
    options: dict[str, Any] = {"temperature": 0 if temperature is None else temperature}
    if args.max_tokens is not None:
        options["max_tokens"] = args.max_tokens
    return options


def describe(client: Any, args: argparse.Namespace, options: dict[str, Any]) -> str:
    """What results depend on, in one line. The server's address is left out: a local one often changes."""
    from pure_agent_loop.evaluation.package import NAME

    mode = getattr(client, "tool_mode", None) or getattr(args, "tool_mode", None)
    named = {"tool_mode": mode, "thinking": getattr(args, "thinking", None), **options}
    settings = [f"{name}={value}" for name, value in named.items() if value is not None]
    return ", ".join([str(getattr(client, "model", type(client).__name__)), *settings, NAME])


class _Evaluation:
    """One run of the command."""

    def __init__(
        self, setup: Setup, questions: list[Question], results: ResultsFile, out: TextIO, err: TextIO
    ) -> None:
        self._setup, self._questions, self._results = setup, questions, results
        self._out, self._err = out, err
        wanted = {question.id for question in questions}
        known = [record for id_, record in results.records.items() if id_ in wanted]
        self._records: dict[str, Record] = {record.id: record for record in known if record.answered}

    def run(self, table: str) -> int:
        from pure_agent_loop.evaluation.progress import Progress
        from pure_agent_loop.support.portal import run_sync
        from pure_agent_loop.support.terminal import is_terminal

        left = [question for question in self._questions if question.id not in self._records]
        self._say_start(len(left))
        before = list(self._records.values())
        progress = Progress(self._tell, len(self._questions), before, live=is_terminal(self._err))
        try:
            run_sync(self._ask(left, progress))
        finally:
            progress.end()
            self._write_table(table)
        return DONE if all(record.answered for record in self._records.values()) else TRANSIENT

    def _say_start(self, left: int) -> None:
        results, found = self._results, len(self._records)
        self._tell(f"eval: {self._setup.run}\n")
        if results.broken:
            self._tell(f"eval: {results.broken} unreadable lines of {results.path} are left out\n")
        if found:
            self._tell(f"eval: {found} results are in {results.path} already, {left} questions left\n")

    async def _ask(self, left: list[Question], progress: Any) -> None:
        from pure_agent_loop.evaluation.runner import evaluate

        def keep(record: Record) -> None:
            self._results.add(record)
            self._records[record.id] = record
            progress.add(record)

        await evaluate(self._setup, left, keep)

    def _write_table(self, style: str) -> None:
        from pure_agent_loop.evaluation.table import as_markdown, as_text, summarise

        wanted: dict[str, int] = {}
        for question in self._questions:
            wanted[question.set.name] = wanted.get(question.set.name, 0) + 1
        rows = summarise(self._records.values(), wanted)
        self._out.write(as_markdown(rows) if style == "markdown" else as_text(rows))
        self._out.flush()

    def _tell(self, text: str) -> None:
        self._err.write(text)
        self._err.flush()
