"""The command ``serve``: serve agents over HTTP until a signal stops it."""

from __future__ import annotations

import argparse
import importlib.util
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pure_agent_loop._version import __version__
from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import add_options, describe, options_of, read_options, seconds
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.worker import (
    add_stop_with_stdin,
    execute,
    load_agents,
    load_deps,
    with_conversations,
)
from pure_agent_loop.cli.database import database_of
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.first_start import ask_for_model
from pure_agent_loop.cli.options import (
    EndpointOptions,
    LimitOptions,
    PermissionOptions,
    ServingOptions,
    ToolsetOptions,
    limits_of,
)
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.service_log import FORMATS, add_log_options, service_log
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import servers_for
from pure_agent_loop.cli.toolset import RunToolset, assistant_settings
from pure_agent_loop.durable import Engine, WorkerProcess, hide_password, stop_with_stdin
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.sessions import LinkFolder
from pure_agent_loop.support.child import command_argv
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import safe_text
from pure_agent_loop.toolbox import check_workspace, starter_tools

DEFAULT_PORT = 8484
_WORKER_SECONDS = 10.0  # maximum wait for the worker before the page starts anyway
TOKEN_VARIABLE = "PAL_SERVER_TOKEN"  # noqa: S105 - the name of a variable
_EPILOG = """\
Without --agents, the agent 'default' is served: the model of 'pal run', read-only tools for this folder, and
the MCP servers of 'pal run', whose calls need approval.
The link is printed once on standard error, with the token if this command created it. The token gives full
access. A token that you pass is not printed.

examples:
  pal serve
  pal serve --agents my_agents:agents --database sqlite:///runs.sqlite
  PAL_SERVER_TOKEN=... pal serve --host 0.0.0.0 --allow-host agents.example --tls-cert c.pem --tls-key k.pem
"""


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Serve agents over HTTP until SIGTERM or Ctrl-C.", _EPILOG)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port, 0 for any free one (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help=f"owner's token; prefer {TOKEN_VARIABLE} (default: created)",
    )
    add_options(parser, ServingOptions, only=("agents", "deps"))
    add_options(parser.add_argument_group("model of the default agent"), EndpointOptions)
    servers = parser.add_argument_group("MCP servers of the default agent")
    add_options(servers, ToolsetOptions, only=("mcp_config", "no_mcp", "trust_folder"))
    add_options(parser.add_argument_group("limits of the default agent"), LimitOptions)
    work = parser.add_argument_group("work")
    add_options(work, PermissionOptions, only=("any_folder",))
    work.add_argument(
        "--database",
        metavar="URL",
        help="run durably on sqlite:///PATH or postgresql://... (default: PAL_DATABASE)",
    )
    work.add_argument(
        "--no-work",
        action="store_true",
        help="start no worker for durable runs; 'pal worker' processes execute them",
    )
    work.add_argument("--only-work", action="store_true", help=argparse.SUPPRESS)  # for the child process
    add_stop_with_stdin(work)
    work.add_argument(
        "--folder", metavar="DIR", help="folder for the server's data (default: the data folder)"
    )
    work.add_argument(
        "--keep-days",
        type=positive,
        metavar="N",
        help="each day, delete sessions and runs not used for N days (default: keep them)",
    )
    work.add_argument(
        "--grace",
        type=seconds(),
        default=30.0,
        metavar="S",
        help="seconds for runs to finish after SIGTERM (default: 30)",
    )
    safety = parser.add_argument_group("access")
    safety.add_argument("--users", metavar="FILE", help="JSON file of additional users")
    safety.add_argument(
        "--user-header",
        default="",
        metavar="NAME",
        help="header with the user name, set by a trusted proxy",
    )
    for name, what in (
        ("host", "accepted Host header"),
        ("origin", "origin allowed by CORS"),
        ("model", "model that people may choose besides the agent's own"),
    ):
        safety.add_argument(
            f"--allow-{name}", action="append", default=[], metavar=name.upper(), help=f"{what}; repeatable"
        )
    safety.add_argument(
        "--prefix", metavar="PATH", default="", help="path prefix behind a proxy, such as /agents"
    )
    safety.add_argument(
        "--no-share", action="store_true", help="do not share sessions by links; existing links show nothing"
    )
    safety.add_argument("--tls-cert", metavar="FILE", default="", help="TLS certificate chain")
    safety.add_argument("--tls-key", metavar="FILE", default="", help="TLS private key")
    log = parser.add_argument_group("log")
    add_log_options(log)
    log.add_argument("--access-log", action="store_true", help="log each request as a line of JSON")


def serve(options: argparse.Namespace, output: CommandOutput) -> int:
    """Serve until a signal stops the server; return the exit code.

    Raises:
        PureAgentLoopError: The server cannot start.
    """
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn", "websockets"))):
        raise MissingExtraError(notice("library.feature_server"), "server")
    if options.stop_with_stdin:
        stop_with_stdin()
    with service_log(options, output.progress):
        return _serve(options, output)


