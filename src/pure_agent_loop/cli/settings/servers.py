"""MCP servers for a command: from ``--mcp-config``, the user's files and a trusted folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.options import CommandOptions, ToolsetOptions
from pure_agent_loop.cli.output import CommandOutput, error_text
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.files import ConfigFile, project_file
from pure_agent_loop.cli.trust import may_start
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import NEUTRAL_DIR
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.terminal import safe_text

if TYPE_CHECKING:
    from pure_agent_loop.cli.toolset import RunToolset
    from pure_agent_loop.mcp import MCPServers, ServerSettings

NAME = ".mcp.json"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """An MCP server entry in a file."""

    name: str
    table: Mapping[str, Any]
    shown: str
    is_project: bool = False

    def settings(self, workspace: Path) -> ServerSettings | None:
        """Return the checked settings; None if the server is disabled.

        A user's server starts outside the folder, because the folder is untrusted and many programs load
        files from the working directory. A trusted server from the folder starts in the folder.

        Args:
            workspace: The folder, passed to the server as the root.
        """
        from pure_agent_loop.mcp import settings_from_table

        settings = settings_from_table(self.name, self.table, self.shown)
        if settings is None:
            return None
        cwd = settings.cwd or ("" if settings.url else str(workspace) if self.is_project else NEUTRAL_DIR)
        return replace(settings, cwd=cwd, roots=settings.roots or [str(workspace)])


def with_servers(
    toolset: RunToolset,
    options: CommandOptions,
    workspace: Path,
    questions: TerminalQuestions | None,
    output: CommandOutput,
) -> RunToolset:
    """Return the toolset, with the MCP servers added if all tools are used; see `servers_for`."""
    if not options.no_tools and options.tools == "all":
        return replace(toolset, mcp=servers_for(options, workspace, questions, output))
    if options.mcp_config:
        raise ConfigError(user_text("cli.mcp_config_and_no_tools"))
    return toolset


def servers_for(
    options: ToolsetOptions,
    workspace: Path,
    questions: TerminalQuestions | None,
    output: CommandOutput,
) -> MCPServers | None:
    """Return the servers as one toolset; None if there are none.

    Args:
        options: The options after `configure`.
        workspace: The folder, which may define servers.
        questions: Asks the user whether servers from the folder may be started.

    Raises:
        ConfigError: A server named by the user is invalid.
    """
    if options.no_mcp:
        return None
    written = every_written(options, workspace, questions, output)
    usable = [
        settings for entry in written.values() if (settings := _usable(entry, workspace, output)) is not None
    ]
    if not usable:
        return None
    from pure_agent_loop.mcp import MCPServer, MCPServers

    return MCPServers(MCPServer.of(settings) for settings in usable)


def every_written(
    options: ToolsetOptions, workspace: Path, questions: TerminalQuestions | None, output: CommandOutput
) -> dict[str, ServerEntry]:
    """Return all entries by name.

    The first entry with a name is used, in the order command line, user, folder.
    """
    entries: dict[str, ServerEntry] = {}
    for entry in _written(options, workspace, questions, output):
        if entry.name in entries:
            other = entries[entry.name].shown
            output.info(user_text("cli.mcp_defined_twice", file=entry.shown, name=entry.name, other=other))
        else:
            entries[entry.name] = entry
    return entries


def _written(
    options: ToolsetOptions, workspace: Path, questions: TerminalQuestions | None, output: CommandOutput
) -> Iterator[ServerEntry]:
    for name in options.mcp_config:
        yield from _of_file(ConfigFile(name, _data(Path(name).expanduser(), name), is_project=False))
    for name, (table, shown) in options.mcp_tables.items():
        yield ServerEntry(name, table, shown)
    own = data_folder() / "mcp.json"
    if own.exists():
        yield from _of_file(ConfigFile(str(own), _data(own, str(own)), is_project=False))
    file = project_file(workspace, NAME)
    if file is None:
        return
    try:
        entries = list(_of_file(file))
    except ConfigError as error:  # an invalid project file must not abort the run
        output.info(safe_text(error_text(error)))
        return
    lines = [f"{entry.name}: {json.dumps(entry.table, ensure_ascii=False)}" for entry in entries]
    if entries and may_start(file, lines, questions, output, trust_folder=options.trust_folder):
        yield from entries


def _data(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(notice("cli.cannot_be_read", path=shown, error=error.strerror)) from error


def _of_file(file: ConfigFile) -> Iterator[ServerEntry]:
    from pure_agent_loop.mcp import server_tables

    for name, table in server_tables(file.data, file.shown).items():
        yield ServerEntry(name, table, file.shown, file.is_project)


def _usable(entry: ServerEntry, workspace: Path, output: CommandOutput) -> ServerSettings | None:
    try:
        return entry.settings(workspace)
    except ConfigError as error:  # one invalid server must not stop the others
        output.info(user_text("cli.mcp_skipped", error=safe_text(error_text(error))))
        return None
