"""The command ``eval``: choose the model as ``run`` does, and let `evaluation` ask it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pure_agent_loop.cli.arguments import add_model_choice, describe
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.evaluation.command import DESCRIPTION, EPILOG, add_arguments, run
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.prompts import prompts_for


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, DESCRIPTION, EPILOG)
    add_model_choice(parser.add_argument_group("model"))
    add_arguments(parser.add_argument_group("questions"))


def evaluate(options: argparse.Namespace, output: Output) -> int:
    """Measure a model and return the exit code."""

    def client_for(args: argparse.Namespace) -> ChatModel:
        choice = choose(args.model, args.base_url, args.thinking, os.environ, output, args.configured)
        return ToolModeClient(choice.client, args.tool_mode, prompts_for())

    configure(options, output, Path.cwd(), Questions.at_terminal(output))
    return run(options, client_for)