def _serve(options: argparse.Namespace, output: CommandOutput) -> int:
    from pure_agent_loop.server import Serving, Settings, bind_socket, check_host, create_app, uvicorn_config

    questions = TerminalQuestions.at_terminal(output)
    default = read_options(ServingOptions, options)
    configure(default, output, Path.cwd(), questions)
    settings = Settings(
        hosts=tuple(options.allow_host),
        origins=tuple(options.allow_origin),
        grace=options.grace,
        prefix=options.prefix,
        models=tuple(options.allow_model),
        keep_days=options.keep_days,
        share=not options.no_share,
    )
    check_host(options.host, settings, has_tls=bool(options.tls_cert))
    if options.agents and options.mcp_config:
        raise ConfigError(notice("cli.serve_mcp"))
    limited = [option.flags[0] for option in options_of(LimitOptions) if option.name in default.typed_options]
    if options.agents and limited:
        raise ConfigError(notice("cli.serve_limits", option=limited[0]))
    agents = load_agents(options.agents, output) if options.agents else _default(default, questions, output)
    database = database_of(options.database)
    if options.only_work:
        deps = load_deps(options.deps)
        agents = agents if options.agents else with_conversations(agents, output)
        return execute(Engine(database, agents=agents, grace=options.grace, deps=deps), options, output)
    own_token = options.token or os.environ.get(TOKEN_VARIABLE) or None
    app = create_app(
        agents,
        own_token,
        users=options.users,
        user_header=options.user_header,
        database=database,
        folder=options.folder,
        deps=load_deps(options.deps),
        executes=database is None and not options.no_work,
        hosts=settings.hosts,
        origins=settings.origins,
        grace=settings.grace,
        prefix=settings.prefix,
        models=settings.models,
        keep_days=settings.keep_days,
        share=settings.share,
    )
    sockets = bind_socket(options.host, options.port)
    port = sockets.getsockname()[1]
    config = uvicorn_config(app, settings, options.host, port, options.tls_cert, options.tls_key)

    known = LinkFolder(options.folder).address_file

    def ready() -> None:
        scheme = "https" if options.tls_cert else "http"
        host = options.allow_host[0] if options.allow_host else _shown(options.host)
        shown = str(options.folder or data_folder()) if database is None else hide_password(database)
        about = {"version": __version__, "database": shown, "agents": ", ".join(agents)}
        output.info(notice("cli.serve_started", **about))
        token = "YOUR_TOKEN" if own_token else app.state.token  # stderr may be a log that others can read
        base = f"{scheme}://{host}:{port}{options.prefix}"
        known.write_text(base, "utf-8")
        address = f"{base}/#token={token}"
        if output.err_is_terminal and options.log_format == FORMATS[0]:
            output.progress(f"\n{safe_text(address)}\n\n")  # alone on its line, so that it is easy to select
        else:
            output.info(notice("cli.serve_at", address=address))
        output.info(notice("cli.serve_link"))

    def stopping() -> None:
        output.info(notice("cli.serve_stopping", grace=options.grace))

    with ExitStack() as stack:
        stack.callback(known.unlink, missing_ok=True)
        if database is not None and not options.no_work:
            child = command_argv(*options.command_line, "--only-work", "--stop-with-stdin")
            worker = stack.enter_context(WorkerProcess(child, database, grace=options.grace))
            worker.wait_ready(_WORKER_SECONDS)  # after the timeout, the page starts without a worker
        Serving(config, options.grace, ready, stopping).run([sockets])
    output.info(notice("cli.command_stopped"))
    return DONE


def _default(
    options: ServingOptions, questions: TerminalQuestions | None, output: CommandOutput
) -> dict[str, Agent]:
    workspace = Path.cwd()
    if not options.any_folder:
        check_workspace(workspace)
    servers = servers_for(options, workspace, questions, output)
    ask_for_model(options, output, questions)
    choice, limits = choose(options, "off", output, questions=questions), limits_of(options)
    toolset = RunToolset(starter_tools("."), mcp=servers)
    about: dict[str, Any] = {}
    if not choice.is_tiny:
        about = assistant_settings(workspace, toolset, "ask", limits, trusted=None, is_attended=True)
    return {
        "default": Agent(
            **about,
            llm=choice.client,
            tools=[*toolset.tools, *([servers] if servers else [])],
            limits=limits,
            audit=AuditLog(),
            permission_mode="ask",
            starters=[notice(f"cli.starter_{name}") for name in ("look", "explain", "find")],
        )
    }


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(user_text("cli.port", text=text))
    return int(text)


def _shown(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - only displayed
