"""The command ``mcp``: servers of others, and our tools and agents as a server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.protocols.mcp_serve import add_serving, serve_here
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.servers import Written, every_written
from pure_agent_loop.cli.toolset import workspace_of
from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer
    from pure_agent_loop.mcp.settings import ServerSettings

_MOST_WORDS = 2_100
LOOK_SECONDS = 20.0  # that 'list' gives a server to answer
_EPILOG = """\
Without an action it is itself an MCP server on standard input and output: the tools of 'pal run' for this
folder, and agents.

examples:
  pal mcp add time -- uvx mcp-server-time
  pal mcp add docs https://docs.example/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  pal mcp list
  pal mcp --agents my_agents:agents
"""


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "MCP servers for the model; and this program as one. The extra is [mcp].", _EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="the servers there are, and how they stand")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    _add_new(actions.add_parser("add", help="add a server to yours, or write it anew"))
    for name, meaning in (
        ("remove", "take one of yours away, with what was kept of it"),
        ("test", "start a server and show what it offers"),
        ("login", "log in to a server, in your browser"),
        ("logout", "forget the login of a server"),
    ):
        one = actions.add_parser(name, help=meaning)
        one.add_argument("name", metavar="NAME")
        if name == "test":
            one.add_argument("--agree", action="store_true", help="agree to tools that say something new")
    add_serving(parser)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="begins the names of its tools")
    parser.add_argument("where", nargs="+", metavar="URL|COMMAND", help="put -- before a command")
    for name, form, meaning in (
        ("env", "NAME=VALUE", "a variable for it"),
        ("inherit", "NAME", "a variable of yours that it gets"),
        ("header", "'NAME: VALUE'", "for each request"),
        ("oauth", "NAME=VALUE", "how to log in, such as client_id=... and client_secret='${SECRET}'"),
    ):
        again = f"{meaning}; repeatable"
        parser.add_argument(f"--{name}", action="append", default=[], metavar=form, help=again)
    parser.add_argument("--sse", action="store_true", help="an older server, with Server-Sent Events")
    parser.add_argument(
        "--trusted", action="store_true", help="believe which of its tools it says to be harmless"
    )


def mcp(options: argparse.Namespace, output: Output) -> int:
    """Do it and return the exit code.

    Raises:
        PureAgentLoopError: It cannot be done.
    """
    if options.action == "add":
        return _add(options, output)
    if options.action == "remove":
        return _remove(options.name, output)
    if options.action is None:
        return serve_here(options, output)
    servers, workspace = _servers(options, output), workspace_of(options.workspace)
    if options.action == "list":
        return asyncio.run(_list(servers.values(), workspace, output, as_json=options.json))
    if options.name not in servers:
        raise ConfigError(f"There is no MCP server {options.name!r:.60}. See: pal mcp list")
    written = servers[options.name]
    if options.action == "logout":
        _logged_out(options.name, written.table, written.shown)
        output.say(f"the login of {options.name} is forgotten")
        return DONE
    settings = written.settings(workspace)
    if settings is None:
        raise ConfigError(f"The MCP server {options.name!r} is disabled in {written.shown}.")
    if options.action == "login":
        return _login(settings, output)
    return asyncio.run(_test(settings, output, agrees=options.agree))


def _add(options: argparse.Namespace, output: Output) -> int:
    from pure_agent_loop.mcp.files import NOT_SET, change_user, settings_of, user_path

    is_url = options.where[0].startswith(("http://", "https://"))
    if is_url and len(options.where) > 1:
        raise ConfigError("A server is added with one URL, or with -- and a command.")
    table: dict[str, Any] = (
        {"type": "sse" if options.sse else "http", "url": options.where[0]}
        if is_url
        else {"command": options.where[0], "args": options.where[1:]}
    )
    given = (("env", options.env, "="), ("headers", options.header, ":"), ("oauth", options.oauth, "="))
    for key, pairs, sign in given:
        if pairs:
            table[key] = dict(_pair(each, sign) for each in pairs)
    if (port := table.get("oauth", {}).get("redirect_port", "")).isdecimal():
        table["oauth"]["redirect_port"] = int(port)
    table |= {"inherit": options.inherit} if options.inherit else {}
    table |= {"trusted": True} if options.trusted else {}
    try:
        settings_of(options.name, table, str(user_path()))
    except ConfigError as error:
        if NOT_SET not in str(error):  # it may be set when the server is used
            raise
    change_user(lambda servers: servers.update({options.name: table}))
    output.say(f"added {options.name} to {user_path()}; look at it: pal mcp test {options.name}")
    return DONE


def _pair(text: str, sign: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise ConfigError(f"{text!r:.60} must be NAME{sign}VALUE.")
    return name.strip(), value.strip() if sign == ":" else value


def _remove(name: str, output: Output) -> int:
    from pure_agent_loop.mcp.files import change_user, user_path, user_tables
    from pure_agent_loop.mcp.offered import Approvals

    table = user_tables().get(name)
    if table is None:
        raise ConfigError(f"{user_path()} has no server {name!r:.60}. See: pal mcp list")
    with contextlib.suppress(ConfigError):
        Approvals(_logged_out(name, table, str(user_path())).identity).forget()
    change_user(lambda servers: servers.__delitem__(name))
    output.say(f"removed {name}")
    return DONE


def _logged_out(name: str, table: Mapping[str, Any], shown: str) -> ServerSettings:
    """Which server it is; its login is forgotten. Variables of its other fields may be gone by now."""
    from pure_agent_loop.mcp.files import settings_of
    from pure_agent_loop.mcp.login import forget

    which = {key: value for key, value in table.items() if key in ("type", "command", "args", "url")}
    settings = settings_of(name, which, shown)
    assert settings is not None  # nothing here says that it is disabled
    forget(settings)
    return settings


def _servers(options: argparse.Namespace, output: Output) -> dict[str, Written]:
    from pure_agent_loop.cli.settings.apply import in_force

    workspace = workspace_of(options.workspace)
    questions = Questions.at_terminal(output)
    options.given = frozenset()
    found = in_force(options, Output(io.StringIO(), io.StringIO(), colour=False), workspace, None)
    options.mcp_tables = {
        name: (table, sheet.shown) for sheet in found.sheets for name, table in sheet.mcp.items()
    }
    return every_written(options, workspace, questions, output)


async def _list(servers: Iterable[Written], workspace: Path, output: Output, *, as_json: bool) -> int:
    rows = await asyncio.gather(*(_row(each, workspace) for each in servers))
    if as_json:
        output.json({"servers": rows})
        return DONE
    if not rows:
        output.say("there are no MCP servers; add one: pal mcp add NAME -- COMMAND")
    for row in rows:
        count = f", {row['tools']} tools" if row["state"] == "ready" else ""
        output.result(f"{row['name']}  {row['state']}{count}  {row['place']}  ({row['from']})\n")
        if row["error"]:
            output.result(f"    {row['error']}\n")
    return DONE


async def _row(written: Written, workspace: Path) -> dict[str, Any]:
    row = {"name": one_line(written.name), "state": "failed", "error": "", "tools": 0, "place": ""}
    row["from"] = written.shown
    try:
        settings = written.settings(workspace)
    except ConfigError as error:
        return {**row, "error": one_line(str(error), 400)}
    if settings is None:
        return {**row, "state": "disabled"}
    from pure_agent_loop.mcp import MCPServer

    row["place"] = settings.shown
    async with MCPServer.of(settings) as server:
        await _looked_at(server)
        state = server.state
        return {**row, "state": state.state, "error": state.error, "tools": state.tools}


async def _test(settings: ServerSettings, output: Output, *, agrees: bool) -> int:
    from pure_agent_loop.mcp import MCPServer
    from pure_agent_loop.mcp.pipes import log_file

    async with MCPServer.of(settings) as server:
        begun = time.monotonic()
        await _looked_at(server)
        if server.state.state != "ready":
            output.fail(server.state.error or f"It did not answer within {LOOK_SECONDS:g} seconds.")
            return FAILED
        started = time.monotonic()
        await server.ping()
        for tool in server.known_tools:
            marks = [name for name in ("read_only", "destructive", "idempotent") if getattr(tool, name)]
            marked = f" [{', '.join(marks)}]" if marks else ""
            output.result(f"{tool.name}{marked}: {one_line(tool.description, _MOST_WORDS)}\n")
        for tool in server.news:
            output.result(f"CHANGED {tool.name}: {one_line(tool.description, _MOST_WORDS)}\n")
            output.result(f"    {json.dumps(tool.parameters)}\n")
        if server.news and agrees:
            await server.agree()
            output.say("agreed to what has changed")
        elif server.news:
            output.say(
                f"tools say something else than was agreed to; agree: pal mcp test {settings.name} --agree"
            )
        ready, answered = started - begun, (time.monotonic() - started) * 1000
        output.say(f"ready after {ready:.1f} s, answers in {answered:.1f} ms; log: {log_file(settings.name)}")
    return DONE


def _login(settings: ServerSettings, output: Output) -> int:
    from pure_agent_loop.mcp.login import log_in

    if not settings.url:
        raise ConfigError(f"The MCP server {settings.name!r} is a program: it needs no login here.")
    place = asyncio.run(log_in(settings, output.say))
    output.say(f"logged in to {settings.name}; the login is kept in: {place}")
    return DONE


async def _looked_at(server: MCPServer) -> None:
    with contextlib.suppress(ToolExecutionError, asyncio.TimeoutError):  # its state says what is wrong
        await asyncio.wait_for(server.look(), LOOK_SECONDS)
