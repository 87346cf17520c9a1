"""The command ``mcp``: manage MCP servers (see `mcp_serving` for running as a server)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import describe, read_options
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import ServingOptions
from pure_agent_loop.cli.output import CommandOutput, error_text
from pure_agent_loop.cli.parser import did_you_mean
from pure_agent_loop.cli.protocols.mcp_serving import add_serving, serve_here
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import ServerEntry, every_written
from pure_agent_loop.cli.slow import Waiting
from pure_agent_loop.cli.toolset import workspace_of
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer, ServerSettings

_URL = re.compile(r"\w+:(?://?|$)|localhost:\d|[\d.]+:\d")  # a text that cannot be a program name
_MAX_CHARS = 2_100
_EPILOG = """\
Without an action, pal itself runs as an MCP server on standard input and output. It serves the tools of
'pal run' for this folder, and agents.

examples:
  pal mcp add time -- uvx mcp-server-time
  pal mcp add docs https://docs.example/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  pal mcp list
  pal mcp --agents my_agents:agents
"""


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Manage MCP servers, or run as one. Needs the extra [mcp].", _EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list the servers and their state")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    _add_new(actions.add_parser("add", help="add or replace a server"))
    for name, summary in (
        ("remove", "remove a server and its stored data"),
        ("test", "start a server and list its tools"),
        ("login", "log in to a server in the browser"),
        ("logout", "delete the login for a server"),
    ):
        action = actions.add_parser(name, help=summary)
        action.add_argument("name", metavar="NAME")
        if name == "test":
            action.add_argument("--agree", action="store_true", help="approve changed tool descriptions")
    add_serving(parser)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="server name, prefix of its tool names")
    parser.add_argument(
        "where", nargs="+", metavar="URL|COMMAND", help="URL of the server, or -- and a command"
    )
    for name, form, summary in (
        ("env", "NAME=VALUE", "environment variable for the server"),
        ("inherit", "NAME", "pass on a variable of your environment"),
        ("header", "'NAME: VALUE'", "HTTP header for each request"),
        ("oauth", "NAME=VALUE", "OAuth setting, such as client_id=..."),
    ):
        text = f"{summary}; repeatable"
        parser.add_argument(f"--{name}", action="append", default=[], metavar=form, help=text)
    parser.add_argument("--cwd", metavar="DIR", help="working directory (default: a neutral folder)")
    parser.add_argument("--sse", action="store_true", help="use the older SSE transport")
    parser.add_argument("--trusted", action="store_true", help="trust the server's read-only marks on tools")


def mcp(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code.

    Raises:
        PureAgentLoopError: The action failed.
    """
    if options.action == "add":
        return _add(options, output)
    if options.action == "remove":
        return _remove(options.name, output)
    if options.action is None:
        return serve_here(read_options(ServingOptions, options), output)
    workspace = workspace_of(options.workspace)
    served = read_options(ServingOptions, options)
    configure(served, CommandOutput(io.StringIO(), io.StringIO(), colour=False), workspace, None)
    servers = every_written(served, workspace, TerminalQuestions.at_terminal(output), output)
    if options.action == "list":
        return asyncio.run(_list(servers.values(), workspace, output, as_json=options.json))
    if options.name not in servers:
        hint = did_you_mean(options.name, servers)
        raise ConfigError(user_text("cli.mcp_unknown", name=f"{options.name!r:.60}", hint=hint))
    written = servers[options.name]
    if options.action == "logout":
        _, was_there = _logged_out(options.name, written.table, written.shown)
        output.info(user_text("cli.mcp_logged_out" if was_there else "cli.mcp_no_login", name=options.name))
        return DONE
    settings = written.settings(workspace)
    if settings is None:
        raise ConfigError(user_text("cli.mcp_disabled", name=options.name, file=written.shown))
    if options.action == "login":
        return _login(settings, output)
    return asyncio.run(_test(settings, output, agrees=options.agree))


