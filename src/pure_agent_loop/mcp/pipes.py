"""A server that is a program of this machine: its messages are lines of its standard input and output.

The SDK's own transport puts no bound on a line and hands on no end of the program, so these are ours: what
comes in is bounded, what is no message is logged and skipped, and whatever happens the program ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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

from pure_agent_loop.mcp.settings import MOST_BYTES, ServerSettings
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.child import child_environment, write_to
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.terminal import one_line

CHUNK = 1 << 18
MOST_RUBBISH = 10_000  # lines that are no messages, since the last one that was
MOST_LOG = 1_000_000  # bytes of a log, which begins anew with each start
LEAVE_SECONDS = 1.5  # for the program to end by itself, and again after SIGTERM
LAST_SECONDS = 0.5  # for a program that closed its output to end
_FOR_US = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_HEAD, _ID = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*', rb'\s*"id"\s*:\s*(\d{1,18})\s*'
_ANSWERS = (  # the answer stands behind the number, or before it
    re.compile(rb"\s*\{" + _HEAD + b"," + _ID + rb',\s*"(?:result|error)"'),
    re.compile(rb'\s*\{\s*"(?:result|error)".*,' + _HEAD + b"," + _ID + rb"\}\s*$", re.S),
)
_NO_JSON = -32700  # the code of JSON-RPC for it
_SAID_LINES, _SAID_CHARS = 5, 400


class Log:
    """What a server says besides its answers: a file of bounded length, and the last lines for a message.

    Secrets that we know are taken out.

    Args:
        settings: Which server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self._path, self._left = settings, log_file(settings.name), MOST_LOG
        self._file: Any = None
        self._last: deque[bytes] = deque(maxlen=_SAID_LINES)

    @cached_property
    def _redactor(self) -> Redactor:
        mine, oauth = {**self._settings.env, **self._settings.headers}, self._settings.oauth
        return Redactor([oauth.client_secret] if oauth else (), {**os.environ, **mine})

    def cleaned(self, text: str) -> str:
        """A text without secrets."""
        return self._redactor.redact(text)

    def write(self, data: bytes) -> None:
        """Keep a line, or a part of one."""
        if data.strip():
            self._last.append(data[: 4 * _SAID_CHARS])
        if self._left <= 0:
            return
        data = self.cleaned(data[:MOST_LOG].decode("utf-8", "replace")).encode("utf-8", "replace")
        with contextlib.suppress(OSError):  # a log that cannot be written holds nothing up
            if self._file is None:
                private_folder(self._path.parent)
                self._file = os.fdopen(os.open(self._path, _FOR_US, 0o600), "wb", buffering=0)
            self._file.write(data[: self._left])
        self._left -= len(data)

    @property
    def said(self) -> str:
        """The last lines."""
        lines = (self.cleaned(each.decode("utf-8", "replace")) for each in self._last)
        return " / ".join(one_line(each, _SAID_CHARS) for each in lines)

    def close(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            self._file.close()


def log_file(name: str) -> Path:
    """Where a server's log is."""
    return data_folder() / "mcp" / "logs" / f"{name}.log"


class TooLargeError(Exception):
    """An answer is longer than may be."""


@dataclass(slots=True)
class Ending:
    """Why a connection is over.

    Args:
        why: For people and models; empty while nothing is known.
        tell: Called when it is over.
        said: The last words of the program.
        is_ours: We close it, so how the program ends says nothing.
        hint: What the last answer over the network was, if it was no good one.
    """

    why: str = ""
    is_ours: bool = False
    hint: str = ""
    tell: Callable[[], None] = field(default=lambda: None)
    said: Callable[[], str] = field(default=lambda: "")

    def because(self, why: str) -> None:
        """It is over; the first reason counts."""
        self.why = self.why or why
        self.tell()


@contextlib.asynccontextmanager
async def piped(settings: ServerSettings, log: Log, ending: Ending) -> AsyncIterator[Any]:
    """Start the program, and give the two streams that a session of the SDK works with.

    Args:
        log: Takes what it says besides.
        ending: Told when it ends, and why.

    Raises:
        OSError: It cannot be started.
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
        reading = asyncio.create_task(_read(process, protocol.exited, to_session, log, ending))
        writing = asyncio.create_task(_write(process, from_session, to_session, reading))
        work = [reading, writing, asyncio.create_task(_listen(process, log))]
        try:
            yield read_stream, write_stream
        finally:
            ending.is_ours = True
            for stream in (read_stream, write_stream):
                stream.close()
            await _stop(process, protocol.exited)
    finally:
        kill_group(process)
        for task in work:
            task.cancel()
        await asyncio.wait(work)
        await _within(LAST_SECONDS, protocol.exited)
        for stream in (to_session, from_session):
            stream.close()
        transport.close()  # what outlived it may hold its pipes open


class _Program(asyncio.subprocess.SubprocessStreamProtocol):
    """A program that says when it has ended, also where what it started holds its pipes open."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


async def _read(process: Any, exited: asyncio.Event, to_session: Any, log: Log, ending: Ending) -> None:
    async with to_session:
        reading = asyncio.ensure_future(_messages(process, to_session, log))
        ended = asyncio.ensure_future(exited.wait())
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading} if ended.done() else {ended}, timeout=LAST_SECONDS)
            why = reading.result() if reading.done() else ""
            if not ending.is_ours:
                code = process.returncode
                ending.because(why or (say("mcp_closed") if code is None else say("mcp_ended", code=code)))
        finally:
            reading.cancel()
            ended.cancel()


