"""Agents behind HTTP: one ASGI application for pages and programs. Needs the extra ``[server]``.

    app           the application, put together
    gate          what stands before every handler: host, origin, who, how often, how much
    people        who may ask, and as what
    hub           runs: begun, steered, answered, gone on with; `work` and `engine_work` do them
    asking        questions of runs, and their answers
    channel       events of a session on their way to viewers; entries, event_file
    runs_file     what is kept of runs
    api/          the interface for programs: REST, Server-Sent Events, WebSocket, OpenAPI
    foreign/      protocols of others: OpenAI's two, AG-UI, the AI SDK's stream
    metrics       numbers for Prometheus
    page_files    the page
    serving       the process: sockets, TLS, signals

docs/server.md describes all of it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.server.people import Person

if TYPE_CHECKING:
    from pure_agent_loop.mcp import Published
    from pure_agent_loop.sessions import SessionStore

__all__ = ["Person", "create_app"]


def create_app(
    agents: Agent | Mapping[str, Agent],
    token: str | None = None,
    *,
    users: Any = None,
    user_header: str = "",
    sessions: str | os.PathLike[str] | SessionStore | None = None,
    database: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    published: Published | None = None,
    **limits: Any,
) -> Any:
    """An ASGI application that serves agents, to be run in one process.

        app = create_app({"helper": agent}, token=os.environ["PAL_TOKEN"])

    Args:
        agents: An agent, which is called ``default``, or agents by name.
        token: The owner's token, at least 16 characters. Without one it is made, and kept in the file
            ``token`` of `folder`; ``app.state.token`` has it.
        users: Further people: `Person` objects, or the path of a JSON table of them.
        user_header: The header in which a proxy that shows the owner's token names a person.
        sessions: A folder or a store; the sessions in the data folder if None.
        database: Have an engine of durable runs do the work: ``sqlite:///PATH`` or ``postgresql://...``.
        folder: What the server keeps of its own; ``server`` in the data folder if None.
        published: Prompts and resources for MCP clients, beside the agents.
        limits: Fields of `settings.Settings`, such as `hosts`, `origins`, `show_tools` and `grace`.

    Raises:
        ConfigError: An argument cannot work.
        MissingExtraError: The extra ``[server]`` is not installed.
    """
    if importlib.util.find_spec("starlette") is None:
        raise MissingExtraError("the server", "server")
    from pure_agent_loop.server.app import make_app
    from pure_agent_loop.server.settings import made_settings

    settings = made_settings(limits)
    return make_app(agents, token, users, user_header, sessions, database, folder, settings, published)
