"""Run a server as a local program. Messages are lines of the program's standard input and output.

The SDK's own transport neither limits the length of a line nor reports the program's end. This transport
limits the input, logs and skips lines that are not messages, and always ends the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pure_agent_loop.mcp.lenient import repaired
from pure_agent_loop.mcp.settings import MAX_BYTES, ServerSettings
from pure_agent_loop.support.child import child_environment, kill_group, write_to
from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.terminal import one_line

CHUNK = 1 << 18
MAX_INVALID_LINES = 10_000  # maximum consecutive lines that are not messages
MAX_LOG = 1_000_000  # maximum bytes of the log, which each start overwrites
LEAVE_SECONDS = 1.5  # seconds for the program to exit, and again after SIGTERM
LAST_SECONDS = 0.5  # seconds for a program to exit after it has closed its output
_FOR_US = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_HEAD, _ID = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*', rb'\s*"id"\s*:\s*(\d{1,18})\s*'
_ANSWERS = (  # a response whose result follows or precedes the id
    re.compile(rb"\s*\{" + _HEAD + b"," + _ID + rb',\s*"(?:result|error)"'),
    re.compile(rb'\s*\{\s*"(?:result|error)".*,' + _HEAD + b"," + _ID + rb"\}\s*$", re.S),
)
_PARSE_ERROR = -32700  # JSON-RPC's code for a parse error
_OUTPUT_LINES, _OUTPUT_CHARS = 5, 400


class Log:
    """The log of a server's non-message output: a bounded file, and the last lines for error messages.

    Known secrets are redacted.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self._path, self._left = settings, server_log_path(settings.name), MAX_LOG
        self._file: Any = None
        self._last: deque[bytes] = deque(maxlen=_OUTPUT_LINES)

    @cached_property
    def _redactor(self) -> Redactor:
        variables, oauth = {**self._settings.env, **self._settings.headers}, self._settings.oauth
        return Redactor([oauth.client_secret] if oauth else (), {**os.environ, **variables})

    def cleaned(self, text: str) -> str:
        """Return a string with its secrets redacted."""
        return self._redactor.redact(text)

    def write(self, data: bytes) -> None:
        """Write a line or a part of a line."""
        if data.strip():
            self._last.append(data[: 4 * _OUTPUT_CHARS])
        if self._left <= 0:
            return
        data = self.cleaned(data[:MAX_LOG].decode("utf-8", "replace")).encode("utf-8", "replace")
        with contextlib.suppress(OSError):  # a failed log must not stop the server
            if self._file is None:
                private_folder(self._path.parent)
                self._file = os.fdopen(os.open(self._path, _FOR_US, 0o600), "wb", buffering=0)
            self._file.write(data[: self._left])
        self._left -= len(data)

    @property
    def last_output(self) -> str:
        """The last lines."""
        lines = (self.cleaned(line.decode("utf-8", "replace")) for line in self._last)
        return " / ".join(one_line(line, _OUTPUT_CHARS) for line in lines)

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()


def server_log_path(name: str) -> Path:
    """Return the path of a server's log."""
    return data_folder() / "mcp" / "logs" / f"{name}.log"


class TooLargeError(Exception):
    """An answer exceeds the size limit."""


@dataclass(slots=True)
class CloseReason:
    """The reason why a connection has ended.

    Args:
        why: The reason, for people and models; empty if unknown.
        last_output: Returns the program's last output.
        closed_by_client: True if the client closed the connection, so that the program's exit status is
            irrelevant.
        hint: Describes the last HTTP answer, if it was an error.
        is_session_gone: True if the server no longer has the session; a new one may be started at once.
    """

    why: str = ""
    closed_by_client: bool = False
    hint: str = ""
    is_session_gone: bool = False
    notify: Callable[[], None] = field(default=lambda: None)
    last_output: Callable[[], str] = field(default=lambda: "")

    def set(self, why: str) -> None:
        """Set the reason, unless one is set, and end the connection."""
        self.why = self.why or why
        self.notify()


