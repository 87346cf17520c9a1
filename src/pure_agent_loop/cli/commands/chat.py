"""The command ``chat``, and ``pal`` alone: the conversation at a terminal; elsewhere one answer."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from contextlib import closing
from pathlib import Path

from pure_agent_loop.cli.choose import WAYS_OUT, choose, plan_for
from pure_agent_loop.cli.commands.run import add_run, run
from pure_agent_loop.cli.exits import DONE, USAGE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.task import with_attached
from pure_agent_loop.cli.toolset import check_given_rules, make_toolset, rules_of, workspace_of
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import is_going_on, place_for_run
from pure_agent_loop.cli.words import say, told
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.llm.profiles import DEFAULT_MODEL
from pure_agent_loop.runs.choose import Embedded, model_at, show_url
from pure_agent_loop.support.terminal import is_terminal
from pure_agent_loop.toolbox import Shell

NEEDED = ("prompt_toolkit", "rich")  # of the extra [cli]


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
    is_script = options.quiet or options.explain or {options.output_format, options.input_format} != {"text"}
    if is_script or not (is_terminal(sys.stdin) and output.out_is_terminal and output.err_is_terminal):
        return run(options, output)
    if not all(map(importlib.util.find_spec, NEEDED)):
        output.say(str(MissingExtraError("the conversation", "cli")))
        return run(options, output) if options.task or is_going_on(options) else _first_steps(options, output)
    return _converse(options, output)


def _converse(options: argparse.Namespace, output: Output) -> int:
    workspace = workspace_of(options.workspace)
    questions = Questions.at_terminal(output)
    typed = rules_of(options)
    configure(options, output, workspace, questions)
    trusted = may_guide(workspace, questions, output, given=options.trust_folder)
    with closing(place_for_run(options, workspace, questions, output)) as place:
        found = make_toolset(options, workspace, output, trusted=trusted)
        found = with_servers(found, options, workspace, questions, output)
        check_given_rules(typed, options, found, output)
        try:
            choice = choose(
                options.model,
                options.base_url,
                options.thinking,
                os.environ,
                output,
                options.configured,
                prepared=False,  # while the person types
            )
        except ConfigError:
            if options.task or is_going_on(options):
                raise
            return _first_lines(options, output, workspace)
        toolset = found.for_model(is_tiny=choice.is_tiny)
        shell = told(toolset.shell.describe() if toolset.shell else "no shell")
        output.say(say("may", folder=workspace, shell=shell))
        from pure_agent_loop.cli.chat.app import converse
        from pure_agent_loop.cli.chat.talk import Shared

        return converse(
            Shared(options, workspace, toolset, trusted),
            choice,
            place,
            output,
            *with_attached(" ".join(options.task).rstrip(), options.attach),
        )


def _first_steps(options: argparse.Namespace, output: Output) -> int:
    """What would be used, what it may do, and what next."""
    workspace = workspace_of(options.workspace)
    configure(options, output, workspace, Questions.at_terminal(output))
    return _first_lines(options, output, workspace)


def _first_lines(options: argparse.Namespace, output: Output, workspace: Path) -> int:
    model, found = _model_line(options)
    shell = Shell(workspace, sandbox=options.sandbox, network=options.network, any_folder=options.any_folder)
    output.say(model)
    output.say(say("may", folder=workspace, shell=told(shell.describe())))
    output.say(say("next" if found else "next_nothing"))
    return DONE if found else USAGE


def _model_line(options: argparse.Namespace) -> tuple[str, bool]:
    """What would be used, without starting it; and whether there is anything."""
    try:
        plan = plan_for(options.model, options.base_url, os.environ, options.configured)
        if isinstance(plan, Embedded) and importlib.util.find_spec("xllamacpp") is None:
            return say("nothing", why=str(MissingExtraError("the embedded model", "local"))), False
        if isinstance(plan, Embedded):
            return say("embedded", model=plan.name, why=told(plan.why)), True
        model = plan.model or model_at(plan) or DEFAULT_MODEL
        return say("uses", model=model, place=show_url(plan.base_url), why=told(plan.why)), True
    except ConfigError as error:
        return say("nothing", why=str(error).partition(WAYS_OUT)[0].strip()), False
