"""Choose the model of a benchmark by the options, variables and settings of ``pal run``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pure_agent_loop.cli import SECRET_VARIABLES
from pure_agent_loop.cli.arguments import add_options, read_options
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import INTERRUPTED, code_for_error
from pure_agent_loop.cli.options import ModelOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.base import ChatModel


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the model."""
    add_options(parser.add_argument_group("model"), ModelOptions)


def chosen_model(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    options: argparse.Namespace,
    output: CommandOutput,
) -> ChatModel:
    """Return the chosen model.

    Raises:
        ConfigError: No model can be used.
    """
    options.typed_options = typed_options(parser, arguments)
    model, questions = read_options(ModelOptions, options), TerminalQuestions.at_terminal(output)
    configure(model, output, Path.cwd(), questions)
    return choose(model, model.thinking, output, questions=questions).client


def typed_options(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> frozenset[str]:
    """Return the options of a command line; settings fill in the others."""
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    return frozenset(vars(parser.parse_args(arguments)))


def reported(run: Callable[[CommandOutput], int]) -> int:
    """Run a command; return its exit code, with errors as one line."""
    output = CommandOutput()
    for name in SECRET_VARIABLES:
        output.hide(os.environ.get(name))
    try:
        return run(output)
    except KeyboardInterrupt:
        return INTERRUPTED
    except PureAgentLoopError as error:
        output.fail(error)
        return code_for_error(error)
