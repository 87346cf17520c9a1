"""A run over the questions: its options, results file and table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from benchmarks.bfcl.checker import Checker
from benchmarks.bfcl.package import NAME, ensure_package
from benchmarks.bfcl.questions import LeaderboardQuestion, load_questions, pick, set_names
from benchmarks.bfcl.results import QuestionResult, ResultsFile
from benchmarks.bfcl.runner import Setup, evaluate
from benchmarks.bfcl.table import as_markdown, as_text, summarise
from pure_agent_loop.evaluation.progress import Progress
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import is_terminal, knows_escapes

ClientFactory = Callable[[argparse.Namespace], ChatModel]
DONE, TRANSIENT = 0, 75
DEFAULT_OUT = Path("eval.jsonl")


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options, except the model options, which the caller adds.

    Args:
        parser: An argument parser, or an argument group.
    """
    parser.add_argument("--sets", metavar="A,B", help="sets or groups of sets (default: standard)")
    parser.add_argument("--limit", type=positive, metavar="N", help="questions per set (default: all)")
    parser.add_argument(
        "--seed", type=int, metavar="S", help="seed for the --limit sample (default: take the first)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"results file (default: {DEFAULT_OUT})")
    parser.add_argument(
        "--concurrency", type=positive, default=1, metavar="N", help="concurrent questions (default: 1)"
    )
    parser.add_argument(
        "--max-tokens", type=positive, metavar="N", help="output tokens per answer (default: the server's)"
    )
    parser.add_argument(
        "--yes", action="store_true", help="ask all questions of the standard sets without confirmation"
    )
    parser.add_argument(
        "--table", choices=("text", "markdown"), default="text", help="table format (default: text)"
    )


def run(
    args: argparse.Namespace,
    client_factory: ClientFactory,
    out: TextIO | None = None,
    err: TextIO | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> int:
    """Evaluate, write the results file and the table, and return the exit code.

    Args:
        args: Options of `add_arguments`, and ``temperature`` if present (else 0).
        client_factory: Function that makes the client; called once. The client is closed at the end.
        out: Stream for the table; standard output if None.
        err: Stream for progress; standard error if None.
        confirm: Function called with the number of questions and the cost before the first question; if it
            returns False, the run ends with exit code 0.

    Raises:
        ConfigError: An option is invalid, or the leaderboard's package cannot be fetched.
        LLMError: The model cannot be reached. The results so far are in the file.
        KeyboardInterrupt: Ctrl-C. The results so far are in the file, and a table of them was written.
    """
    out, err = out or sys.stdout, err or sys.stderr
    sets = args.sets or "standard"
    names = set_names(word.strip() for word in sets.split(",") if word.strip())
    package = ensure_package(progress=lambda text: print(f"eval: {text}", file=err, flush=True))
    questions = _questions(package, names, args)
    client, options = client_factory(args), _options(args)
    label = describe(client, args, options)
    try:
        with ResultsFile(args.out or DEFAULT_OUT, label) as results, Checker(package) as checker:
            setup = Setup(client, checker, label, options, args.concurrency)
            evaluation = _Evaluation(setup, questions, results, out, err)
            if confirm is not None and evaluation.left and not confirm(plan(evaluation.left, client, sets)):
                if not results.records:
                    results.path.unlink()
                return DONE
            return evaluation.run(args.table)
    finally:
        run_sync(_close(client))


def _questions(package: Path, names: list[str], args: argparse.Namespace) -> list[LeaderboardQuestion]:
    chosen = [pick(load_questions(package, name), args.limit, args.seed) for name in names]
    return [question for questions in chosen for question in questions]


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
    """Describe the settings of a run in one line, without the server's URL: a local one often changes."""
    mode = getattr(client, "tool_mode", None) or getattr(args, "tool_mode", None)
    named = {"tool_mode": mode, "thinking": getattr(args, "thinking", None), **options}
    settings = [f"{name}={value}" for name, value in named.items() if value is not None]
    return ", ".join([str(getattr(client, "model", type(client).__name__)), *settings, NAME])


def plan(questions: Sequence[LeaderboardQuestion], client: Any, sets: str) -> str:
    """Return the number of questions, their sets, their estimated tokens and, if it is known, their cost."""
    tokens = sum(
        estimate_tokens(json.dumps(question.tools)) + sum(map(estimate_message, question.messages))
        for question in questions
    )
    price = price_of(client)
    cost = "" if price is None else f", ${price.of(TokenUsage(tokens, 0, tokens)):,.2f}"
    shown = round(tokens, -3) or tokens
    return f"{len(questions):,} questions ({sets}): about {shown:,} input tokens{cost}, plus answers."


class _Evaluation:
    """One run of the command."""

    def __init__(
        self,
        setup: Setup,
        questions: list[LeaderboardQuestion],
        results: ResultsFile,
        out: TextIO,
        err: TextIO,
    ) -> None:
        self._setup, self._questions, self._results = setup, questions, results
        self._out, self._err = out, err
        wanted = {question.id for question in questions}
        known = [record for id_, record in results.records.items() if id_ in wanted]
        self._records: dict[str, QuestionResult] = {record.id: record for record in known if record.answered}
        self.left = [question for question in questions if question.id not in self._records]

    def run(self, table: str) -> int:
        self._say_start(len(self.left))
        before = list(self._records.values())
        is_live = is_terminal(self._err) and knows_escapes()
        progress = Progress(self._tell, len(self._questions), before, live=is_live)
        try:
            run_sync(self._ask(self.left, progress))
        finally:
            progress.end()
            self._write_table(table)
        return DONE if all(record.answered for record in self._records.values()) else TRANSIENT

    def _say_start(self, left: int) -> None:
        results, count = self._results, len(self._records)
        self._tell(f"eval: {self._setup.run}\n")
        if results.broken:
            self._tell(f"eval: {results.broken} unreadable lines in {results.path} are ignored\n")
        if count:
            self._tell(f"eval: resuming {results.path}: {count} results, {left} questions left\n")

    async def _ask(self, left: list[LeaderboardQuestion], progress: Any) -> None:
        def keep(record: QuestionResult) -> None:
            self._results.add(record)
            self._records[record.id] = record
            progress.add(record)

        await evaluate(self._setup, left, keep)

    def _write_table(self, style: str) -> None:
        wanted: dict[str, int] = {}
        for question in self._questions:
            wanted[question.set.name] = wanted.get(question.set.name, 0) + 1
        rows = summarise(self._records.values(), wanted)
        self._out.write(as_markdown(rows) if style == "markdown" else as_text(rows))
        self._out.flush()

    def _tell(self, text: str) -> None:
        self._err.write(text)
        self._err.flush()
