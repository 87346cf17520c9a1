"""Which MCP servers a command uses: those of ``--mcp-config``, of the user, and of a trusted folder."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.files import File, project_file
from pure_agent_loop.cli.trust import may_start
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import ELSEWHERE
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.support.terminal import safe_text

if TYPE_CHECKING:
    from pure_agent_loop.cli.toolset import Toolset
    from pure_agent_loop.mcp import MCPServers
    from pure_agent_loop.mcp.settings import ServerSettings

NAME = ".mcp.json"


@dataclass(frozen=True, slots=True)
class Written:
    """A server as it is written in a file.

    Args:
        name: Its name.
        table: Its fields.
        shown: The file, for people.
        is_project: It came with the folder.
    """

    name: str
    table: Mapping[str, Any]
    shown: str
    is_project: bool = False

    def settings(self, workspace: Path) -> ServerSettings | None:
        """What it says, checked; None if it is switched off.

        A server of the user starts outside of the folder, which may be a stranger's: many programs load what
        lies where they start. One that came with the folder, and was trusted, starts in it.

        Args:
            workspace: The folder; the server is told to keep to it.
        """
        from pure_agent_loop.mcp.files import settings_of

        found = settings_of(self.name, self.table, self.shown)
        if found is None:
            return None
        cwd = found.cwd or ("" if found.url else str(workspace) if self.is_project else ELSEWHERE)
        return replace(found, cwd=cwd, roots=found.roots or [str(workspace)])


def with_servers(
    toolset: Toolset,
    options: argparse.Namespace,
    workspace: Path,
    questions: Questions | None,
    output: Output,
) -> Toolset:
    """What a run works with, and the servers that its options and files name; see `servers_for`."""
    return replace(toolset, mcp=servers_for(options, workspace, questions, output))


def servers_for(
    options: argparse.Namespace, workspace: Path, questions: Questions | None, output: Output
) -> MCPServers | None:
    """The servers as one toolset; None if there are none.

    Args:
        options: With what `configure` has added.
        workspace: The folder, which may bring servers.
        questions: The person, who is asked whether those of the folder may be started.
        output: Told what is left out.

    Raises:
        ConfigError: What the person named cannot be used.
    """
    chosen = not options.no_tools and options.tools == "all"
    if options.mcp_config and not chosen:
        raise ConfigError("--mcp-config gives tools. Leave out --no-tools and --tools.")
    if options.no_mcp or not chosen:
        return None
    written = every_written(options, workspace, questions, output)
    found = [
        settings for each in written.values() if (settings := _usable(each, workspace, output)) is not None
    ]
    if not found:
        return None
    from pure_agent_loop.mcp import MCPServer, MCPServers

    return MCPServers(MCPServer.of(each) for each in found)


def every_written(
    options: argparse.Namespace, workspace: Path, questions: Questions | None, output: Output
) -> dict[str, Written]:
    """All of them by name; of one name the first counts: typed, then the user's, then the folder's."""
    found: dict[str, Written] = {}
    for each in _written(options, workspace, questions, output):
        if each.name in found:
            output.say(
                f"{each.shown}: {each.name!r} is left out: {found[each.name].shown} has one of that name"
            )
        else:
            found[each.name] = each
    return found


def _written(
    options: argparse.Namespace, workspace: Path, questions: Questions | None, output: Output
) -> Iterator[Written]:
    for name in getattr(options, "mcp_config", ()):
        yield from _of_file(File(name, _data(Path(name).expanduser(), name), is_project=False))
    for name, (table, shown) in getattr(options, "mcp_tables", {}).items():
        yield Written(name, table, shown)
    own = data_folder() / "mcp.json"
    if own.exists():
        yield from _of_file(File(str(own), _data(own, str(own)), is_project=False))
    file = project_file(workspace, NAME)
    if file is None:
        return
    try:
        brought = list(_of_file(file))
    except ConfigError as error:  # a stranger's mistake ends no run
        output.say(safe_text(str(error)))
        return
    given = getattr(options, "trust_folder", False)
    if brought and may_start(file, [_line(each) for each in brought], questions, output, given=given):
        yield from brought


def _data(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}.") from error


def _of_file(file: File) -> Iterator[Written]:
    from pure_agent_loop.mcp.files import tables_of

    for name, table in tables_of(file.data, file.shown).items():
        yield Written(name, table, file.shown, file.is_project)


def _line(each: Written) -> str:
    return f"{each.name}: {json.dumps(each.table, ensure_ascii=False)}"


def _usable(each: Written, workspace: Path, output: Output) -> ServerSettings | None:
    try:
        return each.settings(workspace)
    except ConfigError as error:  # one that is wrong holds the others up as little as one that is dead
        output.say(f"MCP server left out: {safe_text(str(error))}")
        return None
