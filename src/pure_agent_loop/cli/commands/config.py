"""The command ``config``: which settings are in force, and where each comes from."""

from __future__ import annotations

import argparse
from dataclasses import astuple
from pathlib import Path
from typing import Any

from pure_agent_loop.budget import Price
from pure_agent_loop.cli.arguments import add_actions, add_json, describe
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import in_force
from pure_agent_loop.cli.settings.files import project_file, user_path
from pure_agent_loop.support.terminal import one_line

_EPILOG = """\
Typed options go before the profile that -P names, that before the environment, that before the pal.toml
of the project, that before your own, that before the default. Rules add up.

examples:
  pal config show --origin
  pal config show -P work --json
  pal config path
"""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "Which settings 'pal run' takes from the environment and from files.", _EPILOG)
    actions = add_actions(parser)
    show = actions.add_parser("show", help="the settings in force")
    show.add_argument("--origin", action="store_true", help="also where each comes from")
    show.add_argument("-P", "--profile", metavar="NAME", help="settings that your pal.toml has under a name")
    show.add_argument("--env-file", metavar="FILE", help="take variables also from there, such as .env")
    show.add_argument(
        "--trust-folder", action="store_true", help="use pal.toml of this folder without asking"
    )
    add_json(show)
    actions.add_parser("path", help="the files, your own first")


def config(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        PureAgentLoopError: A file, or what it says, cannot be right.
        ResultLostError: Standard output takes nothing more.
    """
    here = Path.cwd()
    if options.action == "path":
        paths = [str(user_path()), *(each.shown for each in (project_file(here),) if each is not None)]
        output.result("".join(f"{one_line(each, 2_000)}\n" for each in paths))
        return DONE
    options.given = frozenset()
    found = in_force(options, output, here, Questions.at_terminal(output), every=True)
    rows = {name: (_plain(each.value), each.origin) for name, each in found.values.items()}
    for sheet in found.sheets:
        rows |= {f"servers.{name}": (each.base_url, sheet.shown) for name, each in sheet.servers.items()}
    if options.json:
        values = {name: {"value": value, "origin": origin} for name, (value, origin) in rows.items()}
        output.json({"settings": values})
        return DONE
    width = max(map(len, rows))
    output.result(
        "".join(
            f"{name:<{width}}  {_shown(name, value)}{f'  ({one_line(origin)})' if options.origin else ''}\n"
            for name, (value, origin) in rows.items()
        )
    )
    return DONE


def _plain(value: Any) -> Any:
    """A price as it is typed; all else as it is."""
    if not isinstance(value, Price):
        return value
    return ",".join(f"{each:g}" for each in astuple(value) if each is not None)


def _shown(name: str, value: Any) -> str:
    from pure_agent_loop.runs.choose import show_url

    if value is None or value == [] or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return one_line(", ".join(value), 2_000)
    is_address = name == "base_url" or name.startswith("servers.")
    return one_line(show_url(value) if is_address and "/" in value else str(value), 2_000)