@contextlib.asynccontextmanager
async def piped(settings: ServerSettings, log: Log, close_reason: CloseReason) -> AsyncIterator[Any]:
    """Start the program and yield the two streams for an SDK session.

    Raises:
        OSError: The program cannot be started.
    """
    import anyio

    own = {name: os.environ[name] for name in settings.inherit if name in os.environ}
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _Program(CHUNK, loop),
        *settings.command,
        env=child_environment(**{**own, **settings.env}),
        cwd=settings.cwd or None,
        start_new_session=sys.platform != "win32",
    )
    process = asyncio.subprocess.Process(transport, protocol, loop)
    try:
        to_session, read_stream = anyio.create_memory_object_stream[Any](0)
        write_stream, from_session = anyio.create_memory_object_stream[Any](0)
        reading = asyncio.create_task(_read(process, protocol.exited, to_session, log, close_reason))
        writing = asyncio.create_task(_write(process, from_session, to_session, reading))
        work = [reading, writing, asyncio.create_task(_listen(process, log))]
        try:
            yield read_stream, write_stream
        finally:
            close_reason.closed_by_client = True
            for stream in (read_stream, write_stream):
                stream.close()
            await _stop(process, protocol.exited)
    finally:
        kill_group(process)
        for task in work:
            task.cancel()
        await asyncio.wait(work)
        await set_within(LAST_SECONDS, protocol.exited)
        for stream in (to_session, from_session):
            stream.close()
        transport.close()  # surviving children may hold its pipes open


class _Program(asyncio.subprocess.SubprocessStreamProtocol):
    """A process protocol that reports the exit even while children hold the pipes open."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


async def _read(
    process: Any, exited: asyncio.Event, to_session: Any, log: Log, close_reason: CloseReason
) -> None:
    async with to_session:
        reading = asyncio.ensure_future(_messages(process, to_session, log))
        ended = asyncio.ensure_future(exited.wait())
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading} if ended.done() else {ended}, timeout=LAST_SECONDS)
            why = reading.result() if reading.done() else ""
            if not close_reason.closed_by_client:
                code = process.returncode
                close_reason.set(
                    why or (model_text("mcp_closed") if code is None else model_text("mcp_ended", code=code))
                )
        finally:
            reading.cancel()
            ended.cancel()


async def _messages(process: Any, to_session: Any, log: Log) -> str:
    """Forward messages until the end; return why reading stopped early, or an empty text."""
    buffer, invalid_lines = bytearray(), 0
    while chunk := await process.stdout.read(CHUNK):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = bytes(buffer) + chunk[start:end]
            start = end + 1
            buffer.clear()
            invalid_lines = 0 if await _forward(line, to_session, log) else invalid_lines + 1
            if invalid_lines > MAX_INVALID_LINES:
                return model_text("mcp_rubbish")
        buffer += chunk[start:]
        if len(buffer) > MAX_BYTES:
            return model_text("mcp_too_large", limit=MAX_BYTES)
        await asyncio.sleep(0)  # a flood must not starve other tasks
    return ""


async def _forward(line: bytes, to_session: Any, log: Log) -> bool:
    """Forward a line if it is a message. Return False for a line that is neither a message nor blank."""
    import anyio
    from mcp.shared.message import SessionMessage

    if not line.strip():
        return True
    message = _message(line)
    if message is None:
        log.write(line + b"\n")
        return False
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await to_session.send(SessionMessage(message))
    return True


def _message(line: bytes) -> Any:
    """Parse a line as a message; return None if it is not one.

    An unreadable answer becomes an error, so that the caller stops waiting.
    """
    from mcp_types import JSONRPCError, jsonrpc_message_adapter

    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    if not line.lstrip().startswith(b"{"):
        return None
    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(repaired(line), by_name=False)
    match = _ANSWERS[0].match(line) or _ANSWERS[1].match(line)
    error = {"code": _PARSE_ERROR, "message": model_text("mcp_no_json")}
    return match and JSONRPCError.model_validate({"jsonrpc": "2.0", "id": int(match[1]), "error": error})


async def _write(process: Any, from_session: Any, to_session: Any, reading: asyncio.Task[None]) -> None:
    async with from_session:
        try:
            async for item in from_session:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                write_to(process.stdin, data.encode() + b"\n")
                await process.stdin.drain()
        except OSError:  # the program no longer reads; wait briefly for the exit status
            await asyncio.wait({reading}, timeout=2 * LAST_SECONDS)
            to_session.close()


async def _listen(process: Any, log: Log) -> None:
    try:
        while chunk := await process.stderr.read(CHUNK):
            for line in chunk.splitlines(keepends=True)[-1000:]:
                log.write(line)
    finally:
        log.close()


async def _stop(process: Any, exited: asyncio.Event) -> None:
    process.stdin.close()
    if not await set_within(LEAVE_SECONDS, exited):
        kill_group(process, signal.SIGTERM)
        await set_within(LEAVE_SECONDS, exited)
