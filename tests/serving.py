"""Handlers of HTTP requests and applications, served for as long as a test needs them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_TAKEN: deque[socket.socket] = deque(maxlen=40)  # the oldest is closed: descriptors are few


def free_port() -> int:
    """A port that nothing listens on, for a server that sets SO_REUSEADDR.

    It stays taken until this process has asked for many more, so that the system gives it to no other program
    meanwhile.
    """
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    port = int(taken.getsockname()[1])
    _TAKEN.append(taken)
    return port


class JsonAnswers(BaseHTTPRequestHandler):
    """Answers requests with JSON, without a log."""

    def answer(self, body: bytes, status: int = 200) -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on this machine; gives the port.

    Args:
        context: A certificate; without one there is no TLS.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def serving_app(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on this machine, in this event loop; gives its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
