"""One ASGI application: the page, the interface for programs, health and numbers."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.values import check_agent_name
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import EventType
from pure_agent_loop.server.api import about, files, operator, runs, schedules, sessions, streams
from pure_agent_loop.server.api.actions import servers_of
from pure_agent_loop.server.api.openapi import document
from pure_agent_loop.server.api.operation import Asked
from pure_agent_loop.server.api.sockets import socket
from pure_agent_loop.server.asking import ask_in_hub
from pure_agent_loop.server.entries import RUN_END, RUN_START, RUN_STATE, Entry
from pure_agent_loop.server.foreign import OPERATIONS as FOREIGN
from pure_agent_loop.server.gate import Gate
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.page_files import PageFiles
from pure_agent_loop.server.people import People, Person, check_people, kept_secret
from pure_agent_loop.server.problems import UNEXPECTED, Problem, as_problem
from pure_agent_loop.server.service import Service
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.server.work import work_here
from pure_agent_loop.session import SessionManager
from pure_agent_loop.support.paths import data_folder, private_folder

if TYPE_CHECKING:
    from pure_agent_loop.mcp import Published
    from pure_agent_loop.mcp.serving.mounted import Mounted
    from pure_agent_loop.mcp.serving.offer import Caller, Offer

OPERATIONS = [
    *about.OPERATIONS,
    *runs.OPERATIONS,
    *sessions.OPERATIONS,
    *files.OPERATIONS,
    *schedules.OPERATIONS,
    *streams.OPERATIONS,
    *operator.OPERATIONS,
    *FOREIGN,
]

_CHANGES = (EventType.STEP_END, RUN_START, RUN_STATE, RUN_END)  # a session reads differently after them


def make_app(
    agents: Agent | Mapping[str, Agent],
    token: str | None,
    users: Any,
    user_header: str,
    sessions_at: Any,
    database: str | None,
    folder: str | os.PathLike[str] | None,
    settings: Settings,
    published: Published | None = None,
) -> Starlette:
    """The application; `create_app` says what the arguments are."""
    named = _named(agents)
    place = private_folder(data_folder() / "server" if folder is None else Path(folder).expanduser())
    kept = token or kept_secret(place / "token", lambda: secrets.token_urlsafe(32))
    seal = kept_secret(place / "secret", lambda: secrets.token_hex(32))
    people = People(kept, check_people(users), user_header, seal.encode())
    metrics = Metrics()
    engine = None
    if database is not None:
        from pure_agent_loop.server.engine_work import EngineWork

        if sessions_at is not None:
            raise ConfigError("sessions and database were both given: the engine keeps sessions of its own.")
        engine = EngineWork(database, named, settings.grace)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        manager = SessionManager(engine.sessions if engine else sessions_at)
        do = engine.follow if engine else work_here
        hub = Hub(named, manager, place, settings, metrics, do, engine)
        hub.told = partial(_noted, metrics, served)
        app.state.service = Service(hub, people, settings, metrics, engine)
        stack = contextlib.AsyncExitStack()
        try:
            for server in chain.from_iterable(map(servers_of, named.values())):
                await stack.enter_async_context(server)  # what is begun of it stays while this runs
            if engine is not None:
                await engine.start()
            hub.resume()
            yield
        finally:
            app.state.service.closing.set()
            if served is not None:
                await served.close()
            await hub.close()
            if engine is not None:
                await engine.close()
            await stack.aclose()
            for agent in named.values():
                await agent.aclose()

    routes = _routes()
    served = _mcp(named, lambda: app, settings, published)
    if served is not None:
        routes.append(Route("/mcp", served))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Gate, people=people, settings=settings, metrics=metrics)],
        exception_handlers={HTTPException: _http_problem, Problem: _problem, Exception: _failure},
        lifespan=lifespan,
    )
    app.state.token = kept
    return app


def _named(agents: Agent | Mapping[str, Agent]) -> dict[str, Agent]:
    found = {"default": agents} if isinstance(agents, Agent) else dict(agents)
    if not found or not all(isinstance(each, Agent) for each in found.values()):
        raise ConfigError("agents must be an Agent, or a dict of agents by name with at least one in it.")
    # What an agent of the server asks reaches the people there; one that asks elsewhere keeps doing so.
    return {
        check_agent_name(name): agent if agent._kit.on_ask else agent.clone(on_ask=ask_in_hub)
        for name, agent in found.items()
    }


def _mcp(
    named: Mapping[str, Agent], app: Callable[[], Starlette], settings: Settings, published: Published | None
) -> Mounted | None:
    """The agents as an MCP server, and the tools of the one called ``default`` for who operates this."""
    if importlib.util.find_spec("mcp_types") is None:
        return None
    from pure_agent_loop.mcp.serving.mounted import Mounted

    def caller(context: Any) -> Caller:
        from pure_agent_loop.mcp.serving.offer import Caller

        person: Person = context.request.scope["state"]["person"]
        operates = person.may("operate")
        return Caller(person.owns, person.new_session_id, may_call=operates, may_run=person.may("use"))

    def offer() -> Offer:
        from pure_agent_loop.mcp.serving.offer import Offer  # it loads the SDK

        agents = {
            name: agent.clone(on_ask=None) if agent._kit.on_ask is ask_in_hub else agent
            for name, agent in named.items()
        }
        store = app().state.service.hub.sessions.store
        return Offer(agents.get("default"), agents, store, caller, published)

    return Mounted(offer, lambda scope: scope["state"]["person"].name, settings.max_body)


def _noted(metrics: Metrics, served: Mounted | None, entry: Entry) -> None:
    metrics.event(entry)
    if served is not None and entry.plain["type"] in _CHANGES:
        served.session_changed(entry.session)


def _routes() -> list[BaseRoute]:
    page = PageFiles()
    routes: list[BaseRoute] = [
        Route("/", page.index, methods=["GET"]),
        Route("/assets/{path:path}", page.asset, methods=["GET"]),
        Route("/healthz", _health, methods=["GET"]),
        Route("/readyz", _ready, methods=["GET"]),
        Route("/metrics", _metrics, methods=["GET"]),
        Route("/api/login", _login, methods=["POST"]),
        Route("/api/openapi.json", _openapi, methods=["GET"]),
        WebSocketRoute("/ws", socket),
    ]
    by_path: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        by_path.setdefault(each.path, {})[each.method] = each
    for path, methods in by_path.items():
        routes.append(Route(path, _choice(path, methods), methods=list(methods)))
    return routes


def _choice(path: str, methods: Mapping[str, Any]) -> Any:
    async def answer(request: Request) -> Response:
        request.scope["state"]["route"] = path
        found: Response = await methods["GET" if request.method == "HEAD" else request.method](request)
        return found

    return answer


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _ready(request: Request) -> Response:
    if request.app.state.service.hub.is_draining:
        return PlainTextResponse("stopping\n", 503)
    return PlainTextResponse("ready\n")


async def _metrics(request: Request) -> Response:
    service: Service = request.app.state.service
    if not request.scope["state"]["person"].may("operate"):
        raise Problem(403, "This needs the role 'operate'.")
    text = service.metrics.text(service.hub.open_runs)
    return PlainTextResponse(text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _openapi(_: Request) -> Response:
    return JSONResponse(document(OPERATIONS))


async def _login(request: Request) -> Response:
    asked: Any = Asked(request.app.state.service, None, {}, None, None, request)  # type: ignore[arg-type]  # nobody yet
    try:
        return await about.login(asked)
    except PureAgentLoopError as error:
        return _told(request, as_problem(error))


def _told(request: Request, problem: Problem) -> Response:
    body, kind = problem.body(request.url.path)
    return Response(body, problem.status, problem.headers, kind)


async def _problem(request: Request, error: Exception) -> Response:
    return _told(request, as_problem(error))


async def _failure(request: Request, _: Exception) -> Response:
    return _told(request, Problem(500, UNEXPECTED))


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = "There is nothing here." if error.status_code == 404 else str(error.detail)
    return _told(request, Problem(error.status_code, detail, error.headers))
