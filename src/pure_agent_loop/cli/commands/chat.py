"""The command ``chat``, and ``pal`` alone: the conversation at a terminal; elsewhere one answer."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from pure_agent_loop.cli.choose import WAYS_OUT, plan_for
from pure_agent_loop.cli.commands.run import add_run, run, workspace_of
from pure_agent_loop.cli.exits import DONE, USAGE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.words import say
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.runs.choose import DEFAULT_MODEL, Embedded, model_at, show_url
from pure_agent_loop.support.terminal import is_terminal
from pure_agent_loop.toolbox import Shell


def add_chat(parser: argparse.ArgumentParser) -> None:
    """Add its arguments: those of ``run``.

    Args:
        parser: Of the command.
    """
    add_run(parser)
    parser.description = (
        "Talk with a model that works in this folder; where no terminal is: one answer, as 'pal run'."
    )


def chat(options: argparse.Namespace, output: Output) -> int:
    """Talk, and return the exit code.

    Args:
        options: The parsed command line.
        output: Where to write.

    Raises:
        PureAgentLoopError: Something is wrong before it begins.
        ResultLostError: Standard output takes nothing more.
    """
    if options.task or options.quiet or not (is_terminal(sys.stdin) and output.out_is_terminal):
        return run(options, output)
    return converse(options, output)


def converse(options: argparse.Namespace, output: Output) -> int:
    """The conversation at a terminal. Until there is one: what would be used, what it may do, and what next.

    Args:
        options: The parsed command line.
        output: The terminal.

    Raises:
        PureAgentLoopError: Something is wrong before it begins.
    """
    workspace = workspace_of(options.workspace)
    configure(options, output, workspace, Questions.at_terminal(output))
    model, found = _model_line(options)
    shell = Shell(workspace, sandbox=options.sandbox, network=options.network, any_folder=options.any_folder)
    output.say(model)
    output.say(say("may", folder=workspace, shell=shell.describe()))
    output.say(say("next" if found else "next_nothing"))
    return DONE if found else USAGE


def _model_line(options: argparse.Namespace) -> tuple[str, bool]:
    """What would be used, without starting it; and whether there is anything."""
    try:
        plan = plan_for(options.model, options.base_url, os.environ, options.configured)
        if isinstance(plan, Embedded) and importlib.util.find_spec("xllamacpp") is None:
            return say("nothing", why=str(MissingExtraError("the embedded model", "local"))), False
        if isinstance(plan, Embedded):
            return say("embedded", model=plan.name, why=plan.why), True
        model = plan.model or model_at(plan) or DEFAULT_MODEL
        return say("uses", model=model, place=show_url(plan.base_url), why=plan.why), True
    except ConfigError as error:
        return say("nothing", why=str(error).partition(WAYS_OUT)[0].strip()), False
