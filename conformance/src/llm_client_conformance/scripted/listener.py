# Copied by scripts/share_testing.py from src/pure_agent_loop/testing/listener.py.
"""Thread with an event loop that accepts connections on a loopback port and ends reliably."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from llm_client_conformance.scripted.gate import PATIENCE, ScriptError


class Listener:
    """Thread with an event loop that listens on a loopback port.

    Args:
        serve: Serves one connection, on the thread's event loop.
    """

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> None:
        self._serve = serve
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._accepting: set[asyncio.Task[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port: int | None = None

    def start(self, port: int = 0) -> None:
        """Listen; `port` is known when this returns.

        Args:
            port: Port; 0 for a free one.

        Raises:
            ScriptError: The listener has already been started.
            OSError: The port is in use.
        """
        if self._thread is not None:
            raise ScriptError("The server was already started. Create a new one.")
        self._thread = threading.Thread(target=self._run, args=(port,), name="scripted-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close every connection and end the thread.

        Raises:
            ScriptError: The thread did not end.
        """
        if self._thread is None or self._loop is None or self._stop is None or self.port is None:
            return
        self.port = None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise ScriptError("The server does not stop: a handler or a callable of the script blocks it.")
        if self._failure is not None:
            raise self._failure

    def _run(self, port: int) -> None:
        try:
            asyncio.run(self._main(port))
        except BaseException as error:  # noqa: BLE001 - handed over to the thread that starts the server
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self, port: int) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        # asyncio's own server loses a connection that it accepts while it is being closed.
        with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
            listener.setblocking(False)
            self._loop.add_reader(listener, self._accept, listener, self._loop)
            self.port = listener.getsockname()[1]
            self._ready.set()
            await self._stop.wait()
            self._loop.remove_reader(listener)
        while self._accepting or self._tasks:
            if self._accepting:
                await asyncio.wait(self._accepting)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # let the close callbacks of the sockets run

    def _accept(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the client has already disconnected
            return
        connection.setblocking(False)
        # Disable Nagle's algorithm, to send small chunks at once.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = asyncio.StreamReader(limit=1 << 20, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, self._begin, loop=loop)
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, connection))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # This is a plain callback, so that each connection is registered before anything can fail and `close`
        # finds it. With a high-water mark of 0, the operating system has all bytes after a drain, so the
        # abort below loses none.
        writer.transport.set_write_buffer_limits(high=0)
        task: asyncio.Task[None] = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, writer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        writer.transport.abort()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "scripted server", "exception": error}
            )