def _add(options: argparse.Namespace, output: CommandOutput) -> int:
    from pure_agent_loop.mcp import change_user_servers, user_servers, user_servers_path

    is_url = _URL.match(options.where[0]) is not None
    if is_url and len(options.where) > 1:
        raise ConfigError(user_text("cli.mcp_one_url"))
    if options.sse and not is_url:
        raise ConfigError(user_text("cli.mcp_sse_url"))
    table: dict[str, Any] = (
        {"type": "sse" if options.sse else "http", "url": options.where[0]}
        if is_url
        else {"command": options.where[0], "args": options.where[1:]}
    )
    pair_options = (
        ("env", options.env, "="),
        ("headers", options.header, ":"),
        ("oauth", options.oauth, "="),
    )
    for key, pairs, sign in pair_options:
        if pairs:
            table[key] = dict(_pair(pair, sign) for pair in pairs)
    if (port := table.get("oauth", {}).get("redirect_port", "")).isdecimal():
        table["oauth"]["redirect_port"] = int(port)
    table |= {"inherit": options.inherit} if options.inherit else {}
    if options.cwd and not Path(options.cwd).is_dir():
        raise ConfigError(user_text("cli.mcp_no_folder", folder=f"{options.cwd!r:.80}"))
    table |= {"cwd": str(Path(options.cwd).absolute())} if options.cwd else {}
    table |= {"trusted": True} if options.trusted else {}
    notes = _notes(options.name, table, user_servers_path())
    was_there = options.name in user_servers()
    change_user_servers(lambda servers: servers.update({options.name: table}))
    output.info(
        user_text(
            "cli.mcp_replaced" if was_there else "cli.mcp_added", name=options.name, file=user_servers_path()
        )
    )
    for note in notes:
        output.info(user_text("cli.mcp_warning", note=note))
    return DONE


def _notes(name: str, table: dict[str, Any], path: Path) -> list[str]:
    """Return warnings about a server to be added."""
    from pure_agent_loop.mcp import UnsetVariableError, settings_from_table

    try:
        settings = settings_from_table(name, table, str(path))
    except UnsetVariableError as unset:  # only a warning: the variable may be set later
        return [str(unset)]
    if settings is None or not settings.command:
        return []
    program, *rest = settings.command
    is_here = Path(program).is_absolute() or settings.cwd
    is_elsewhere = "PATH" in settings.env
    if not is_here and (os.sep in program or not (is_elsewhere or find_program(program))):
        return [user_text("cli.mcp_not_on_path", program=program)]
    relative = () if settings.cwd else [arg for arg in rest if not Path(arg).is_absolute()]
    lost = next((arg for arg in relative if Path(arg).exists()), "")
    return [user_text("cli.mcp_other_folder", path=lost)] if lost else []


def _pair(text: str, sign: str) -> tuple[str, str]:
    name, separator, value = text.partition(sign)
    if not separator or not name.strip():
        raise ConfigError(user_text("cli.mcp_pair", text=f"{text!r:.60}", sign=sign))
    return name.strip(), value.strip() if sign == ":" else value


def _remove(name: str, output: CommandOutput) -> int:
    from pure_agent_loop.mcp import Approvals, change_user_servers, user_servers, user_servers_path

    tables = user_servers()
    if (table := tables.get(name)) is None:
        hint = did_you_mean(name, tables)
        raise ConfigError(
            user_text("cli.mcp_not_there", file=user_servers_path(), name=f"{name!r:.60}", hint=hint)
        )
    with contextlib.suppress(ConfigError):
        Approvals(_logged_out(name, table, str(user_servers_path()))[0].identity).forget()
    change_user_servers(lambda servers: servers.__delitem__(name))
    output.info(user_text("cli.mcp_removed", name=name))
    return DONE


def _logged_out(name: str, table: Mapping[str, Any], shown: str) -> tuple[ServerSettings, bool]:
    """Delete the login of a server; return the server's settings and whether there was a login.

    Only the fields that identify the server are read, so a missing variable in another field is not an error.
    """
    from pure_agent_loop.mcp import forget_login, settings_from_table

    identity = {key: value for key, value in table.items() if key in ("type", "command", "args", "url")}
    settings = settings_from_table(name, identity, shown)
    assert settings is not None  # None only if `disabled` is set, which `identity` does not contain
    return settings, forget_login(settings)


