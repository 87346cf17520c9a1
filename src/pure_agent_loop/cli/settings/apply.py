"""Settings fill in the options that were not typed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.env_file import read_env_file
from pure_agent_loop.cli.settings.files import Server, Sheet, project_file, read, user_file
from pure_agent_loop.cli.settings.keys import VARIABLES, Key, all_keys
from pure_agent_loop.cli.settings.layers import Setting, resolve, servers_of
from pure_agent_loop.cli.trust import may_set
from pure_agent_loop.runs.choose import Configured
from pure_agent_loop.support.language import LANGUAGE_VARIABLE

KEY_VARIABLES = ("PAL_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds for a command.

    Args:
        keys: The settings there are; none if no file was looked into.
        values: What holds of each, by name.
        servers: Those with names.
        sheets: What was read: the project's, then the user's.
    """

    keys: Mapping[str, Key]
    values: Mapping[str, Setting]
    servers: Mapping[str, Server]
    sheets: Sequence[Sheet]


def in_force(
    options: argparse.Namespace,
    output: Output,
    workspace: Path,
    questions: Questions | None,
    *,
    every: bool = False,
) -> InForce:
    """What the command line, the environment and the files say.

    Args:
        output: Told what is left out.
        questions: The person at the terminal, who is asked about a project's file.
        every: Look at all settings, also where there is no file.

    Raises:
        ConfigError: A file, or what it says, cannot be right.
        MissingExtraError: Python 3.10 needs a package to read it.
    """
    user, project = user_file(), project_file(workspace)
    keys = all_keys() if every or user or project or options.profile else {}

    def lines() -> list[str]:
        return [] if project is None else read(project, keys).lines

    given = getattr(options, "trust_folder", False)
    if project is not None and not may_set(project, lines, questions, output, given=given):
        project = None
    sheets = [read(each, keys) for each in (project, user) if each is not None]
    _read_variables(options, output, sheets)
    values = resolve(keys, options, sheets, os.environ)
    return InForce(keys, values, servers_of(sheets), sheets)


def configure(
    options: argparse.Namespace, output: Output, workspace: Path, questions: Questions | None
) -> None:
    """Fill in what the environment and the files say; see `in_force`.

    Args:
        options: The parsed command line; `configured` and `mcp_tables` are added to it.
        output: It takes the theme.
    """
    found = in_force(options, output, workspace, questions)
    for name, setting in found.values.items():
        key = found.keys[name]
        if setting.is_filed and hasattr(options, key.action.dest):
            setattr(options, key.action.dest, not setting.value if key.is_inverse else setting.value)
    options.mcp_tables = {
        name: (table, sheet.shown) for sheet in found.sheets for name, table in sheet.mcp.items()
    }
    options.configured = _name_server(options, found) if found.values else Configured()
    if getattr(options, "theme", "") == "plain":
        output.colour = False
    if getattr(options, "language", None):
        os.environ[LANGUAGE_VARIABLE] = options.language


def _read_variables(options: argparse.Namespace, output: Output, sheets: Sequence[Sheet]) -> None:
    own = [each.api_key_env for each in servers_of(sheets).values() if each.api_key_env]
    if options.env_file is not None:
        known = [*own, *KEY_VARIABLES, *(name for names in VARIABLES.values() for name in names)]
        used, others = read_env_file(options.env_file, known)
        for name, value in used.items():
            os.environ.setdefault(name, value)
        if others:
            output.say(others)
    for name in (*own, *KEY_VARIABLES):
        output.hide(os.environ.get(name))


def _name_server(options: argparse.Namespace, found: InForce) -> Configured:
    """Put the address of a server in the place of its name, and its model where none was named for it."""
    model, url = found.values["model"], found.values["base_url"]
    origins = {"model": model.origin, "base_url": url.origin}
    server = found.servers.get(url.value or "")
    if server is not None:
        options.base_url = server.base_url
        if server.model and model.rank > url.rank:
            options.model, origins["model"] = server.model, f"the server {url.value}"
    keys = {each.base_url: each.api_key_env for each in found.servers.values() if each.api_key_env}
    return Configured(origins, keys)
