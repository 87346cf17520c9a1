"""The process of a server: sockets, TLS, signals, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.service import Service
from pure_agent_loop.server.settings import Settings

PING_SECONDS = 20.0
MOST_CONNECTIONS = 4_000
_LEAVING_SECONDS = 3


class Serving(uvicorn.Server):
    """A server that lets runs end before it leaves.

    Args:
        config: How it serves.
        grace: Seconds that runs get to end.
        ready: Called when it answers.
        stopping: Called when it was asked to stop.
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
        self._asked: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def main_loop(self) -> None:
        """Serve until a signal; then let runs end, while their viewers look on."""
        self._asked, self._hurry = asyncio.Event(), asyncio.Event()
        ticking = asyncio.ensure_future(super().main_loop())
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({ticking, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not self._asked.is_set():
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
            service.closing.set()
            service.hub.wake_viewers()
        finally:
            self.should_exit = True
            asked.cancel()
            await ticking

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets runs end; the next one leaves them for the next start."""
        if self._asked is None or self._hurry is None:
            super().handle_exit(sig, frame)
        elif not self._asked.is_set():
            self._wake(self._asked)
        elif not self._hurry.is_set():
            self._wake(self._hurry)
        else:
            self.force_exit = True

    def _wake(self, event: asyncio.Event) -> None:
        event.set()  # a signal handler of Python runs in the main thread, between two steps of the loop


def check_place(host: str, settings: Settings, *, has_tls: bool) -> None:
    """Refuse to listen to other machines by mistake.

    Args:
        host: Where to listen.
        settings: Which names it is called by.
        has_tls: It speaks TLS itself.

    Raises:
        ConfigError: It would answer to others without TLS, and nobody said that a proxy is in between.
    """
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host == "localhost" or has_tls or settings.hosts:
        return
    raise ConfigError(
        f"--host {host} lets other machines in, and what they send could be read on the way. Give TLS files "
        "(--tls-cert, --tls-key), or the name that a proxy with TLS has (--allow-host NAME)."
    )


def config_for(
    app: Any, settings: Settings, host: str, port: int, cert: str = "", key: str = ""
) -> uvicorn.Config:
    """How to serve an application.

    Args:
        app: It.
        settings: Limits.
        host: Where to listen.
        port: On which port; 0 for any that is free.
        cert: The file of the certificate chain; empty for none.
        key: The file of its key.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=settings.max_frame,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_LEAVING_SECONDS,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        ssl_certfile=cert or None,
        ssl_keyfile=key or None,
    )


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port that is taken is said before anything begins.

    Args:
        host: Where.
        port: On which port; 0 for any that is free.

    Raises:
        ConfigError: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio turns Nagle's delay off only for sockets that say so; it is 40 ms for each answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"--host {host} --port {port}: {error.strerror or error}.") from error
    return listener
