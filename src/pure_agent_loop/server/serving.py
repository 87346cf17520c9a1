"""The server process: sockets, TLS, signals and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.service import Service
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.support.language import notice

PING_SECONDS = 20.0
MAX_CONNECTIONS = 4_000
MAX_UNKNOWN = 512  # unauthenticated connections
HEAD_SECONDS = 15.0  # seconds allowed for a request's head to arrive
_SHUTDOWN_SECONDS = 3


class TimedConnection(H11Protocol):
    """A connection that enforces a deadline for request heads and a limit on unauthenticated connections.

    Above the limit, the oldest unauthenticated connection is closed. A flood of connections therefore cannot
    lock out clients that authenticate right away.

    Args:
        head_seconds: Seconds allowed for a request's head to arrive.
    """

    def __init__(self, head_seconds: float, max_unknown: int, **options: Any) -> None:
        super().__init__(**options)
        self._head_seconds, self._max_unknown = head_seconds, max_unknown
        self._since = self.loop.time()
        self._is_known = False
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_known(self) -> bool:
        """True if a request on this connection has been authenticated."""
        scope: Any = self.scope  # None before the first request
        if not self._is_known and scope is not None:
            self._is_known = "person" in scope.get("state", {})
        return self._is_known

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Start the head deadline; if too many connections are unauthenticated, close the oldest of them."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self._head_seconds, self._time_out)
        unknown = [
            peer for peer in self.connections if isinstance(peer, TimedConnection) and not peer.is_known
        ]
        unknown.sort(key=lambda peer: peer._since)
        for connection in unknown[: max(0, len(unknown) - self._max_unknown)]:
            connection.transport.abort()
            self.connections.discard(connection)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; the deadline applies only while a request's head is awaited."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        # A connection that became a WebSocket is not in `connections`.
        is_waiting = self in self.connections and (cycle is None or cycle.response_complete)
        if not is_waiting:
            self._clear_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._head_seconds, self._time_out)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clear the deadline."""
        self._clear_deadline()
        super().connection_lost(exc)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        cycle: Any = self.cycle
        if cycle is None:  # only before the first response: after it, a 408 would read as a second response
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
        self.transport.close()


def _max_unknown() -> int:
    """Return the limit on unauthenticated connections: a quarter of the file descriptors, at most 512."""
    if sys.platform == "win32":
        return MAX_UNKNOWN
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_UNKNOWN if limit == resource.RLIM_INFINITY else max(8, min(MAX_UNKNOWN, limit // 4))


class Serving(uvicorn.Server):
    """A uvicorn server that lets runs finish before it exits.

    Args:
        config: The uvicorn configuration.
        grace: Seconds that runs get to finish.
        ready: Called when the server accepts connections.
        stopping: Called when a signal requests the shutdown.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        grace: float,
        ready: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._grace, self._ready, self._stopping = grace, ready, stopping
        # Created here, because a signal may arrive before the main loop begins.
        self._stop_requested, self._hurry = asyncio.Event(), asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting connections."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def main_loop(self) -> None:
        """Serve until a signal, then let runs finish while event streams stay open."""
        ticking = asyncio.ensure_future(super().main_loop())
        stop_requested = asyncio.ensure_future(self._stop_requested.wait())
        try:
            await asyncio.wait({ticking, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
            if not self._stop_requested.is_set():
                return
            self._stopping()
            app: Any = self.config.app
            service: Service = app.state.service
            draining = asyncio.ensure_future(service.hub.drain(self._grace))
            hurry = asyncio.ensure_future(self._hurry.wait())
            await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
            if not draining.done():
                await service.hub.drain(0)
            await draining
            service.end_streams()
        finally:
            self.should_exit = True
            stop_requested.cancel()
            await ticking

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's parameters
        """At the first signal, let runs finish; at the second, interrupt them; at the third, exit at once."""
        # Setting an event is safe: Python runs signal handlers between two steps of the loop.
        if not self._stop_requested.is_set():
            self._stop_requested.set()
        elif not self._hurry.is_set():
            self._hurry.set()
        else:
            self.force_exit = True


def check_host(host: str, settings: Settings, *, has_tls: bool) -> None:
    """Reject a public address without TLS, unless `settings.hosts` is set, which implies a proxy with TLS.

    Raises:
        ConfigError: Other machines could connect without TLS.
    """
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host == "localhost" or has_tls or settings.hosts:
        return
    raise ConfigError(notice("library.server_unencrypted", host=host))


def uvicorn_config(
    app: Any,
    settings: Settings,
    host: str,
    port: int,
    cert: str = "",
    key: str = "",
    head_seconds: float = HEAD_SECONDS,
) -> uvicorn.Config:
    """Build the uvicorn configuration.

    Args:
        app: The ASGI application.
        settings: Limits.
        host: The address to listen on.
        port: The port; 0 for any free one.
        cert: The certificate chain file; empty for plain HTTP.
        key: The private key file.
        head_seconds: Seconds allowed for a request's head to arrive.
    """
    max_unknown = _max_unknown()
    protocol: Any = partial(TimedConnection, head_seconds, max_unknown)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        backlog=max_unknown,  # also how many connections asyncio accepts per iteration
        ws="websockets-sansio",
        ws_max_size=settings.max_frame,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        ssl_certfile=cert or None,
        ssl_keyfile=key or None,
    )


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket before the application starts, so that a port in use is reported at once.

    Args:
        host: The address.
        port: The port; 0 for any free one.

    Raises:
        ConfigError: The address or port is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only with an explicit IPPROTO_TCP; TCP_NODELAY saves 40 ms per response.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"--host {host} --port {port}: {error.strerror or error}.") from error
    return listener
