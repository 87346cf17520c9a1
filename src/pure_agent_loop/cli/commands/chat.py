"""The command ``chat``, which plain ``pal`` also runs: a conversation at a terminal, else one answer."""

from __future__ import annotations

import argparse
import importlib.util
from contextlib import closing

from pure_agent_loop.cli.choose import allow_download, choose, plan_of
from pure_agent_loop.cli.commands.run import add_run, run
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.first_start import ask_for_model
from pure_agent_loop.cli.options import CommandOptions
from pure_agent_loop.cli.output import CommandOutput, error_text
from pure_agent_loop.cli.parser import can_chat
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.task import with_attached
from pure_agent_loop.cli.toolset import check_given_rules, make_toolset, rules_of, workspace_of
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import is_resuming, place_for_run
from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.llm.profiles import DEFAULT_MODEL
from pure_agent_loop.runs import Embedded, model_at, show_url
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.toolbox import Shell

NEEDED = ("prompt_toolkit", "rich")  # packages from the [cli] extra


def add_chat(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``."""
    add_run(parser, "[TASK]")
    parser.description = "Chat with an agent in this folder. Without a terminal: one answer, as 'pal run'."


def chat(options: CommandOptions, output: CommandOutput) -> int:
    """Run the conversation and return the exit code.

    Raises:
        PureAgentLoopError: The conversation cannot start.
        ResultLostError: Standard output cannot be written.
    """
    if not (can_chat(options) and output.err_is_terminal):
        return run(options, output)
    if not all(map(importlib.util.find_spec, NEEDED)):
        output.info(error_text(MissingExtraError(notice("library.feature_conversation"), "cli")))
        if options.task or is_resuming(options):
            return run(options, output)
        return _first_lines(options, output)
    return _converse(options, output)


def _converse(options: CommandOptions, output: CommandOutput) -> int:
    workspace = workspace_of(options.workspace)
    questions = TerminalQuestions.at_terminal(output)
    typed = rules_of(options)
    configure(options, output, workspace, questions)
    trusted = may_guide(workspace, questions, output, trust_folder=options.trust_folder)
    with closing(place_for_run(options, workspace, questions, output)) as place:
        toolset = make_toolset(options, workspace, output, trusted=trusted)
        toolset = with_servers(toolset, options, workspace, questions, output)
        check_given_rules(typed, options, toolset, output)
        ask_for_model(options, output, questions)
        choice = choose(
            options,
            options.thinking,
            output,
            questions=questions,
            prepared=False,  # the client is prepared while the user types
            announced=False,
        )
        toolset = toolset.for_model(is_tiny=choice.is_tiny)
        from pure_agent_loop.cli.chat.app import converse
        from pure_agent_loop.cli.chat.talk import ChatConfig

        return converse(
            ChatConfig(options, workspace, toolset, trusted),
            choice,
            place,
            output,
            *with_attached(" ".join(options.task).rstrip(), options.attach),
        )


def _first_lines(options: CommandOptions, output: CommandOutput) -> int:
    """Print the model, the permissions and the next step, if a conversation cannot be shown.

    Raises:
        ConfigError: No model is available.
    """
    workspace, questions = workspace_of(options.workspace), TerminalQuestions.at_terminal(output)
    configure(options, output, workspace, questions)
    ask_for_model(options, output, questions)
    plan = plan_of(options)
    if isinstance(plan, Embedded):
        allow_download(plan, questions, download=options.download)
        output.info(user_text("cli.embedded", model=plan.name, why=plan.why))
    else:
        model = plan.model or model_at(plan) or DEFAULT_MODEL
        output.info(user_text("cli.uses", model=model, place=show_url(plan.base_url), why=plan.why))
    shell = Shell(workspace, sandbox=options.sandbox, network=options.network, any_folder=options.any_folder)
    output.info(user_text("cli.may", folder=workspace, shell=shell.describe()))
    output.info(user_text("cli.next"))
    return DONE
