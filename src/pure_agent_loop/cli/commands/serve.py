"""The command ``serve``: agents behind HTTP, for pages and programs, until it is told to stop."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
from pathlib import Path

from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import (
    DEFAULT_MAX_STEPS,
    add_any_folder,
    add_endpoint,
    add_servers,
    add_trust,
    describe,
)
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.worker import load_agents
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import servers_for
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.support.numbers import seconds
from pure_agent_loop.toolbox import starter_tools
from pure_agent_loop.toolbox.sandbox.bubblewrap import check_workspace

DEFAULT_PORT = 8484
TOKEN_VARIABLE = "PAL_SERVER_TOKEN"  # noqa: S105 - the name of a variable
MOST_SECONDS = 86_400
_EPILOG = """\
Without --agents there is the agent 'default', with the model of 'pal run', tools that only read here, and the
MCP servers of 'pal run', whose tools a person is asked about.
The link with the token is printed once, on standard error; whoever has it may do everything.

examples:
  pal serve
  pal serve --agents my_agents:agents --database sqlite:///runs.sqlite
  PAL_SERVER_TOKEN=... pal serve --host 0.0.0.0 --allow-host agents.example --tls-cert c.pem --tls-key k.pem
"""


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "Serve agents to pages and programs, until SIGTERM or Ctrl-C.", _EPILOG)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1")
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, metavar="N", help=f"0 for any (default: {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help=f"the owner's; better in the environment as {TOKEN_VARIABLE} (default: one is made and kept)",
    )
    parser.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="an agent, a dict of agents by name, or a function that makes one of them",
    )
    add_endpoint(parser.add_argument_group("model of the default agent"))
    add_servers(servers := parser.add_argument_group("MCP servers of the default agent"))
    add_trust(servers)
    work = parser.add_argument_group("work")
    add_any_folder(work)
    work.add_argument(
        "--database",
        metavar="URL",
        help="have an engine of durable runs do the work: sqlite:///PATH or postgresql://...",
    )
    work.add_argument("--folder", metavar="DIR", help="of what the server keeps itself")
    work.add_argument(
        "--grace",
        type=seconds(MOST_SECONDS),
        default=30.0,
        metavar="S",
        help="seconds that runs get to end at SIGTERM; the rest goes on at the next start (default: 30)",
    )
    safety = parser.add_argument_group("who may ask")
    safety.add_argument("--users", metavar="FILE", help="a JSON table of further people")
    safety.add_argument(
        "--user-header",
        default="",
        metavar="NAME",
        help="where a proxy that has the token names people",
    )
    for name, what in (("host", "name it is called by"), ("origin", "page of elsewhere that may call it")):
        safety.add_argument(
            f"--allow-{name}", action="append", default=[], metavar=name.upper(), help=f"{what}; repeatable"
        )
    safety.add_argument("--tls-cert", metavar="FILE", default="", help="the certificate chain")
    safety.add_argument("--tls-key", metavar="FILE", default="", help="its key")
    safety.add_argument("--access-log", action="store_true", help="a line of JSON for each request")


def serve(options: argparse.Namespace, output: Output) -> int:
    """Serve until a signal ends it; return the exit code.

    Raises:
        PureAgentLoopError: It cannot begin.
    """
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn", "websockets"))):
        raise MissingExtraError("the server", "server")
    from pure_agent_loop.server import create_app
    from pure_agent_loop.server.serving import Serving, bound, check_place, config_for
    from pure_agent_loop.server.settings import Settings

    questions = Questions.at_terminal(output)
    configure(options, output, Path.cwd(), questions)
    settings = Settings(
        hosts=tuple(options.allow_host), origins=tuple(options.allow_origin), grace=options.grace
    )
    check_place(options.host, settings, has_tls=bool(options.tls_cert))
    if options.agents and options.mcp_config:
        raise ConfigError("--mcp-config gives tools to the default agent. Leave out --agents.")
    agents = load_agents(options.agents, output) if options.agents else _default(options, questions, output)
    app = create_app(
        agents,
        options.token or os.environ.get(TOKEN_VARIABLE) or None,
        users=options.users,
        user_header=options.user_header,
        database=options.database,
        folder=options.folder,
        hosts=settings.hosts,
        origins=settings.origins,
        grace=settings.grace,
    )
    if options.access_log:
        _log_to_stderr("pure_agent_loop.server.access", logging.INFO, "%(message)s")
    _log_to_stderr("pure_agent_loop.server", logging.WARNING, "pal: %(message)s")
    _log_to_stderr("uvicorn", logging.WARNING, "pal: %(message)s")
    sockets = bound(options.host, options.port)
    port = sockets.getsockname()[1]
    config = config_for(app, settings, options.host, port, options.tls_cert, options.tls_key)

    def ready() -> None:
        scheme = "https" if options.tls_cert else "http"
        host = options.allow_host[0] if options.allow_host else _shown(options.host)
        output.say(f"agents {', '.join(agents)}")
        output.say(f"serving {scheme}://{host}:{port}/#token={app.state.token}")
        output.say("whoever has this link may do everything; SIGTERM or Ctrl-C ends it")

    def stopping() -> None:
        output.say(f"stopping; runs get {options.grace:g} s to end (again: leave them for the next start)")

    Serving(config, options.grace, ready, stopping).run([sockets])
    output.say("stopped")
    return DONE


def _default(options: argparse.Namespace, questions: Questions | None, output: Output) -> dict[str, Agent]:
    workspace = Path.cwd()
    if not options.any_folder:
        check_workspace(workspace)
    about = argparse.Namespace(**{**vars(options), "no_tools": False, "tools": "all"})
    servers = servers_for(about, workspace, questions, output)
    choice = choose(options.model, options.base_url, "off", os.environ, output, options.configured)
    limits = LoopLimits(max_turns=DEFAULT_MAX_STEPS, max_tokens=None)
    agent = Agent(
        llm=choice.client,
        tools=[*starter_tools("."), *([servers] if servers else [])],
        limits=limits,
        audit=AuditLog(),
        permission_mode="ask",
    )
    return {"default": agent}


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to 65535")
    return int(text)


def _shown(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - for people


def _log_to_stderr(name: str, level: int, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(form))
    log = logging.getLogger(name)
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
