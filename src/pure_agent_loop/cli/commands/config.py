"""The command ``config``: show the effective settings and their origin."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pure_agent_loop.budget import Price
from pure_agent_loop.cli.arguments import add_actions, add_json, add_options, describe, read_options
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.options import CommandOptions, EndpointOptions
from pure_agent_loop.cli.output import BOLD, DIM, CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import in_force
from pure_agent_loop.cli.settings.files import project_file, user_path
from pure_agent_loop.cli.settings.layers import DEFAULT
from pure_agent_loop.support.language import in_user_language, notice
from pure_agent_loop.support.terminal import one_line

_EPILOG = """\
Precedence: command line, profile (-P), environment, the project's pal.toml, your own pal.toml, default.
Rules add up.

examples:
  pal config show --origin
  pal config show -P work --json
  pal config path
"""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Show the settings that 'pal run' reads from the environment and from files.", _EPILOG)
    actions = add_actions(parser)
    show = actions.add_parser("show", help="show the effective settings")
    show.add_argument("--origin", action="store_true", help="show the origin of defaults too")
    add_options(show, EndpointOptions, only=("profile",))
    show.add_argument("--env-file", metavar="FILE", help="read variables from a file such as .env")
    show.add_argument("--trust-folder", action="store_true", help="trust the pal.toml of this folder")
    add_json(show)
    actions.add_parser("path", help="print the paths of the files, your own first")


def config(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code.

    Raises:
        PureAgentLoopError: A file is unreadable or invalid.
        ResultLostError: Standard output cannot be written.
    """
    here = Path.cwd()
    if options.action == "path":
        paths = [str(user_path()), *(file.shown for file in (project_file(here),) if file is not None)]
        output.result("".join(f"{one_line(path, 2_000)}\n" for path in paths))
        return DONE
    settings = in_force(
        read_options(CommandOptions, options), output, here, TerminalQuestions.at_terminal(output), every=True
    )
    rows = {name: (_plain(setting.value), setting.origin) for name, setting in settings.values.items()}
    for sheet in settings.sheets:
        rows |= {f"servers.{name}": (server.base_url, sheet.shown) for name, server in sheet.servers.items()}
    if options.json:
        values = {name: {"value": value, "origin": origin} for name, (value, origin) in rows.items()}
        output.json({"settings": values})
        return DONE
    width = min(max(map(len, rows)), output.width // 2)
    for name, (value, origin) in rows.items():
        place = in_user_language(notice("cli.origin_default")) if origin == DEFAULT else one_line(origin)
        is_told = options.origin or origin != DEFAULT
        row = f"{name:<{width}}  {_shown(name, value)}{f'  ({place})' if is_told else ''}"
        output.lines(f"{output.paint(DIM, row) if origin == DEFAULT else output.paint(BOLD, row)}\n")
    return DONE


def _plain(value: Any) -> Any:
    """Return a price in its command-line form, other values unchanged."""
    if not isinstance(value, Price):
        return value
    amounts = (value.input, value.output, value.cached, value.cache_write)
    return ",".join(f"{amount:g}" for amount in amounts if amount is not None)


def _shown(name: str, value: Any) -> str:
    from pure_agent_loop.runs import show_url

    if value is None or value == [] or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return one_line(", ".join(value), 2_000)
    is_address = name == "base_url" or name.startswith("servers.")
    return one_line(show_url(value) if is_address and "/" in value else str(value), 2_000)