async def _list(
    servers: Iterable[ServerEntry], workspace: Path, output: CommandOutput, *, as_json: bool
) -> int:
    with _waiting(output, user_text("cli.mcp_waiting")):
        rows = await asyncio.gather(*(_row(server, workspace) for server in servers))
    if as_json:
        output.json({"servers": rows})
        return DONE
    if not rows:
        output.info(user_text("cli.mcp_none"))
    for row in rows:
        line = user_text(
            "cli.mcp_row",
            name=row["name"],
            state=user_text(f"cli.mcp_state_{row['state']}"),
            tools=user_text("cli.mcp_tools", count=row["tools"]) if row["state"] == "ready" else "",
            place=row["place"],
            file=row["from"],
        )
        output.lines(f"{line}\n")
        if row["error"]:
            output.lines(f"    {row['error']}\n")
    return DONE


async def _row(written: ServerEntry, workspace: Path) -> dict[str, Any]:
    row = {"name": one_line(written.name), "state": "failed", "error": "", "tools": 0, "place": ""}
    row["from"] = written.shown
    try:
        settings = written.settings(workspace)
    except ConfigError as error:
        return {**row, "error": one_line(error_text(error), 400)}
    if settings is None:
        return {**row, "state": "disabled"}
    from pure_agent_loop.mcp import MCPServer

    row["place"] = settings.shown
    async with MCPServer.of(settings) as server:
        if problem := await _start_error(server):
            return {**row, "error": problem}
        return {**row, "state": "ready", "tools": server.state.tools}


async def _test(settings: ServerSettings, output: CommandOutput, *, agrees: bool) -> int:
    from pure_agent_loop.mcp import MCPServer, server_log_path

    async with MCPServer.of(settings) as server:
        begun = time.monotonic()
        with _waiting(output, settings.name):
            problem = await _start_error(server)
        if problem:
            output.fail(problem)
            return FAILED
        started = time.monotonic()
        await server.ping()
        for tool in server.known_tools:
            marks = [name for name in ("read_only", "destructive", "idempotent") if getattr(tool, name)]
            marked = f" [{', '.join(marks)}]" if marks else ""
            output.lines(f"{tool.name}{marked}: {one_line(tool.description, _MAX_CHARS)}\n")
        for text in server.left_out:
            output.info(text)
        for tool in server.changed_tools:
            text = one_line(tool.description, _MAX_CHARS)
            output.lines(f"{user_text('cli.mcp_changed', tool=tool.name, text=text)}\n")
            output.result(f"    {json.dumps(tool.parameters)}\n")
        if server.changed_tools and agrees:
            await server.agree()
            output.info(user_text("cli.mcp_approved"))
        elif server.changed_tools:
            output.info(user_text("cli.mcp_to_approve", name=settings.name))
        ready, answered = started - begun, (time.monotonic() - started) * 1000
        times = {"seconds": f"{ready:.1f}", "milliseconds": f"{answered:.1f}"}
        output.info(user_text("cli.mcp_ready", file=server_log_path(settings.name), **times))
    return DONE


def _login(settings: ServerSettings, output: CommandOutput) -> int:
    from pure_agent_loop.mcp import log_in

    if not settings.url:
        raise ConfigError(user_text("cli.mcp_login_not_needed", name=settings.name))
    storage = asyncio.run(log_in(settings, output.info))
    output.info(user_text("cli.mcp_logged_in", name=settings.name, place=storage))
    return DONE


def _waiting(output: CommandOutput, what: str) -> Waiting:
    waiting = Waiting(output, enabled=True)
    waiting.wait_for(what)
    return waiting


async def _start_error(server: MCPServer) -> str:
    """Start a server and list its tools; return the error, empty on success."""
    from pure_agent_loop.mcp import ServerError

    try:
        await server.look()
    except ServerError as error:
        return server.state.error or error.message
    return ""
