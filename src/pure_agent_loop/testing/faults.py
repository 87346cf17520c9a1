"""Everything that goes wrong with real servers, for `ScriptedServer`.

A fault is a script item of its own (it happens before anything of an answer is sent), or a part of
``deltas(...)`` (it happens there, after the pieces before it). Where no stream was asked for, a fault
in the middle comes after the first bytes of the body.

Write your own by subclassing `ServerFault`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.testing.errors import ScriptError
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.gate import Gate
from pure_agent_loop.testing.payloads import error_body, to_json
from pure_agent_loop.testing.script import Fault


class ServerFault(Fault):
    """What a fault has to be able to do."""

    __slots__ = ()

    @abstractmethod
    async def play(self, out: Exchange) -> bool:
        """Happen.

        Args:
            out: The answer it happens to.

        Returns:
            True if the answer goes on after it, False if this was its end.
        """


@dataclass(frozen=True, slots=True)
class Status(ServerFault):
    """A whole HTTP answer with any status and body; see also `status`, `rate_limited` and the others.

    Args:
        code: The status.
        body: Sent as it is.
        content_type: Its type.
        headers: Further headers.
    """

    code: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    async def play(self, out: Exchange) -> bool:
        """Answer, and that is all.

        Raises:
            ScriptError: It stands inside ``deltas(...)``: a status comes before everything else.
        """
        if out.mid_answer:
            raise ScriptError(f"Status {self.code} cannot come in the middle of an answer.")
        await out.respond(self.code, self.body, self.content_type, self.headers)
        return False


@dataclass(frozen=True, slots=True)
class Reset(ServerFault):
    """The connection is broken off with a TCP reset."""

    async def play(self, out: Exchange) -> bool:
        """Reset."""
        if out.mid_answer:
            await out.spill()
        await out.reset()
        return False


@dataclass(frozen=True, slots=True)
class EndEarly(ServerFault):
    """The answer ends here, cleanly for HTTP, but without a finish reason.

    Args:
        done: Send ``[DONE]`` all the same.
    """

    done: bool = False

    async def play(self, out: Exchange) -> bool:
        """End."""
        await out.finish(done=self.done)
        return False


@dataclass(frozen=True, slots=True)
class Silence(ServerFault):
    """Nothing comes, before the headers or in the middle, until the client leaves or the test opens `gate`.

    After that the connection is closed if nothing had been sent; otherwise the answer goes on.

    Args:
        gate: Tells when the silence is reached, and ends it when it is opened.
    """

    gate: Gate = field(default_factory=lambda: Gate("the silence"))

    async def play(self, out: Exchange) -> bool:
        """Wait."""
        if out.mid_answer:
            await out.spill()
        await out.hold(self.gate)
        if not out.mid_answer:
            await out.hang_up()
        return out.mid_answer


@dataclass(frozen=True, slots=True)
class ErrorChunk(ServerFault):
    """An error object with status 200, in the stream or as the body; nothing comes after it.

    Args:
        message: The message.
        code: The code; a number reads as an HTTP status.
        kind: The type.
    """

    message: str = "The server is overloaded."
    code: str | int | None = "overloaded"
    kind: str = "server_error"

    async def play(self, out: Exchange) -> bool:
        """Send it, and end."""
        body = to_json(error_body(self.message, self.kind, self.code))
        if out.streamed:
            await out.event(body)
            await out.end()
        else:
            await out.respond(200, body)
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
    """An HTTP error.

    Args:
        code: The status.
        message: Sent inside an error object.
        error_code: Its code.
        kind: Its type.
        headers: Further headers.
        text: Sent as plain text instead of an error object.
    """
    more = tuple((headers or {}).items())
    if text is not None:
        return Status(code, text.encode(), "text/plain; charset=utf-8", more)
    return Status(code, to_json(error_body(message or f"status {code}", kind, error_code)), headers=more)


def unauthorized() -> Status:
    """Status 401."""
    return status(
        401, "Incorrect API key provided.", error_code="invalid_api_key", kind="authentication_error"
    )


def fault_for(error: Exception, *, mid_answer: bool) -> ServerFault:
    """What a server does where a scripted model would raise `error`."""
    if isinstance(error, LLMError):
        return _fault_for_kind(error, mid_answer)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):  # two classes before Python 3.11
        return Silence()
    if isinstance(error, ConnectionError):
        return Reset()
    return ErrorChunk(str(error), 500) if mid_answer else status(500, str(error))


_STATUS = {
    "rate_limit": 429,
    "overloaded": 503,
    "quota": 429,
    "auth": 401,
    "not_found": 404,
    "context_overflow": 400,
    "bad_request": 400,
}


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
