"""Measure how well a model calls tools: ``python -m benchmarks.bfcl``, in a clone of the source."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bfcl.command import add_arguments, run
from benchmarks.model_choice import reported, typed_options
from pure_agent_loop.cli.arguments import add_options, read_options
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.options import ModelOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.prompts import prompts_for

DESCRIPTION = "Measure how well a model calls tools: the Berkeley Function Calling Leaderboard, single-turn."
EPILOG = """\
Groups of sets: standard (simple_python, multiple, parallel, parallel_multiple, irrelevance),
other_languages (simple_java, simple_javascript), live (live_simple, live_multiple, live_parallel,
live_parallel_multiple, live_irrelevance, live_relevance), all.

The questions and the checker come from the package bfcl-eval (Apache-2.0), fetched once (2 MB).
The same command resumes a stopped run, and repeats failed requests.
Exit codes: 0 all questions answered, 75 some requests failed.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: The arguments; those of the process if None.
    """
    parser = argparse.ArgumentParser(
        "python -m benchmarks.bfcl",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser.add_argument_group("model"), ModelOptions)
    add_arguments(parser.add_argument_group("questions"))
    options = parser.parse_args(argv)
    options.typed_options = typed_options(parser, argv)
    return reported(lambda output: evaluate(options, output))


def evaluate(options: argparse.Namespace, output: CommandOutput) -> int:
    """Ask the questions and return the exit code; without a choice of questions, ask for a confirmation.

    Raises:
        ConfigError: Nothing was chosen and there is no terminal.
    """
    model, questions = read_options(ModelOptions, options), TerminalQuestions.at_terminal(output)
    configure(model, output, Path.cwd(), questions)
    is_chosen = options.yes or options.sets is not None or options.limit is not None
    if not is_chosen and questions is None:
        raise ConfigError(
            "Nothing was chosen, and there is no terminal to confirm on. Write --sets standard for all "
            "questions of the standard sets, --limit N for N of each set, or --yes."
        )

    def confirm(plan: str) -> bool:
        lines = textwrap.fill(plan, shutil.get_terminal_size().columns - 1)
        return questions is not None and questions.confirm(f"{lines}\nStart? [y/N] ")

    def client_for(_: argparse.Namespace) -> ChatModel:
        choice = choose(model, model.thinking, output, questions=questions)
        return ToolModeClient(choice.client, model.tool_mode, prompts_for())

    vars(options).update(vars(model))
    return run(options, client_for, confirm=None if is_chosen else confirm)


if __name__ == "__main__":
    sys.exit(main())
