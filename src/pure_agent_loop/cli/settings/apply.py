"""Set the options that were not typed, from settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.cli.options import (
    SETTINGS,
    EndpointOptions,
    OutputOptions,
    PermissionOptions,
    ToolOptions,
)
from pure_agent_loop.cli.output import CommandOutput, former_names_notice
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.env_file import read_env_file
from pure_agent_loop.cli.settings.files import KEYS, ParsedConfig, Server, project_file, read, user_file
from pure_agent_loop.cli.settings.layers import EffectiveSetting, resolve, servers_of
from pure_agent_loop.cli.trust import may_set
from pure_agent_loop.runs import Configured
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import LANGUAGE_VARIABLE, notice
from pure_agent_loop.support.variables import FORMER_NAMES, set_from_file

KEY_VARIABLES = ("PAL_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class ActiveSettings:
    """The effective settings of a command.

    Args:
        values: The settings; empty if no file was read.
        sheets: The files, the project's first, then the user's.
    """

    values: Mapping[str, EffectiveSetting]
    servers: Mapping[str, Server]
    sheets: Sequence[ParsedConfig]


def in_force(
    options: EndpointOptions,
    output: CommandOutput,
    workspace: Path,
    questions: TerminalQuestions | None,
    *,
    every: bool = False,
) -> ActiveSettings:
    """Resolve the settings of the command line, the environment and the files.

    Args:
        every: True to resolve all settings, even without a file.

    Raises:
        ConfigError: A file is unreadable or invalid.
        MissingExtraError: Python 3.10 needs a package to read TOML.
    """
    user, project = user_file(), project_file(workspace)
    trust_folder = isinstance(options, PermissionOptions) and options.trust_folder
    is_used = project is not None and may_set(project, questions, output, trust_folder=trust_folder)
    sheets = [read(file) for file in (project if is_used else None, user) if file is not None]
    _read_variables(options, output, sheets)
    values = resolve(options, sheets, os.environ) if every or user or project or options.profile else {}
    return ActiveSettings(values, servers_of(sheets), sheets)


def configure(
    options: EndpointOptions, output: CommandOutput, workspace: Path, questions: TerminalQuestions | None
) -> None:
    """Fill in options from the environment and the files; see `in_force`.

    Args:
        options: The parsed command line; `configured` and `mcp_tables` are added to it.
    """
    settings = in_force(options, output, workspace, questions)
    for name, setting in settings.values.items():
        option = SETTINGS[name]
        if setting.is_filed and hasattr(options, option.name):
            setattr(options, option.name, option.converted(setting.value))
    if isinstance(options, ToolOptions):
        options.mcp_tables = {
            name: (table, sheet.shown) for sheet in settings.sheets for name, table in sheet.mcp.items()
        }
    configured = _name_server(options, settings) if settings.values else Configured(fallback=options.fallback)
    options.configured = configured._replace(download=options.download)
    if isinstance(options, OutputOptions):
        if options.theme == "plain":
            output.colour = False
        if options.language:
            os.environ[LANGUAGE_VARIABLE] = options.language


def _read_variables(options: EndpointOptions, output: CommandOutput, sheets: Sequence[ParsedConfig]) -> None:
    own = [server.api_key_env for server in servers_of(sheets).values() if server.api_key_env]
    if options.env_file is not None:
        known = [*own, *KEY_VARIABLES, *(name for option in SETTINGS.values() for name in option.variables)]
        used, ignored = read_env_file(options.env_file, known)
        for name, value in used.items():
            if not os.environ.get(FORMER_NAMES.get(name, name)):
                set_from_file(name, value, options.env_file)
        for line in filter(None, (ignored, former_names_notice())):
            output.info(line)
    kept = data_folder() / KEYS
    if own and kept.exists():
        for name, value in read_env_file(str(kept), own)[0].items():
            set_from_file(name, value, str(kept))
    for name in (*own, *KEY_VARIABLES):
        output.hide(os.environ.get(name))


def _name_server(options: EndpointOptions, settings: ActiveSettings) -> Configured:
    """Replace a server's name by its URL, and use the server's model unless another one is set."""
    model, url = settings.values["model"], settings.values["base_url"]
    origins = {"model": model.origin, "base_url": url.origin}
    server = settings.servers.get(url.value or "")
    if server is not None:
        options.base_url = server.base_url
        if server.model and model.rank > url.rank:
            options.model, origins["model"] = server.model, notice("cli.from_server", name=url.value)
    keys = {server.base_url: server.api_key_env for server in settings.servers.values() if server.api_key_env}
    servers = {name: (server.base_url, server.model) for name, server in settings.servers.items()}
    return Configured(origins, keys, servers, options.fallback)
