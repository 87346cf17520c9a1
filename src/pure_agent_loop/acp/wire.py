"""JSON-RPC 2.0 over lines: requests, responses and notifications in both directions.

Invalid input gets an error response and never closes the connection.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.parsing import JsonDecoder, reject_constant
from pure_agent_loop.support.text import safe_str, to_jsonable

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
AUTH_REQUIRED, NOT_FOUND, CANCELLED = -32000, -32002, -32800
MAX_LINE = 64_000_000  # maximum bytes; enough for base64 images
END_SECONDS = 3.0  # seconds for running requests to end after a disconnect
MAX_QUEUED = 256  # maximum messages waiting to be written; beyond that, senders wait


class RpcError(PureAgentLoopError):
    """An error response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, and a function to call after the response has been sent."""

    result: Mapping[str, Any]
    after: Callable[[], Awaitable[None]] | None = None


Method = Callable[[Mapping[str, Any]], Awaitable[Reply]]
NotificationHandler = Callable[[Mapping[str, Any]], None]


class Peer:
    """One end of a connection.

    Args:
        source: The input, read by a thread.
        sink: The output, written by another thread.
    """

    def __init__(
        self,
        source: BinaryIO,
        sink: BinaryIO,
        methods: Mapping[str, Method],
        notifications: Mapping[str, NotificationHandler],
    ) -> None:
        self._source, self._sink = source, sink
        self._methods = methods
        self._notifications = {**notifications, "$/cancel_request": self._cancel}
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0
        self._has_room = asyncio.Event()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[str | int | None, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._closed = self._loop.create_future()

    async def run(self) -> None:
        """Serve until the other end disconnects, then cancel running requests."""
        for target in (self._read, self._write):
            threading.Thread(target=target, name="pal-acp", daemon=True).start()
        try:
            await self._closed
        finally:
            for future in self._pending.values():
                future.cancel()
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=END_SECONDS)  # abandon requests that do not stop
            self._lines.put(None)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and return its result.

        Raises:
            RpcError: The response was an error.
        """
        self._number += 1
        number = self._number
        self._pending[number] = response = self._loop.create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            result = await response
        finally:
            del self._pending[number]
        return result if isinstance(result, Mapping) else {}

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        await self._send({"method": method, "params": params})

    # -- lines ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read lines in a thread. The rest of an oversized line is skipped."""
        with suppress(OSError, ValueError, RuntimeError):  # the stream or the event loop has been closed
            while line := self._source.readline(MAX_LINE):
                if len(line) == MAX_LINE and not line.endswith(b"\n"):
                    while (rest := self._source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                    line = b"too long"
                if line.strip():
                    self._loop.call_soon_threadsafe(self._handle, line)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._sink.write(line)
                self._sink.flush()
                self._loop.call_soon_threadsafe(self._on_written)
        except (OSError, ValueError, RuntimeError):
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _on_written(self) -> None:
        self._queued -= 1
        self._has_room.set()

    async def _send(self, message: Mapping[str, Any]) -> None:
        while self._queued >= MAX_QUEUED:
            self._has_room.clear()
            await self._has_room.wait()
        self._put(message)

    def _put(self, message: Mapping[str, Any]) -> None:
        self._queued += 1
        plain = to_jsonable({"jsonrpc": "2.0", **message})
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        self._lines.put(text.encode("utf-8", "replace") + b"\n")  # lone surrogates cannot be encoded

    # -- messages ---------------------------------------------------------------------------------------

    def _handle(self, line: bytes) -> None:
        try:
            message = json.loads(line, cls=JsonDecoder, parse_constant=reject_constant)
        except ValueError:
            return self._send_error(None, PARSE_ERROR, "Invalid JSON.")
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return self._send_error(
                None, INVALID_REQUEST, 'A message must be an object with "jsonrpc": "2.0".'
            )
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        if isinstance(number, bool) or not isinstance(number, (str, int, type(None))):
            return self._send_error(None, INVALID_REQUEST, "id must be a string or an integer.")
        if method is None and ("result" in message or "error" in message):
            return self._resolve(number, message)
        if not isinstance(method, str):
            return self._send_error(number, INVALID_REQUEST, "method must be a string.")
        is_request = "id" in message
        if not isinstance(params, (dict, type(None))):
            return (
                self._send_error(number, INVALID_PARAMS, "params must be an object.") if is_request else None
            )
        if not is_request:  # delayed: the request that it cancels may not have started yet
            self._loop.call_soon(self._dispatch_notification, method, params or {})
        elif number in self._serving:
            self._send_error(number, INVALID_REQUEST, f"The id {number!r} is still in use.")
        elif method not in self._methods:
            self._send_error(number, NO_METHOD, f"Unknown method {method[:100]!r}.")
        else:
            self._serving[number] = task = asyncio.ensure_future(
                self._serve(number, self._methods[method], params or {})
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    def _dispatch_notification(self, method: str, params: Mapping[str, Any]) -> None:
        with suppress(RpcError):
            self._notifications.get(method, _ignore)(params)

    async def _serve(self, number: str | int | None, method: Method, params: Mapping[str, Any]) -> None:
        reply: Reply | None = None
        try:
            reply = await method(params)
            await self._send({"id": number, "result": reply.result})
        except asyncio.CancelledError:
            self._send_error(number, CANCELLED, "The request was cancelled.")
        except RpcError as error:
            self._send_error(number, error.code, safe_str(error))
        except PureAgentLoopError as error:
            self._send_error(number, INTERNAL, safe_str(error))
        except Exception as error:  # noqa: BLE001 - reported to the editor; the connection stays open
            self._send_error(number, INTERNAL, f"{type(error).__name__}: {safe_str(error)}")
        finally:
            del self._serving[number]
        if reply is not None and reply.after is not None:
            with suppress(Exception):  # the response has been sent, so an error cannot be reported
                await reply.after()

    def _send_error(self, number: str | int | None, code: int, message: str) -> None:
        self._put({"id": number, "error": {"code": code, "message": message}})

    def _resolve(self, number: Any, message: Mapping[str, Any]) -> None:
        future = self._pending.get(number)
        if future is None or future.done():  # the request is unknown or was cancelled
            return
        error = message.get("error")
        if error is not None:
            fields = error if isinstance(error, dict) else {"message": error}
            code = fields.get("code")
            text = str(fields.get("message") or "the editor gave no reason")
            future.set_exception(RpcError(code if isinstance(code, int) else INTERNAL, text))
        else:
            future.set_result(message.get("result"))

    def _cancel(self, params: Mapping[str, Any]) -> None:
        number = params.get("requestId")
        task = self._serving.get(number) if isinstance(number, (str, int)) else None
        if task is not None:
            task.cancel()


def _ignore(_: Mapping[str, Any]) -> None:
    """Ignore an unknown notification."""


# -- validation of parameters. Errors name the field -----------------------------------------------------


def invalid(message: str) -> RpcError:
    """Create an invalid-parameters error."""
    return RpcError(INVALID_PARAMS, message)


def text(params: Mapping[str, Any], name: str) -> str:
    """Return a required string.

    Raises:
        RpcError: The field is missing or not a string.
    """
    value = params.get(name)
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string, not {value!r:.80}.")
    return value


def items(params: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return a list of objects; empty if the field is missing.

    Raises:
        RpcError: The field is not a list of objects.
    """
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise invalid(f"{name} must be a list of objects, not {value!r:.80}.")
    return value


def nested(params: Mapping[str, Any], *names: str) -> Any:
    """Return a value from nested objects; None if missing."""
    value: Any = params
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def folder(params: Mapping[str, Any], name: str) -> Path:
    """Return the resolved path of an existing folder.

    Raises:
        RpcError: The field is not the absolute path of a folder.
    """
    value = text(params, name)
    path = Path(value)
    try:
        if not path.is_absolute() or not path.is_dir():
            raise invalid(f"{name} must be the absolute path of an existing folder, not {value!r:.200}.")
        return path.resolve()
    except (OSError, ValueError) as error:  # the path is too long or contains a NUL
        raise invalid(f"{name}={value!r:.200} is not a folder: {error}") from None
