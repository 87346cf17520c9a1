"""The command ``model``: list, download and select models that run on this machine."""

from __future__ import annotations

import argparse

from pure_agent_loop.cli.arguments import add_actions
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.local import Listed, list_models, pull_model, use_model
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import safe_text


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "List, download and select models that run on this machine (extra [local])."
    actions = add_actions(parser)
    actions.add_parser("list", help="list known and downloaded models")
    fetched = actions.add_parser("pull", help="download a model")
    fetched.add_argument("name", help="name from 'pal model list', or URL of a .gguf file")
    chosen = actions.add_parser("use", help="make a model the default")
    chosen.add_argument("name", help="name from 'pal model list', or path of a .gguf file")


def model(options: argparse.Namespace, output: CommandOutput) -> int:
    """Do ``list``, ``pull`` or ``use`` and return the exit code."""
    _ACTIONS[options.action](options, output)
    return DONE


def _list(options: argparse.Namespace, output: CommandOutput) -> None:  # noqa: ARG001 - the signature of all actions
    lines = list_models()
    width = max((len(line.name) for line in lines), default=0)
    output.lines("".join(_line(line, width) for line in lines))
    output.info(notice("cli.model_default"))


def _line(listed: Listed, width: int) -> str:
    mark = "*" if listed.is_default else " "
    state = "here" if listed.path else "-"
    known = listed.model
    size = f"{known.size / 1e6:.0f} MB" if known and known.size else ""
    rest = f"{size:>8}  {known.licence:<10}  {known.note}" if known else f"{'':>8}  {listed.path}"
    return safe_text(f"{mark} {listed.name:<{width}}  {state:<4}  {rest}").rstrip() + "\n"


def _pull(options: argparse.Namespace, output: CommandOutput) -> None:
    with SlowSteps(output) as steps:
        path = pull_model(options.name, steps)
    output.result(f"{safe_text(str(path))}\n")


def _use(options: argparse.Namespace, output: CommandOutput) -> None:
    use_model(options.name)
    here = any(line.is_default and line.path for line in list_models())
    output.info(notice("cli.model_used", name=options.name))
    if not here:
        output.info(notice("cli.model_not_here", name=options.name))


_ACTIONS = {"list": _list, "pull": _pull, "use": _use}
