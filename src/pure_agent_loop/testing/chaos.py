"""Seeded faults around any model client."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import BaseLLMClient, ChatModel, stream_of
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.checks import require_value

ChaosKind = Literal[
    "connection", "overloaded", "rate_limit", "timeout", "incomplete", "empty", "reset", "cut"
]
CHAOS_KINDS: tuple[ChaosKind, ...] = get_args(ChaosKind)
_ERRORS: dict[str, Callable[[], Exception]] = {
    "connection": lambda: ConnectionRefusedError("chaos: the connection was refused"),
    "overloaded": lambda: LLMError("chaos: overloaded", kind="overloaded", status=503),
    "rate_limit": lambda: LLMError(
        "chaos: too many requests", kind="rate_limit", status=429, retry_after=0.0
    ),
    "timeout": lambda: LLMError("chaos: no response", kind="timeout"),
    "incomplete": lambda: LLMError("chaos: unreadable", kind="incomplete"),
}


@dataclass(slots=True)
class _Question:
    """State of one request and its retries."""

    dice: random.Random
    in_a_row: int = 0
    kept: list[Delta] | None = field(default=None)  # complete answer, for the retry after a truncated one


class ChaosLLM(BaseLLMClient):
    """Client with random faults, which are the same for the same seed.

    The fault of a request depends on the seed, the messages and how often they were sent before, but not on
    time or the order of parallel runs. The inner client gets one request per answer, however often the
    request is retried, so that a strict script still matches.

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
        require_value(0 <= rate <= 1, "rate", rate, "a number from 0 to 1")
        unknown = [kind for kind in kinds if kind not in CHAOS_KINDS]
        require_value(kinds and not unknown, "kinds", kinds, f"some of: {', '.join(CHAOS_KINDS)}")
        self.inner = inner
        self.faults: list[ChaosKind] = []
        self._seed, self._rate, self._kinds, self._most = seed, rate, tuple(kinds), max_in_a_row
        self._questions: dict[str, _Question] = {}
        self._lock = threading.Lock()

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Return the answer of the inner client, or raise a fault.

        Args:
            messages: Passed to the inner client.
            tools: Passed to the inner client.
            kwargs: Passed to the inner client.

        Raises:
            LLMError: A fault.
            ConnectionError: A fault.
        """
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the inner client's answer, with a fault before or between the pieces. See `chat`."""
        question, kind = self._roll(messages)
        if kind is not None and kind not in ("reset", "cut"):
            yield _early_fault(kind)
            return
        answer = question.kept
        if answer is None:
            if kind is None:  # no fault: pass on each piece immediately
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
