"""Clients around other clients: another model after a failure, and limits per minute."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, ErrorKind, LLMError
from pure_agent_loop.llm.base import (
    ChatModel,
    FindsWindow,
    StreamingClient,
    close_client,
    model_of,
    origin_of,
    profile_of,
    stream_of,
    takes_meta,
    window_known_to,
)
from pure_agent_loop.llm.messages import META, Message, to_wire, user_message
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.response import FAILED
from pure_agent_loop.llm.values import NOTHING, Delta
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.text import shorten

SERVED_BY = "served_by"  # of an assistant message with fields of a server: which of the models added them
COOLDOWN = 30.0
# A shorter request may help where another model does not.
_NOT_FOR_OTHERS: frozenset[ErrorKind] = frozenset({"context_overflow"})


@dataclass(slots=True)
class _FallbackModel:
    """One of the models, and when it may be asked again, on the clock of the group."""

    client: ChatModel
    ready_at: float = 0.0


class Fallback(StreamingClient):
    """Several models, asked in order: after a failure the next one answers.

    A failure is any `LLMError` but a request that is too long: an outage, an overload, a used-up quota, a
    model that is gone, a feature that is refused. If a model fails in the middle of its response, its text
    stays, and the next model continues it; tool calls are taken only from the model that finishes. A model
    that failed is passed over for a while. Each change is a notice.

    Args:
        models: Clients, the preferred one first.
        cooldown: Seconds for which a model is passed over after a failure, unless its server says how long.
        silence: Seconds without a piece of a response after which a model has failed; None for no limit.
        clock: Clock, for tests.

    Raises:
        ConfigError: There is no client, or an argument is invalid.
    """

    takes_meta = True

    def __init__(
        self,
        models: Sequence[ChatModel],
        *,
        cooldown: float = COOLDOWN,
        silence: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        clients: Any = models
        if isinstance(clients, str) or not clients or not all(hasattr(c, "chat") for c in clients):
            raise ConfigError(
                "Fallback needs a list of clients, such as [OpenAIClient('gpt-5'), AnthropicClient(...)]."
            )
        _check_seconds("cooldown", cooldown)
        if silence is not None:
            _check_seconds("silence", silence)
        self._members = [_FallbackModel(client) for client in models]
        self._cooldown, self._silence = cooldown, silence
        self._clock: Clock = clock or SystemClock()
        self.origin = "fallback of " + ", ".join(origin_of(client) for client in models)

    @property
    def clients(self) -> list[ChatModel]:
        """The clients, the preferred one first."""
        return [member.client for member in self._members]

    @property
    def model(self) -> str:
        """Name of the preferred model."""
        return model_of(self._members[0].client)

    @property
    def profile(self) -> Profile | None:
        """Profile of the preferred model."""
        return profile_of(self._members[0].client)

    @property
    def secrets(self) -> list[str]:
        """Secrets of all clients."""
        return [secret for client in self.clients for secret in getattr(client, "secrets", ())]

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Tokens of the smallest known window: a history must fit every model."""
        windows = [window for client in self.clients if (window := window_known_to(client)) is not None]
        return min(windows, default=None)

    async def find_context_window(self) -> int | None:
        """Return `context_window`, after asking the servers; see `FindsWindow`."""
        for client in self.clients:
            finding = as_protocol(client, FindsWindow)
            if finding is not None:
                await finding.find_context_window()
        return self.context_window

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self.clients:
            await close_client(client)

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response of the first model that finishes one.

        Raises:
            LLMError: Every model failed; the error is that of the last.
        """
        written = ""
        order = self._order()
        for number, member in enumerate(order):
            attempt = _Attempt(member.client, self._silence)
            history = self._history_for(member.client, messages, written)
            try:
                async with aclosing(attempt.run(history, tools, kwargs)) as deltas:
                    async for delta in deltas:
                        written += delta.text
                        yield self._tagged(delta, member.client)
            except LLMError as error:
                member.ready_at = self._clock.monotonic() + (error.retry_after or self._cooldown)
                if error.kind in _NOT_FOR_OTHERS or number == len(order) - 1:
                    raise
                failure = f"{_name(member.client)} failed ({shorten(error.message, 200)})"
                what = "continues its response" if written.strip() else "answers instead"
                notice = f"{failure}; {_name(order[number + 1].client)} {what}."
            else:
                member.ready_at = 0.0
                return
            yield Delta(notice=notice)

    def _order(self) -> list[_FallbackModel]:
        """Return the models that may be asked, then those that cool down, the one ready first in front."""
        now = self._clock.monotonic()
        ready = [member for member in self._members if member.ready_at <= now]
        cooling = [member for member in self._members if member.ready_at > now]
        return ready + sorted(cooling, key=lambda member: member.ready_at)

    def _history_for(self, client: ChatModel, messages: Sequence[Message], written: str) -> list[Message]:
        """Return the history for one of the models, with what another one wrote of this response."""
        history = [self._with_origin(message) for message in messages]
        if written.strip():
            history.append({"role": "assistant", "content": written})
            history.append(user_message(prompts_for().continue_answer, synthetic=True))
        return history if takes_meta(client) else to_wire(history, client)

    def _with_origin(self, message: Message) -> Message:
        """Return a message whose added fields name the model that added them."""
        if message.get(META, {}).get("origin") != self.origin or SERVED_BY not in message:
            return message
        plain = {name: value for name, value in message.items() if name != SERVED_BY}
        return {**plain, META: {**message[META], "origin": message[SERVED_BY]}}

    def _tagged(self, delta: Delta, client: ChatModel) -> Delta:
        has_extra = delta.extra or any(part.extra for part in delta.tool_calls)
        if not has_extra:
            return delta
        return delta._replace(extra={**(delta.extra or {}), SERVED_BY: origin_of(client)})


class _Attempt:
    """One response of one model. Calls are held until the response is complete.

    Args:
        silence: Seconds without a piece after which the attempt fails; None for no limit.
    """

    def __init__(self, client: ChatModel, silence: float | None) -> None:
        self._client, self._silence = client, silence

    async def run(
        self, messages: list[Message], tools: list[dict[str, Any]] | None, options: Mapping[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        held: list[Delta] = []
        has_finished = False
        async with aclosing(stream_of(self._client, messages, tools, dict(options))) as deltas:
            while (delta := await self._next(deltas)) is not None:
                reason = delta.finish_reason
                if reason is not None and reason.lower().startswith(FAILED):
                    raise LLMError(f"The server aborted its response: {reason}.", kind="incomplete")
                has_finished = has_finished or reason is not None
                if delta.tool_calls or held or reason is not None:
                    held.append(delta._replace(text="", reasoning="", notice=""))
                    delta = Delta(delta.text, delta.reasoning, notice=delta.notice)
                if delta != NOTHING:
                    yield delta
        if not has_finished:
            raise LLMError("The model's response ended early, without a finish reason.", kind="incomplete")
        for delta in held:
            yield delta

    async def _next(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """Return the next piece; None at the end."""
        if self._silence is None:
            return await anext(deltas, None)
        with Interrupt() as block:
            block.after(self._silence)
            return await anext(deltas, None)
        raise LLMError(f"{_name(self._client)} sent nothing for {self._silence:g} s.", kind="timeout")


class Limiter(StreamingClient):
    """A model with a limit of requests and tokens a minute, shared by all runs that use this client.

    A request that would exceed a limit waits. The tokens of a response count once it has come, so the token
    limit may be exceeded by the requests that are under way.

    Args:
        client: Client of the model.
        requests: Requests a minute; None for no limit.
        tokens: Tokens a minute, sent and received; None for no limit.
        clock: Clock, for tests.

    Raises:
        ConfigError: There is no limit, or one is not positive.
    """

    def __init__(
        self,
        client: ChatModel,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        if requests is None and tokens is None:
            raise ConfigError("Limiter needs requests=... or tokens=..., a number per minute.")
        limits: list[tuple[str, Any]] = [("requests", requests), ("tokens", tokens)]
        for name, limit in limits:
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
                raise ConfigError(f"{name}={limit!r} must be a whole number above 0.")
        self.inner = client
        self._requests, self._tokens = requests, tokens
        self._clock: Clock = clock or SystemClock()
        self._spent: deque[tuple[float, int, int]] = deque()  # time, requests, tokens of the last minute
        self._lock = threading.Lock()
        self.takes_meta = takes_meta(client)
        self.origin = origin_of(client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Context window of the model."""
        return window_known_to(self.inner)

    async def aclose(self) -> None:
        """Close the client."""
        await close_client(self.inner)

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response, as soon as the limits allow the request."""
        while (seconds := self._take()) > 0:
            yield Delta(
                notice=f"Waiting {seconds:.0f} s: the limit per minute of {_name(self.inner)} is reached."
            )
            await self._clock.sleep(seconds)
        async with aclosing(stream_of(self.inner, messages, tools, kwargs)) as deltas:
            async for delta in deltas:
                if delta.usage is not None:
                    with self._lock:
                        self._spent.append((self._clock.monotonic(), 0, delta.usage.total_tokens))
                yield delta

    def _take(self) -> float:
        """Count a request, and return 0; or return the seconds until it may be counted."""
        with self._lock:
            now = self._clock.monotonic()
            while self._spent and self._spent[0][0] <= now - 60:
                self._spent.popleft()
            requests = sum(entry[1] for entry in self._spent)
            tokens = sum(entry[2] for entry in self._spent)
            is_over = (self._requests is not None and requests >= self._requests) or (
                self._tokens is not None and tokens >= self._tokens
            )
            if is_over:
                return max(0.01, self._spent[0][0] + 60 - now)
            self._spent.append((now, 1, 0))
            return 0.0


def _name(client: ChatModel) -> str:
    return model_of(client) or type(client).__name__


def _check_seconds(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{name}={value!r} must be a number of seconds above 0.")
