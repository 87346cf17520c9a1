# Copied by scripts/share_testing.py from src/pure_agent_loop/testing/faults.py.
"""Faults of real servers, for `ScriptedServer`.

A fault that is a script item happens before any byte of an answer is sent. A fault inside ``deltas(...)``
happens after the parts that precede it or, if the request asks for no stream, after the first bytes of the
body.

To write a custom fault, subclass `ServerFault`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance.scripted.completions import error_body, to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.gate import Gate, ScriptError
from llm_client_conformance.scripted.script import Fault
from llm_client_conformance.values import LLMError

_STATUS = {
    "rate_limit": 429,
    "overloaded": 503,
    "quota": 429,
    "auth": 401,
    "not_found": 404,
    "context_overflow": 400,
    "bad_request": 400,
}


class ServerFault(Fault):
    """Interface of a fault."""

    __slots__ = ()

    @abstractmethod
    async def play(self, out: Exchange) -> bool:
        """Apply the fault.

        Args:
            out: The answer to which the fault is applied.

        Returns:
            True if the answer continues, False if the fault ended it.
        """


@dataclass(frozen=True, slots=True)
class Status(ServerFault):
    """A complete HTTP response with any status and body; see also `status`.

    Args:
        code: The status.
        body: Body of the response, sent unchanged.
        content_type: Content type of the body.
        headers: Further headers.
    """

    code: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    async def play(self, out: Exchange) -> bool:
        """Send the answer.

        Raises:
            ScriptError: The fault is inside ``deltas(...)``: a status must precede the body.
        """
        if out.mid_answer:
            raise ScriptError(f"Status {self.code} cannot come in the middle of an answer.")
        await out.respond(self.code, self.body, self.content_type, self.headers)
        return False


@dataclass(frozen=True, slots=True)
class Reset(ServerFault):
    """TCP reset of the connection."""

    async def play(self, out: Exchange) -> bool:
        """Reset the connection."""
        if out.mid_answer:
            await out.spill()
        await out.reset()
        return False


@dataclass(frozen=True, slots=True)
class EndEarly(ServerFault):
    """Early end of the answer: valid HTTP, but no finish reason.

    Args:
        done: True to send ``[DONE]`` nevertheless.
    """

    done: bool = False

    async def play(self, out: Exchange) -> bool:
        """End the answer."""
        await out.finish(done=self.done)
        return False


@dataclass(frozen=True, slots=True)
class Silence(ServerFault):
    """Silence before the headers or in the body, until the client disconnects or the test opens `gate`.

    After the gate opens, the answer continues; if no data was sent yet, the connection is closed instead.

    Args:
        gate: Gate that signals the start of the silence, and ends the silence when opened.
    """

    gate: Gate = field(default_factory=lambda: Gate("the silence"))

    async def play(self, out: Exchange) -> bool:
        """Wait for the gate."""
        if out.mid_answer:
            await out.spill()
        await out.hold(self.gate)
        if not out.mid_answer:
            await out.hang_up()
        return out.mid_answer


@dataclass(frozen=True, slots=True)
class ErrorChunk(ServerFault):
    """Error object with status 200, in the stream or as the body; ends the answer.

    Args:
        message: The message.
        code: The code; clients read a number as an HTTP status.
        kind: The type.
    """

    message: str = "The server is overloaded."
    code: str | int | None = "overloaded"
    kind: str = "server_error"

    async def play(self, out: Exchange) -> bool:
        """Send the error and end the answer."""
        body = to_json(error_body(self.message, self.kind, self.code))
        if out.streamed:
            await out.event(out.writing.stream_error(body))
            await out.end()
        else:
            await out.respond(200, out.writing.error(body))
        return False


def status(
    code: int,
    message: str = "",
    *,
    error_code: str | int | None = None,
    kind: str = "server_error",
    headers: Mapping[str, str] | None = None,
    text: str | None = None,
) -> Status:
    """Return an HTTP error.

    Args:
        code: The status.
        message: Message of the error object.
        error_code: Code of the error object.
        kind: Type of the error object.
        headers: Further headers.
        text: Plain text to send instead of an error object.
    """
    extra_headers = tuple((headers or {}).items())
    if text is not None:
        return Status(code, text.encode(), "text/plain; charset=utf-8", extra_headers)
    return Status(
        code, to_json(error_body(message or f"status {code}", kind, error_code)), headers=extra_headers
    )


def unauthorized() -> Status:
    """Return status 401."""
    return status(
        401, "Incorrect API key provided.", error_code="invalid_api_key", kind="authentication_error"
    )


def fault_for(error: Exception, *, mid_answer: bool) -> ServerFault:
    """Return the server fault that corresponds to `error`."""
    if isinstance(error, LLMError):
        return _fault_for_kind(error, mid_answer)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):  # two different classes before Python 3.11
        return Silence()
    if isinstance(error, ConnectionError):
        return Reset()
    return ErrorChunk(str(error), 500) if mid_answer else status(500, str(error))


def _fault_for_kind(error: LLMError, mid_answer: bool) -> ServerFault:
    same: dict[str, ServerFault] = {"connection": Reset(), "timeout": Silence(), "incomplete": EndEarly()}
    if error.kind in same:
        return same[error.kind]
    code = error.status or _STATUS.get(error.kind, 500)
    word: Any = "insufficient_quota" if error.kind == "quota" else None
    if mid_answer:
        return ErrorChunk(error.message, word or code)
    wait = {} if error.retry_after is None else {"Retry-After": f"{error.retry_after:g}"}
    return status(code, error.message, error_code=word, headers=wait)