async def _messages(process: Any, to_session: Any, log: Log) -> str:
    """Hand on what comes until its end; why it is not read on, if it is not at its end."""
    buffer, rubbish = bytearray(), 0
    while chunk := await process.stdout.read(CHUNK):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = bytes(buffer) + chunk[start:end]
            start = end + 1
            buffer.clear()
            rubbish = 0 if await _take(line, to_session, log) else rubbish + 1
            if rubbish > MOST_RUBBISH:
                return say("mcp_rubbish")
        buffer += chunk[start:]
        if len(buffer) > MOST_BYTES:
            return say("mcp_too_large", limit=MOST_BYTES)
        await asyncio.sleep(0)  # a flood must not keep everybody else waiting
    return ""


async def _take(line: bytes, to_session: Any, log: Log) -> bool:
    """Hand a line on, if it is a message."""
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
    """A line as a message; None if it is none.

    Half of a letter that takes two (servers in JavaScript cut texts so) and the like are mended. An answer
    that cannot be read at all becomes an error: who waits for it need not wait on.
    """
    from mcp_types import JSONRPCError, jsonrpc_message_adapter

    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    if not line.lstrip().startswith(b"{"):
        return None
    with contextlib.suppress(ValueError, RecursionError):
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
        return jsonrpc_message_adapter.validate_python(json.loads(whole), by_name=False)
    found = _ANSWERS[0].match(line) or _ANSWERS[1].match(line)
    error = {"code": _NO_JSON, "message": say("mcp_no_json")}
    return found and JSONRPCError.model_validate({"jsonrpc": "2.0", "id": int(found[1]), "error": error})


async def _write(process: Any, from_session: Any, to_session: Any, reading: asyncio.Task[None]) -> None:
    async with from_session:
        try:
            async for each in from_session:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                write_to(process.stdin, data.encode() + b"\n")
                await process.stdin.drain()
        except OSError:  # it reads no more; if that is its end, how it ended is told first
            await asyncio.wait({reading}, timeout=2 * LAST_SECONDS)
            to_session.close()


async def _listen(process: Any, log: Log) -> None:
    try:
        while chunk := await process.stderr.read(CHUNK):
            for line in chunk.splitlines(keepends=True)[-1000:]:
                log.write(line)
    finally:
        log.close()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Whether something happens in time."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _stop(process: Any, exited: asyncio.Event) -> None:
    process.stdin.close()
    if not await _within(LEAVE_SECONDS, exited):
        kill_group(process, signal.SIGTERM)
        await _within(LEAVE_SECONDS, exited)


def kill_group(process: Any, sign: int | None = None) -> None:
    """End a program and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, sign or signal.SIGKILL)
