"""The ASGI application: web page, API, health checks and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.durable.health import measure, measured
from pure_agent_loop.durable.values import DurableError, check_agent_name
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import EventType
from pure_agent_loop.runs.settings import set_deps
from pure_agent_loop.schema.calling import checked_in_run
from pure_agent_loop.server.api import about, files, operator, runs, schedules, sessions, sharing, streams
from pure_agent_loop.server.api.actions import servers_of
from pure_agent_loop.server.api.openapi import document
from pure_agent_loop.server.api.operation import ApiRequest
from pure_agent_loop.server.api.sockets import socket
from pure_agent_loop.server.asking import ask_in_hub
from pure_agent_loop.server.entries import RUN_END, RUN_START, RUN_STATE, ChannelEntry
from pure_agent_loop.server.foreign import OPERATIONS as FOREIGN
from pure_agent_loop.server.foreign.pending import PendingCalls
from pure_agent_loop.server.gate import GateMiddleware
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.page_files import PageFiles
from pure_agent_loop.server.people import People, Person, load_or_create_secret
from pure_agent_loop.server.problems import UNEXPECTED, HttpProblem, as_problem, language_of, path_of
from pure_agent_loop.server.retention import retention
from pure_agent_loop.server.service import Service
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.server.work import work_here
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import store_at
from pure_agent_loop.support.folders import private_folder, server_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.prometheus import CONTENT_TYPE

if TYPE_CHECKING:
    from pure_agent_loop.mcp import Published
    from pure_agent_loop.mcp.serving.mounted import Mounted
    from pure_agent_loop.mcp.serving.server import AgentServer, Caller

LOG = logging.getLogger("pure_agent_loop.server")


OPERATIONS = [
    *about.OPERATIONS,
    *runs.OPERATIONS,
    *sessions.OPERATIONS,
    *files.OPERATIONS,
    *sharing.OPERATIONS,
    *schedules.OPERATIONS,
    *streams.OPERATIONS,
    *operator.OPERATIONS,
    *FOREIGN,
]
_CHANGES = (EventType.STEP_END, RUN_START, RUN_STATE, RUN_END)  # events that change a session's content


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
    deps: Callable[..., Any] | None = None,
    *,
    executes: bool = True,
) -> Starlette:
    """Build the application. See `create_app` for the arguments."""
    named = _named(agents, checked_in_run("deps", deps))
    _check_models(named, settings.models)
    private = private_folder(server_folder(folder))
    kept = private / "token"
    owner_token = token or load_or_create_secret(kept, lambda: secrets.token_urlsafe(32))
    cookie_secret = load_or_create_secret(private / "secret", lambda: secrets.token_hex(32))
    people = People(token or kept, private / "ended", users, user_header, cookie_secret.encode())
    metrics = Metrics()
    engine, store = None, None if sessions_at is None else store_at(sessions_at)
    if database is not None:
        from pure_agent_loop.server.engine_work import EngineWork

        if sessions_at is not None:
            raise ConfigError(
                "sessions and database cannot be combined: the engine stores sessions in its database."
            )
        engine = EngineWork(database, named, settings.grace, executes=executes)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        manager = SessionManager(engine.sessions if engine else store)
        worker = engine.follow if engine else work_here
        hub = Hub(named, manager, private, settings, metrics, worker, engine)
        hub.on_event = partial(_record_event, metrics, served)
        app.state.service = Service(hub, people, settings, metrics, engine)
        stack = contextlib.AsyncExitStack()
        try:
            for server in chain.from_iterable(map(servers_of, named.values())):
                await stack.enter_async_context(server)  # keep it connected while the application is running
            if engine is not None:
                await engine.start()
            hub.resume_interrupted()
            async with hub.watching(), people.watching(), retention(hub, settings.keep_days, private, engine):
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

    routes, life = _routes(), Lifetime(lifespan)
    served = _mcp(named, lambda: app, settings, published)
    if served is not None:
        routes.append(Route("/mcp", served))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(GateMiddleware, people=people, settings=settings, metrics=metrics)],
        exception_handlers={
            HTTPException: _http_problem,
            PureAgentLoopError: _problem,
            ClientDisconnect: _disconnected,
            Exception: _failure,
        },
        lifespan=life.lifespan,
    )
    app.state.life, app.state.pending_calls = life, PendingCalls()
    app.state.token = owner_token
    return app


class Lifetime:
    """Runs the server's lifespan in its own task.

    Normally, the lifespan starts with the application. An application mounted in another one gets no lifespan
    events: its first request starts the lifespan, and a signal to the process ends the lifespan before the
    server handles the signal.

    Args:
        context: Entered at the start and exited at the end, in the same task.
    """

    def __init__(self, context: Callable[[Starlette], AbstractAsyncContextManager[None]]) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The lifespan of the application: start, yield, then stop."""
        await self.begin(app)
        yield
        await self.close()

    async def begin_mounted(self, app: Starlette) -> None:
        """Start the lifespan if it has not started yet, and stop it at SIGTERM and Ctrl-C."""
        if self._task is None:
            self._take_signals(app)
        await self.begin(app)

    async def begin(self, app: Starlette) -> None:
        """Start the lifespan if it has not started yet. Errors during startup are raised here."""
        if self._task is None:
            self._started, self._stop = asyncio.Event(), asyncio.Event()
            self._task = asyncio.create_task(self._run(app))
        if not self._started.is_set():
            started = asyncio.ensure_future(self._started.wait())
            await asyncio.wait({started, self._task}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            if self._task.done():
                task, self._task = self._task, None
                task.result()

    async def _run(self, app: Starlette) -> None:
        async with self._context(app):
            self._started.set()
            await self._stop.wait()

    async def close(self) -> None:
        """Stop the lifespan and wait until it has ended."""
        if self._task is not None:
            self._stop.set()
            await self._task

    def _take_signals(self, app: Starlette) -> None:
        """At a signal that the process handles, stop the lifespan, then call the process's own handler."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread can set handlers; without them, a signal ends the process at once
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, partial(self._on_signal, app, loop, handler))

    def _on_signal(
        self, app: Starlette, loop: asyncio.AbstractEventLoop, handler: Any, number: int, frame: Any
    ) -> None:
        if self._stopping is None:
            self._stopping = loop.create_task(self._stop_before(app, partial(handler, number, frame)))
            loop.call_soon_threadsafe(lambda: None)  # wakes the event loop
        else:  # a second signal ends the wait
            self._stopping.cancel()

    async def _stop_before(self, app: Starlette, go_on: Callable[[], object]) -> None:
        """Let runs finish and event streams end, as `pal serve` does; then let the server stop."""
        service: Service | None = getattr(app.state, "service", None)
        try:
            if service is not None:
                await service.hub.drain(service.settings.grace)
                service.end_streams()
                await self.close()
        finally:
            if service is not None:
                service.end_streams()  # otherwise the server would wait for the streams
            go_on()


def _named(agents: Agent | Mapping[str, Agent], deps: Callable[..., Any] | None) -> dict[str, Agent]:
    if not agents:
        raise ConfigError("agents must be an Agent or a non-empty dict of name -> Agent.")
    by_name = {"default": agents} if isinstance(agents, Agent) else agents
    by_name = served_agents(by_name, "the server", "set create_app(sessions=...)")
    # Questions go to the server's users, except those of an agent with its own on_ask.
    named = {
        check_agent_name(name): agent
        if agent.config.on_ask and deps is None
        else agent.clone(on_ask=agent.config.on_ask or ask_in_hub)
        for name, agent in by_name.items()
    }
    if deps is not None:
        for agent in named.values():
            set_deps(agent, deps)
    return named


def _check_models(named: Mapping[str, Agent], models: Sequence[str]) -> None:
    """Reject a list of models to choose from if an agent was created with its own client."""
    fixed = [name for name, agent in named.items() if agent.config.has_own_client]
    if models and fixed:
        raise ConfigError(notice("library.server_fixed_model", agents=", ".join(fixed)))


def _mcp(
    named: Mapping[str, Agent], app: Callable[[], Starlette], settings: Settings, published: Published | None
) -> Mounted | None:
    """Expose the agents over MCP; operators also get the tools of the agent ``default``."""
    if importlib.util.find_spec("mcp_types") is None:
        return None
    from pure_agent_loop.mcp.serving.mounted import Mounted

    def caller(context: Any) -> Caller:
        from pure_agent_loop.mcp.serving.server import Caller

        person: Person = context.request.scope["state"]["person"]
        operates = person.may("operate")
        return Caller(person.owns, person.new_session_id, may_call=operates, may_run=person.may("use"))

    def make_server() -> AgentServer:
        from pure_agent_loop.mcp.serving.server import AgentServer  # this import loads the SDK

        agents = {
            name: agent.clone(on_ask=None) if agent.config.on_ask is ask_in_hub else agent
            for name, agent in named.items()
        }
        store = app().state.service.hub.sessions.store
        return AgentServer(agents.get("default"), agents, store, caller, published)

    return Mounted(make_server, lambda scope: scope["state"]["person"].name, settings.max_body)


def _record_event(metrics: Metrics, served: Mounted | None, entry: ChannelEntry) -> None:
    metrics.event(entry)
    if served is not None and entry.plain["type"] in _CHANGES:
        served.session_changed(entry.session)


def _routes() -> list[BaseRoute]:
    page = PageFiles()
    routes: list[BaseRoute] = [
        Route("/", page.index, methods=["GET"]),
        Route("/assets/{path:path}", page.asset, methods=["GET"]),
        *(Route(path, _live, methods=["GET"]) for path in ("/live", "/healthz")),
        *(Route(path, _ready, methods=["GET"]) for path in ("/ready", "/readyz")),
        Route("/metrics", _metrics, methods=["GET"]),
        Route(sharing.SHOWN, sharing.show, methods=["GET"]),
        Route("/api/login", _login, methods=["GET", "POST"]),
        Route("/api/openapi.json", _openapi, methods=["GET"]),
        WebSocketRoute("/ws", socket),
    ]
    by_path: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    for path, methods in by_path.items():
        routes.append(Route(path, _dispatcher(path, methods), methods=list(methods)))
    return routes


def _dispatcher(path: str, methods: Mapping[str, Any]) -> Any:
    async def dispatch(request: Request) -> Response:
        request.scope["state"]["route"] = path
        response: Response = await methods["GET" if request.method == "HEAD" else request.method](request)
        return response

    return dispatch


async def _live(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _ready(request: Request) -> Response:
    service: Service = request.app.state.service
    if service.hub.is_draining:
        return PlainTextResponse("stopping\n", 503)
    if service.engine is not None:
        try:
            await asyncio.to_thread(measure, service.engine.database)
        except DurableError:
            LOG.warning("Not ready: the database does not answer.", exc_info=True)
            return PlainTextResponse("the database does not answer\n", 503)
    return PlainTextResponse("ready\n")


async def _metrics(request: Request) -> Response:
    service: Service = request.app.state.service
    if not request.scope["state"]["person"].may("operate"):
        raise HttpProblem(403, notice("library.server_role", role="operate"))
    engine = service.engine
    gauges = {} if engine is None else await asyncio.to_thread(measured, engine.database)
    text = service.metrics.text(service.hub.open_runs, gauges)
    return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE})


async def _openapi(request: Request) -> Response:
    return JSONResponse(document(OPERATIONS, request.scope.get("root_path", "")))


async def _login(request: Request) -> Response:
    person = request.scope["state"]["person"]
    api_request: Any = ApiRequest(request.app.state.service, person, {}, None, None, request)
    return await (about.login if request.method == "POST" else about.signed_in)(api_request)


def _problem_response(request: Request, problem: HttpProblem) -> Response:
    language = language_of(request.headers.get("accept-language", ""))
    body, kind = problem.body(path_of(request.scope), language)
    return Response(body, problem.status, problem.headers, kind)


async def _problem(request: Request, error: Exception) -> Response:
    return _problem_response(request, as_problem(error))


async def _disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # the client has disconnected


async def _failure(request: Request, _: Exception) -> Response:
    return _problem_response(request, HttpProblem(500, UNEXPECTED))


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = notice("library.server_not_found") if error.status_code == 404 else str(error.detail)
    return _problem_response(request, HttpProblem(error.status_code, detail, error.headers))
