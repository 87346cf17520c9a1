"""JSON-RPC 2.0 in lines: requests, answers and notifications, both ways, over one pair of streams.

Whatever comes in, what goes out is a valid message: rubbish is answered with an error and never ends the
connection.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.text import safe_str, to_jsonable

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
AUTH_REQUIRED, NOT_FOUND, CANCELLED = -32000, -32002, -32800
MAX_LINE = 64_000_000  # bytes; an image in base64 is the longest thing that is sent
END_SECONDS = 3.0  # for what is under way to end once the other side is gone
MOST_WAITING = 256  # messages that were not written yet; then what makes more of them waits


class RpcError(PureAgentLoopError):
    """An answer that is an error.

    Args:
        code: One of the numbers above.
        message: A sentence for people.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and what is to be done once it was sent."""

    result: Mapping[str, Any]
    after: Callable[[], Awaitable[None]] | None = None


Method = Callable[[Mapping[str, Any]], Awaitable[Reply]]
Notified = Callable[[Mapping[str, Any]], None]


class Peer:
    """One end of a connection.

    Args:
        source: Where lines come from; it is read by a thread of its own.
        sink: Where they go, written by another.
        methods: What the other end may ask for.
        notified: What it may tell.
    """

    def __init__(
        self,
        source: BinaryIO,
        sink: BinaryIO,
        methods: Mapping[str, Method],
        notified: Mapping[str, Notified],
    ) -> None:
        self._source, self._sink = source, sink
        self._methods = methods
        self._notified = {**notified, "$/cancel_request": self._cancel}
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[str | int | None, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._ended = self._loop.create_future()

    async def run(self) -> None:
        """Serve until the other end is gone; what is under way is cancelled then."""
        for work in (self._read, self._write):
            threading.Thread(target=work, name="pal-acp", daemon=True).start()
        try:
            await self._ended
        finally:
            for future in self._asked.values():
                future.cancel()
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=END_SECONDS)  # what does not stop is left behind
            self._lines.put(None)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the other end for something.

        Raises:
            RpcError: It answered with an error.
        """
        self._number += 1
        number = self._number
        self._asked[number] = answered = self._loop.create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            found = await answered
        finally:
            del self._asked[number]
        return found if isinstance(found, Mapping) else {}

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the other end something."""
        await self._send({"method": method, "params": params})

    # -- lines ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """The thread that reads. It knows nothing; a line that is too long is passed over."""
        with suppress(OSError, ValueError, RuntimeError):  # the stream, or the loop, is closed
            while line := self._source.readline(MAX_LINE):
                if len(line) == MAX_LINE and not line.endswith(b"\n"):
                    while (rest := self._source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                    line = b"too long"
                if line.strip():
                    self._loop.call_soon_threadsafe(self._take, line)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._sink.write(line)
                self._sink.flush()
                self._loop.call_soon_threadsafe(self._written)
        except (OSError, ValueError, RuntimeError):
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _written(self) -> None:
        self._waiting -= 1
        self._room.set()

    async def _send(self, message: Mapping[str, Any]) -> None:
        while self._waiting >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._put(message)

    def _put(self, message: Mapping[str, Any]) -> None:
        self._waiting += 1
        plain = to_jsonable({"jsonrpc": "2.0", **message})
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        self._lines.put(text.encode("utf-8", "replace") + b"\n")  # half a surrogate pair is no text

    # -- messages ---------------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return self._refuse(None, PARSE_ERROR, "This line is no JSON.")
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return self._refuse(None, INVALID_REQUEST, 'A message is one object with "jsonrpc": "2.0".')
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        if isinstance(number, bool) or not isinstance(number, (str, int, type(None))):
            return self._refuse(None, INVALID_REQUEST, "id must be a text or a whole number.")
        if method is None and ("result" in message or "error" in message):
            return self._answered(number, message)
        if not isinstance(method, str):
            return self._refuse(number, INVALID_REQUEST, "method must be a text.")
        is_request = "id" in message
        if not isinstance(params, (dict, type(None))):
            return self._refuse(number, INVALID_PARAMS, "params must be an object.") if is_request else None
        if not is_request:  # a request that came just before begins first, else a cancel would miss it
            self._loop.call_soon(self._told, method, params or {})
        elif number in self._serving:
            self._refuse(number, INVALID_REQUEST, f"The request {number!r} has no answer yet.")
        elif method not in self._methods:
            self._refuse(number, NO_METHOD, f"There is no method {method[:100]!r} here.")
        else:
            self._serving[number] = task = asyncio.ensure_future(
                self._serve(number, self._methods[method], params or {})
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        with suppress(RpcError):
            self._notified.get(method, _nothing)(params)

    async def _serve(self, number: str | int | None, method: Method, params: Mapping[str, Any]) -> None:
        reply: Reply | None = None
        try:
            reply = await method(params)
            await self._send({"id": number, "result": reply.result})
        except asyncio.CancelledError:
            self._refuse(number, CANCELLED, "The request was cancelled.")
        except RpcError as error:
            self._refuse(number, error.code, safe_str(error))
        except PureAgentLoopError as error:
            self._refuse(number, INTERNAL, safe_str(error))
        except Exception as error:  # noqa: BLE001 - the border to the editor: it is told, and goes on
            self._refuse(number, INTERNAL, f"{type(error).__name__}: {safe_str(error)}")
        finally:
            del self._serving[number]
        if reply is not None and reply.after is not None:
            with suppress(Exception):  # it was answered, so there is nobody to tell
                await reply.after()

    def _refuse(self, number: str | int | None, code: int, why: str) -> None:
        self._put({"id": number, "error": {"code": code, "message": why}})

    def _answered(self, number: Any, message: Mapping[str, Any]) -> None:
        future = self._asked.get(number)
        if future is None or future.done():  # nobody asked, or nobody waits any more
            return
        error = message.get("error")
        if error is not None:
            about = error if isinstance(error, dict) else {"message": error}
            code = about.get("code")
            words = str(about.get("message") or "the editor says no more")
            future.set_exception(RpcError(code if isinstance(code, int) else INTERNAL, words))
        else:
            future.set_result(message.get("result"))

    def _cancel(self, params: Mapping[str, Any]) -> None:
        number = params.get("requestId")
        task = self._serving.get(number) if isinstance(number, (str, int)) else None
        if task is not None:
            task.cancel()


def _nothing(_: Mapping[str, Any]) -> None:
    """For what is told and known to nobody here."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
