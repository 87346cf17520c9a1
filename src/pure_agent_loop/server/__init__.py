"""Agents behind HTTP: one ASGI application for pages and programs. Needs the extra ``[server]``.

    app           the ASGI application: routes and lifespan
    gate          middleware: host, origin, authentication, rate, size
    people        users, roles, tokens and cookies
    problems      error responses
    service       what request handlers share
    hub           runs: start, steer, answer, resume; `work` and `engine_work` execute them
    asking        questions from runs, and their answers
    channel       delivers a session's events (`entries`) to viewers and saves them in an `event_file`
    labels        names, folders, pins and versions of sessions
    runs_file     the persisted list of runs
    retention     deletes unused sessions and runs daily
    api/          the programming interface: REST, Server-Sent Events, WebSocket, OpenAPI
    foreign/      other protocols: two of OpenAI's, AG-UI, the AI SDK's stream
    metrics       Prometheus metrics
    page_files    static files of the web page
    serving       the process: sockets, TLS, signals

See docs/server.md.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.server.people import Person
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.mcp import Published
    from pure_agent_loop.server.labels import first_versions
    from pure_agent_loop.server.serving import Serving, bind_socket, check_host, uvicorn_config
    from pure_agent_loop.server.settings import Settings
    from pure_agent_loop.sessions import SessionPlace

__all__ = [
    "Person",
    "Serving",
    "Settings",
    "bind_socket",
    "check_host",
    "create_app",
    "first_versions",
    "uvicorn_config",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("Serving", "bind_socket", "check_host", "uvicorn_config"), "serving"),
        "Settings": "settings",
        "first_versions": "labels",
    },
)


def create_app(
    agents: Agent | Mapping[str, Agent],
    token: str | None = None,
    *,
    users: Any = None,
    user_header: str = "",
    sessions: SessionPlace | None = None,
    database: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    published: Published | None = None,
    deps: Callable[..., Any] | None = None,
    executes: bool = True,
    **limits: Any,
) -> Any:
    """Create an ASGI application that serves agents; it must run in a single process.

        app = create_app({"helper": agent}, token=os.environ["PAL_TOKEN"])

    Args:
        agents: One agent, served as ``default``, or a dict of name -> agent.
        token: The owner's token, at least 16 characters. If omitted, the token is read from the file
            ``token`` in `folder`, or generated and saved there. ``app.state.token`` holds the token in use.
        users: Additional users: `Person` objects, or the path of a JSON file that lists users.
        user_header: The header that names the user, set by a proxy that sends the owner's token.
        sessions: A folder, a store or a `SessionManager`; if None, sessions are stored in the data folder.
        database: Run tasks durably on an engine: ``sqlite:///PATH`` or ``postgresql://...``.
        folder: The server's own files; ``server`` in the data folder if None.
        published: Prompts and resources for MCP clients, in addition to the agents.
        deps: Factory for the `RunContext` dependencies, called once per attempt of a run; see
            `durable.Engine`.
        executes: False to leave the engine's runs to workers in other processes.
        limits: Fields of `settings.Settings`, such as `hosts`, `origins`, `show_tools`, `starters` and
            `grace`.

    Raises:
        ConfigError: An argument is invalid.
        MissingExtraError: The extra ``[server]`` is not installed.
    """
    if importlib.util.find_spec("starlette") is None:
        raise MissingExtraError(notice("library.feature_server"), "server")
    if database is None and not executes:
        raise ConfigError(notice("library.server_needs_engine"))
    from pure_agent_loop.server.app import make_app
    from pure_agent_loop.server.settings import make_settings

    settings = make_settings(limits)
    return make_app(
        agents,
        token,
        users,
        user_header,
        sessions,
        database,
        folder,
        settings,
        published,
        deps,
        executes=executes,
    )
