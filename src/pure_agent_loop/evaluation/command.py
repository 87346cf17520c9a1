"""The command ``pure-agent-loop eval`` without a file: options, and the call of `benchmarks/bfcl`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pure_agent_loop.llm.base import ChatModel

ClientFactory = Callable[[argparse.Namespace], "ChatModel"]
DESCRIPTION = "Measure how well a model calls tools: the Berkeley Function Calling Leaderboard, single-turn."
EPILOG = """\
Groups of sets: standard (simple_python, multiple, parallel, parallel_multiple, irrelevance),
other_languages (simple_java, simple_javascript), live (live_simple, live_multiple, live_parallel,
live_parallel_multiple, live_irrelevance, live_relevance), all.

This needs a clone of the source, installed with: pip install -e CLONE
The questions and the checker come from the package bfcl-eval (Apache-2.0), fetched once (2 MB).
The same command resumes a stopped run, and repeats failed requests.
Exit codes: 0 all questions answered, 75 some requests failed.
"""
_CLONE = Path(__file__).resolve().parents[3]


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the command's options, except the model options, which the caller adds.

    Args:
        parser: An argument parser, or an argument group.
    """
    from pure_agent_loop.support.numbers import positive

    parser.add_argument("--sets", metavar="A,B", help="sets or groups of sets (default: standard)")
    parser.add_argument("--limit", type=positive, metavar="N", help="questions per set (default: all)")
    parser.add_argument(
        "--seed", type=int, metavar="S", help="seed for the --limit sample (default: take the first)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="results file (default: eval.jsonl)")
    parser.add_argument(
        "--concurrency", type=positive, default=1, metavar="N", help="concurrent questions (default: 1)"
    )
    parser.add_argument(
        "--max-tokens", type=positive, metavar="N", help="output tokens per answer (default: the server's)"
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        default=None,
        help="ask all questions of the standard sets without confirmation",
    )
    parser.add_argument(
        "--table",
        choices=("text", "markdown"),
        default="text",
        help="table format (default: text)",
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
        ConfigError: An option is invalid, this is not a clone of the source, or the leaderboard's package
            cannot be fetched.
        LLMError: The model cannot be reached. The results so far are in the file.
        KeyboardInterrupt: Ctrl-C. The results so far are in the file, and a table of them was written.
    """
    from pure_agent_loop.errors import ConfigError

    folder = _CLONE / "benchmarks" / "bfcl"
    if not folder.is_dir():
        from pure_agent_loop.support.language import notice

        raise ConfigError(notice("library.bfcl_missing", folder=folder))
    sys.path.insert(0, str(_CLONE))  # not the working folder: it may contain another `benchmarks`
    try:
        bfcl = importlib.import_module("benchmarks.bfcl.command")
    finally:
        sys.path.remove(str(_CLONE))
    code: int = bfcl.run(args, client_factory, out or sys.stdout, err or sys.stderr, confirm)
    return code
