"""The command ``mcp``: servers of others, and our tools and agents as a server."""

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

from pure_agent_loop.cli.arguments import describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.protocols.mcp_serve import add_serving, serve_here
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.servers import Written, every_written
from pure_agent_loop.cli.slow import Waiting
from pure_agent_loop.cli.toolset import workspace_of
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer
    from pure_agent_loop.mcp.settings import ServerSettings

_URL = re.compile(r"\w+:(?://?|$)|localhost:\d|[\d.]+:\d")  # what cannot be the name of a program
_MOST_WORDS = 2_100
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
    parser.add_argument("--cwd", metavar="DIR", help="the folder it starts in (default: none of yours)")
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
        meant = did_you_mean(options.name, servers)
        raise ConfigError(f"There is no MCP server {options.name!r:.60}.{meant} See: pal mcp list")
    written = servers[options.name]
    if options.action == "logout":
        _, was_there = _logged_out(options.name, written.table, written.shown)
        output.say(f"the login of {options.name} is forgotten" if was_there else "there was no login")
        return DONE
    settings = written.settings(workspace)
    if settings is None:
        raise ConfigError(f"The MCP server {options.name!r} is disabled in {written.shown}.")
    if options.action == "login":
        return _login(settings, output)
    return asyncio.run(_test(settings, output, agrees=options.agree))


def _add(options: argparse.Namespace, output: Output) -> int:
    from pure_agent_loop.mcp.files import change_user, user_path, user_tables

    is_url = _URL.match(options.where[0]) is not None
    if is_url and len(options.where) > 1:
        raise ConfigError("A server is added with one URL, or with -- and a command.")
    if options.sse and not is_url:
        raise ConfigError("--sse is for a server with a URL; leave it out.")
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
    if options.cwd and not Path(options.cwd).is_dir():
        raise ConfigError(f"--cwd {options.cwd!r:.80} is no folder.")
    table |= {"cwd": str(Path(options.cwd).absolute())} if options.cwd else {}
    table |= {"trusted": True} if options.trusted else {}
    notes = _notes(options.name, table, user_path())
    was_there = options.name in user_tables()
    change_user(lambda servers: servers.update({options.name: table}))
    done = f"wrote {options.name} anew in" if was_there else f"added {options.name} to"
    output.say(f"{done} {user_path()}; look at it: pal mcp test {options.name}")
    for note in notes:
        output.say(f"but {note}")
    return DONE


def _notes(name: str, table: dict[str, Any], path: Path) -> list[str]:
    """What a person should know of a server that is to be added."""
    from pure_agent_loop.mcp.files import UnsetError, settings_of

    try:
        settings = settings_of(name, table, str(path))
    except UnsetError as unset:  # it may be set when the server is used
        return [str(unset)]
    if settings is None or not settings.command:
        return []
    program, *rest = settings.command
    is_here = Path(program).is_absolute() or settings.cwd
    is_elsewhere = "PATH" in settings.env
    if not is_here and (os.sep in program or not (is_elsewhere or find_program(program))):
        return [f"there is no program {program!r} on the PATH; for one of a folder, give its full path"]
    mine = () if settings.cwd else [each for each in rest if not Path(each).is_absolute()]
    lost = next((each for each in mine if Path(each).exists()), "")
    return [f"it does not start in this folder, so it will not find {lost!r}; see --cwd"] if lost else []


def _pair(text: str, sign: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise ConfigError(f"{text!r:.60} must be NAME{sign}VALUE.")
    return name.strip(), value.strip() if sign == ":" else value


def _remove(name: str, output: Output) -> int:
    from pure_agent_loop.mcp.files import change_user, user_path, user_tables
    from pure_agent_loop.mcp.offered import Approvals

    tables = user_tables()
    if (table := tables.get(name)) is None:
        meant = did_you_mean(name, tables)
        raise ConfigError(f"{user_path()} has no server {name!r:.60}.{meant} See: pal mcp list")
    with contextlib.suppress(ConfigError):
        Approvals(_logged_out(name, table, str(user_path()))[0].identity).forget()
    change_user(lambda servers: servers.__delitem__(name))
    output.say(f"removed {name}")
    return DONE


def _logged_out(name: str, table: Mapping[str, Any], shown: str) -> tuple[ServerSettings, bool]:
    """Which server it is; its login is forgotten, if there was one. Variables of other fields may be gone."""
    from pure_agent_loop.mcp.files import settings_of
    from pure_agent_loop.mcp.login import forget

    which = {key: value for key, value in table.items() if key in ("type", "command", "args", "url")}
    settings = settings_of(name, which, shown)
    assert settings is not None  # nothing here says that it is disabled
    return settings, forget(settings)


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
    with _waiting(output, "the servers"):
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
        if why := await _why_not(server):
            return {**row, "error": why}
        return {**row, "state": "ready", "tools": server.state.tools}


async def _test(settings: ServerSettings, output: Output, *, agrees: bool) -> int:
    from pure_agent_loop.mcp import MCPServer
    from pure_agent_loop.mcp.pipes import log_file

    async with MCPServer.of(settings) as server:
        begun = time.monotonic()
        with _waiting(output, settings.name):
            why = await _why_not(server)
        if why:
            output.fail(why)
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


def _waiting(output: Output, what: str) -> Waiting:
    waiting = Waiting(output, enabled=True)
    waiting.wait_for(what)
    return waiting


async def _why_not(server: MCPServer) -> str:
    """Start a server and have it list its tools; why that cannot be, empty if it can."""
    from pure_agent_loop.mcp.connection import ServerError

    try:
        await server.look()
    except ServerError as error:
        return server.state.error or error.message
    return ""
