"""Faults of real servers, for `ScriptedServer`.

A fault is either a script item (it happens before any byte of an answer is sent), or a part of
``deltas(...)`` (it happens there, after the pieces before it). If the request asks for no stream, a fault in
the middle happens after the first bytes of the body.

Write your own by subclassing `ServerFault`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import BaseLLMClient, ChatModel, stream_of
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.testing.exchange import Exchange, error_body, to_json
from pure_agent_loop.testing.gate import Gate, ScriptError
from pure_agent_loop.testing.script import Fault

_STATUS = {
    "rate_limit": 429,
    "overloaded": 503,
    "quota": 429,
    "auth": 401,
    "not_found": 404,
    "context_overflow": 400,
    "bad_request": 400,
}
_MID_STREAM = ("reset", "cut")
_ERRORS: dict[str, Callable[[], Exception]] = {
    "connection": lambda: ConnectionRefusedError("chaos: the connection was refused"),
    "overloaded": lambda: LLMError("chaos: overloaded", kind="overloaded", status=503),
    "rate_limit": lambda: LLMError(
        "chaos: too many requests", kind="rate_limit", status=429, retry_after=0.0
    ),
    "timeout": lambda: LLMError("chaos: no response", kind="timeout"),
    "incomplete": lambda: LLMError("chaos: unreadable", kind="incomplete"),
}


class ServerFault(Fault):
    """Interface of a fault."""

    __slots__ = ()

    @abstractmethod
    async def play(self, out: Exchange) -> bool:
        """Apply the fault.

        Args:
            out: The answer with the fault.

        Returns:
            True if the answer continues, False if the fault ended it.
        """


@dataclass(frozen=True, slots=True)
class Status(ServerFault):
    """A whole HTTP answer with any status and body; see also `status`.

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
        done: Send ``[DONE]`` all the same.
    """

    done: bool = False

    async def play(self, out: Exchange) -> bool:
        """End the answer."""
        await out.finish(done=self.done)
        return False


@dataclass(frozen=True, slots=True)
class Silence(ServerFault):
    """Silence before the headers or in the body, until the client disconnects or the test opens `gate`.

    Then the connection is closed if nothing was sent; otherwise the answer continues.

    Args:
        gate: Signals when the silence begins, and ends it when opened.
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
        message: Sent inside an error object.
        error_code: Its code.
        kind: Its type.
        headers: Further headers.
        text: Sent as plain text instead of an error object.
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
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):  # two classes before Python 3.11
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


# -- seeded faults around any model client ---------------------------------------------------------------

ChaosKind = Literal[
    "connection", "overloaded", "rate_limit", "timeout", "incomplete", "empty", "reset", "cut"
]
CHAOS_KINDS: tuple[ChaosKind, ...] = get_args(ChaosKind)


@dataclass(slots=True)
class _Question:
    """State of one request and its retries."""

    dice: random.Random
    in_a_row: int = 0
    kept: list[Delta] | None = field(default=None)  # a truncated answer; the retry gets all of it


class ChaosLLM(BaseLLMClient):
    """Client that fails at random, in the same way for the same seed.

    The fault of a request depends on the seed, its messages and how often they were sent before; not
    on time, nor on the order of parallel runs. The inner client gets one request for each answer, however
    often it is retried, so a strict script stays in step.

    Args:
        inner: The client that gives the answers.
        seed: Decides which requests fail, and how.
        rate: Share of requests that fail, from 0 to 1.
        kinds: Kinds of faults: ``connection`` (refused), ``overloaded`` (503), ``rate_limit`` (429, retry at
            once), ``timeout``, ``incomplete`` (broken before the first piece), ``empty`` (an answer without
            content), ``reset`` and ``cut`` (the stream breaks, or ends without a finish reason, after some
            pieces).
        max_in_a_row: Maximum number of faults before a request is answered; None for no maximum.

    Raises:
        ConfigError: The rate is not from 0 to 1, or a kind is unknown.

    Example:
        llm = ChaosLLM(ScriptedLLM([call("add", a=1, b=2), "3"]), seed=7, rate=0.5)
        ...
        print(llm.faults)    # ["reset", "overloaded"]
    """

    def __init__(
        self,
        inner: ChatModel,
        seed: int = 0,
        rate: float = 0.3,
        *,
        kinds: Sequence[ChaosKind] = CHAOS_KINDS,
        max_in_a_row: int | None = 2,
    ) -> None:
        if not 0 <= rate <= 1:
            raise ConfigError(f"rate={rate!r} must be a number from 0 to 1.")
        unknown = [kind for kind in kinds if kind not in CHAOS_KINDS]
        if unknown or not kinds:
            raise ConfigError(f"kinds={kinds!r} must be some of: {', '.join(CHAOS_KINDS)}.")
        self.inner = inner
        self.faults: list[ChaosKind] = []
        self._seed, self._rate, self._kinds, self._most = seed, rate, tuple(kinds), max_in_a_row
        self._questions: dict[str, _Question] = {}
        self._lock = threading.Lock()

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Return the inner client's answer, or raise a fault.

        Args:
            messages: Passed on.
            tools: Passed on.
            kwargs: Passed on.

        Raises:
            LLMError: A fault.
            ConnectionError: A fault.
        """
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the inner client's answer, with a fault before or between the pieces. As `chat`."""
        question, kind = self._roll(messages)
        if kind is not None and kind not in _MID_STREAM:
            yield _early_fault(kind)
            return
        answer = question.kept
        if answer is None:
            if kind is None:  # no fault: pass each piece on at once
                async for delta in stream_of(self.inner, messages, tools, kwargs):
                    yield delta
                return
            answer = [delta async for delta in stream_of(self.inner, messages, tools, kwargs)]
        question.kept = answer if kind else None
        for delta in _before_the_end(answer) if kind else answer:
            yield delta
        if kind == "reset":
            raise ConnectionResetError("chaos: the connection was reset in mid-stream")

    async def aclose(self) -> None:
        """Close the inner client, if it can be closed."""
        if isinstance(self.inner, BaseLLMClient):
            await self.inner.aclose()

    def _roll(self, messages: list[dict[str, Any]]) -> tuple[_Question, ChaosKind | None]:
        text = json.dumps(messages, sort_keys=True, default=repr)
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        with self._lock:
            question = self._questions.get(key)
            if question is None:
                dice = random.Random(f"{self._seed}:{key}")  # noqa: S311 - must be repeatable
                question = self._questions[key] = _Question(dice)
            kind = self._kind(question)
            if kind is not None:
                self.faults.append(kind)
        return question, kind

    def _kind(self, question: _Question) -> ChaosKind | None:
        chance, kind = question.dice.random(), question.dice.choice(self._kinds)
        is_exempt = self._most is not None and question.in_a_row >= self._most
        if is_exempt or chance >= self._rate:
            question.in_a_row = 0
            return None
        question.in_a_row += 1
        return kind


def _early_fault(kind: ChaosKind) -> Delta:
    """Raise the fault that replaces an answer, or return an empty answer."""
    if kind == "empty":
        return Delta(finish_reason="stop")
    raise _ERRORS[kind]()


def _before_the_end(answer: list[Delta]) -> list[Delta]:
    """Return the first half of the pieces, without a finish reason."""
    pieces = [delta._replace(finish_reason=None, usage=None) for delta in answer]
    return pieces[: (len(pieces) + 1) // 2]
