"""Clients that wrap other clients: another model after a failure, and limits per minute."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import json
import math
import threading
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, ErrorKind, LLMError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.llm.base import (
    BecomesReady,
    ChatModel,
    FindsWindow,
    Prepares,
    ShowsRequest,
    StreamingClient,
    close_client,
    is_on_this_machine,
    model_of,
    origin_of,
    profile_of,
    stream_of,
    takes_meta,
    takes_server_tools,
    thinks_in_text,
    window_known_to,
)
from pure_agent_loop.llm.messages import Message, as_messages, to_wire, user_message
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.response import Assembler
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens, is_plausible, usage_of_partial
from pure_agent_loop.llm.values import (
    NOTHING,
    Delta,
    JsonFields,
    JsonObject,
    Options,
    ServedPart,
    TokenUsage,
    Tools,
)
from pure_agent_loop.retry import is_transient
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.checks import is_number, is_whole, require_value
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.failures import current_redactor
from pure_agent_loop.support.language import model_text, notice
from pure_agent_loop.support.secrets.redaction import Redactor, others_of, redactor_of, secrets_of
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread

T = TypeVar("T")
COOLDOWN = 30.0
SILENCE = 45.0
_UNLIMITED = (None, None)
# Error kinds that are raised without trying another model, so that the run can shorten its request.
_NOT_FOR_OTHERS: frozenset[ErrorKind] = frozenset({"context_overflow"})
# Error kinds without a cooldown, because the model works and rejects only this request.
_OF_REQUEST: frozenset[ErrorKind] = frozenset({"bad_request", "context_overflow"})
MINUTE = 60
_SECONDS = "a number of seconds above 0"
_POLL = 5.0  # maximum seconds between a waiting request's checks; requests ahead of it may be cancelled
_LOST = 3 * _POLL  # seconds without a check after which a waiting request counts as dead and is dropped
_NOTICE = 15.0  # seconds between two notices about a waiting request
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass(slots=True)
class _Cooldown:
    """Earliest time to ask a model again, on the group's clock."""

    ready_at: float = 0.0


@dataclass(slots=True)
class _FallbackModel:
    """One of the models in a group. Copies of a group share its cooldown."""

    client: ChatModel
    cooldown: _Cooldown = field(default_factory=_Cooldown)


class Fallback(StreamingClient):
    """Several models, asked in order: after a failure the next one answers.

    A failure is any request error (an outage, an overload, a used-up quota, a removed model, a rejected
    feature, silence), unless the request was too long. If a model fails in the middle of its response, its
    text stays, and the next model continues it; tool calls are taken only from the model that finishes. A
    model that failed is skipped for some time, unless it only rejected the request. Each change of model
    emits a notice, and responses record which model wrote which part (`LLMResponse.served`) and used which
    tokens (`TokenUsage.by_model`). To use several keys for one model, pass a client for each key.

    Args:
        models: Clients, or names as in ``Agent(model=)``, the preferred one first.
        cooldown: Seconds for which a model is skipped after a failure, unless its server names a time.
        silence: Seconds without a piece of a response after which a model counts as failed; None for no limit
            except the run's timeouts, which apply to each model. With the default of 45, a server on this
            machine may take any length of time before its first piece, because it may read prompts slowly.
        on_refusal: Whether to ask the next model, and discard the text written so far, if a model refuses
            because of the content. The last model's refusal is returned as the response.
        clock: Clock, for tests.

    Raises:
        ConfigError: There is no model, or an argument is invalid. The first request raises it if any model
            lacks its key.
    """

    takes_meta = True
    takes_timeouts = True

    def __init__(
        self,
        models: Sequence[ChatModel | str],
        *,
        cooldown: float = COOLDOWN,
        silence: float | None = SILENCE,
        on_refusal: bool = True,
        clock: Clock | None = None,
    ) -> None:
        clients: Any = () if isinstance(models, str) else [_client_of(model) for model in models or ()]
        if not clients or not all(hasattr(c, "chat") for c in clients):
            raise ConfigError(
                "Fallback needs a list of clients or model names, such as ['gpt-5', AnthropicClient(...)]."
            )
        require_value(is_number(cooldown, zero=False), "cooldown", cooldown, _SECONDS)
        require_value(silence is None or is_number(silence, zero=False), "silence", silence, _SECONDS)
        self._members = [_FallbackModel(client) for client in clients]
        self._cooldown, self._silence, self._on_refusal = cooldown, silence, on_refusal
        self._clock: Clock = clock or SystemClock()
        self.origin = "fallback of " + ", ".join(map(origin_of, clients))

    @property
    def clients(self) -> Sequence[ChatModel]:
        """The clients, the preferred one first."""
        return [member.client for member in self._members]

    def with_each(self, wrap: Callable[[ChatModel], ChatModel]) -> Fallback:
        """Return a group with each client wrapped; the new group shares the models' cooldowns."""
        other = copy.copy(self)
        other._members = [_FallbackModel(wrap(member.client), member.cooldown) for member in self._members]
        return other

    @property
    def model(self) -> str:
        """Name of the preferred model."""
        return model_of(self._members[0].client)

    @property
    def profile(self) -> Profile | None:
        """Profile of the preferred model."""
        return profile_of(self._members[0].client)

    @property
    def thinks_in_text(self) -> bool:
        """True if a model may write its reasoning into its text; see `base.thinks_in_text`."""
        return any(map(thinks_in_text, self.clients))

    @property
    def secrets(self) -> list[str]:
        """Secrets of all clients."""
        return list(secrets_of(self.clients))

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Tokens of the smallest known window: a history must fit every model."""
        windows = [window for client in self.clients if (window := window_known_to(client)) is not None]
        return min(windows, default=None)

    def prepare(self) -> None:
        """Prepare all clients, so that a missing key is found before a model fails; see `Prepares`."""
        for client in self.clients:
            preparing = as_protocol(getattr(client, "inner", client), Prepares)
            if preparing is not None:
                preparing.prepare()

    async def find_context_window(self) -> int | None:
        """Return `context_window`, after asking the servers; see `FindsWindow`."""
        for client in self.clients:
            finding = as_protocol(client, FindsWindow)
            if finding is not None:
                await finding.find_context_window()
        return self.context_window

    def request_body(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        stream: bool,
    ) -> JsonObject | None:
        """Return the body of a request to the preferred model; see `ShowsRequest`."""
        client = self._members[0].client
        showing = as_protocol(client, ShowsRequest)
        history = self._history_for(client, messages, "")
        return None if showing is None else showing.request_body(history, tools, options, stream)

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self.clients:
            await close_client(client)

    async def chat_stream(
        self,
        messages: list[Message],
        tools: Tools | None = None,
        *,
        timeouts: tuple[float | None, float | None] = _UNLIMITED,
        **kwargs: Any,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response of the first model that finishes one.

        Args:
            messages: As in `BaseLLMClient.chat`.
            tools: As in `BaseLLMClient.chat`.
            timeouts: Timeouts for each of the models; see `BaseLLMClient`.
            kwargs: Request options.

        Raises:
            ConfigError: A model has no key.
            LLMError: Every model failed. If some errors are transient, that of the model that will be ready
                soonest is raised, otherwise the last error.
        """
        self.prepare()
        written, change, failures = "", "", list[tuple[float, Exception]]()
        order = self._order()
        for number, member in enumerate(order):
            client, following = member.client, order[number + 1 :]
            yield Delta(served=ServedPart(_name(client), len(written), origin_of(client)), notice=change)
            history = self._history_for(client, messages, written)
            attempt = _Attempt(client, self._silence, timeouts, history, tools)
            try:
                async with aclosing(attempt.run(kwargs)) as deltas:
                    async for delta in deltas:
                        yield _moved(delta, len(written))
                if attempt.finish() != "content_filter" or not following or not self._on_refusal:
                    member.cooldown.ready_at = 0.0
                    return
                happened, reason, written = "model_refused", "", ""
            except Exception as error:
                if not isinstance(error, LLMError) and not is_transient(error):
                    raise
                if (spent := attempt.spent(error)) is not None:
                    yield Delta(spent=spent)
                if self._note_failure(member, error) in _NOT_FOR_OTHERS:
                    raise
                failures.append((member.cooldown.ready_at, error))
                if not following:
                    raise _soonest(failures) from error
                reason = one_line(safe_str(error))
                written += attempt.text
                happened = "model_failed_midway" if written else "model_failed"
            else:
                yield Delta(spent=attempt.spent(None))
            other = _name(following[0].client)
            change = notice(f"library.{happened}", model=_name(client), reason=reason, other=other)

    def _history_for(self, client: ChatModel, messages: Sequence[Message], written: str) -> list[Message]:
        """Return the history for one of the models, with the text that other models wrote for this response.

        Secrets of other models are removed from the history, and secrets of all models from that text.
        """
        secrets = secrets_of(self.clients)
        history = redactor_of(others_of(client, secrets)).redact_value(list(messages))
        if written:
            redactor = (current_redactor() or Redactor((), {})).for_run(secrets)
            history.append({"role": "assistant", "content": redactor.redact_known(written)})
            history += as_messages([user_message(model_text("continue_for_other"), synthetic=True)])
        return history if takes_meta(client) else to_wire(history, client)

    def _note_failure(self, member: _FallbackModel, error: Exception) -> ErrorKind:
        """Start the cooldown of a model that failed, and return its error kind."""
        kind = error.kind if isinstance(error, LLMError) else "connection"
        if kind not in _OF_REQUEST:
            wait = getattr(error, "retry_after", None) or 0.0
            member.cooldown.ready_at = self._clock.monotonic() + (
                wait if 0 < wait < math.inf else self._cooldown
            )
        return kind

    def _order(self) -> list[_FallbackModel]:
        """Return the models that are ready, then those still cooling down, soonest ready first."""
        now = self._clock.monotonic()
        ready = [member for member in self._members if member.cooldown.ready_at <= now]
        cooling = [member for member in self._members if member.cooldown.ready_at > now]
        return ready + sorted(cooling, key=lambda member: member.cooldown.ready_at)


def _soonest(failures: list[tuple[float, Exception]]) -> Exception:
    """Return the transient error of the model that will be ready soonest; if none is transient, the last."""
    transient = [failure for failure in failures if is_transient(failure[1])]
    return min(transient or failures[-1:], key=lambda failure: failure[0])[1]


def _moved(delta: Delta, start: int) -> Delta:
    """Add `start` to the start of a delta's part, because a nested group counts from its own start."""
    part = delta.served
    return delta if part is None else delta._replace(served=part._replace(start=part.start + start))


class _Attempt:
    """One response of one model.

    Args:
        silence: Seconds without a piece after which the attempt fails; None for no limit.
        timeouts: Other limits, as in `Fallback.chat_stream`.
    """

    def __init__(
        self,
        client: ChatModel,
        silence: float | None,
        timeouts: tuple[float | None, float | None],
        messages: list[Message],
        tools: Tools | None,
    ) -> None:
        beginning, pause = timeouts
        waits = silence == SILENCE and is_on_this_machine(client)
        limits = _shorter(None if waits else silence, beginning), _shorter(silence, pause)
        self._client, self._own_options = client, dict[str, Any]()
        # A client that takes timeouts applies them itself; a group does so for each of its models.
        if getattr(client, "takes_timeouts", False):
            self._own_options, limits = {"timeouts": limits}, _UNLIMITED
        self._limit, self._pause = limits
        self._left = self._limit
        self._messages, self._tools = messages, tools
        self._options: JsonFields = {}
        self._watch = Interrupt(keeps_timer=True)
        self._assembler = Assembler(splits_thinking=thinks_in_text(client))

    async def run(self, options: Options) -> AsyncGenerator[Delta, None]:
        """Stream the response, with the cost in its usage."""
        self._options = options
        if (choosing := as_protocol(self._client, BecomesReady)) is not None:
            await choosing.become_ready()
        try:
            stream = stream_of(self._client, self._messages, self._tools, {**options, **self._own_options})
            async with aclosing(stream) as deltas:
                while (delta := await self._next(deltas)) is not None:
                    self._assembler.feed(delta)
                    if self._assembler.has_begun:
                        self._limit = self._pause
                    if delta != NOTHING:  # keep-alives are not progress
                        self._left = self._limit
                    if delta.usage is not None:
                        usage = delta.usage.checked()
                        delta = delta._replace(usage=self._priced(usage) if usage else delta.usage)
                    yield delta
        finally:
            self._watch.close()

    def finish(self) -> str | None:
        """Return the finish reason of the whole response.

        Raises:
            LLMError: The response is incomplete.
        """
        return self._assembler.finish().finish_reason

    @property
    def text(self) -> str:
        """Text of the attempt so far; empty if there is only white space."""
        self._assembler.flush()
        return self._assembler.partial().content or ""

    def spent(self, error: Exception | None) -> TokenUsage | None:
        """Return a failed attempt's tokens; None if no work was done, or they have been counted already."""
        response, silent = self._assembler, isinstance(error, LLMError) and error.kind == "timeout"
        if response.is_settled or not (response.has_begun or silent):
            return None
        prompt = estimate_request(self._messages, self._tools)
        usage = usage_of_partial(response.partial().usage, prompt, response.written())
        served = response.served
        return self._priced(usage).of_model(served[-1].model if served else _name(self._client))

    def _priced(self, usage: TokenUsage) -> TokenUsage:
        """Return a usage with its cost, if the model has a price. A nested group has already added it."""
        if usage.cost is not None or usage.by_model:
            return usage
        price = price_of(self._client, self._options)
        return usage if price is None else replace(usage, cost=price.of(usage))

    async def _next(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """Return the next piece; None at the end."""
        if self._left is None:
            return await anext(deltas, None)
        clock = asyncio.get_running_loop()
        with self._watch as block:
            block.after(self._left)
            begun = clock.time()
            delta = await anext(deltas, None)
            self._left -= clock.time() - begun
            return delta
        raise LLMError(f"{_name(self._client)} sent nothing for {self._limit:g} s.", kind="timeout")


def _shorter(one: float | None, other: float | None) -> float | None:
    """Return the shorter of two limits; None for no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


# -- limits per minute -----------------------------------------------------------------------------------


class LimitStore(Protocol):
    """Storage of limits that several processes share, such as `durable.SharedLimits`."""

    def change(self, key: str, work: Callable[[JsonObject, float], T]) -> T:
        """Change the ledger of a key in one transaction. This call blocks.

        Args:
            work: Function that modifies the ledger, a dict of plain JSON, in place. The second argument is
                the time in seconds on a clock that all processes share. The function is called again if its
                transaction failed.

        Returns:
            The result of `work`.

        Raises:
            PureAgentLoopError: The storage is unavailable.
        """


class _MinuteLedger:
    """Requests and tokens of the last minute, and the waiting requests in order. Pure.

    The time of an entry is rounded up to a full second, so that the entry never leaves the minute too early.
    A request may be sent if there is room for it and for all requests that are waiting ahead of it. A request
    that is larger than the limit itself is sent alone.

    Args:
        plain: Plain JSON form, which is modified in place.
    """

    def __init__(self, plain: JsonObject, requests: int | None, tokens: int | None) -> None:
        self._spent: dict[str, list[int]] = plain.setdefault("spent", {})  # [requests, tokens], by second
        # [time of the last check, tokens], by ticket.
        self._waiting: dict[str, list[float]] = plain.setdefault("waiting", {})
        self._requests, self._tokens = requests, tokens

    def take(self, now: float, ticket: str, tokens: int) -> float:
        """Count a request and return 0, or return the seconds to wait before the next check."""
        for second in [second for second in self._spent if int(second) <= now - MINUTE]:
            del self._spent[second]
        self._waiting[ticket] = [now, tokens]  # a waiting ticket keeps its position in the queue
        for other in [other for other, (seen, _) in self._waiting.items() if seen <= now - _LOST]:
            del self._waiting[other]
        before = list(self._waiting.values())[: list(self._waiting).index(ticket)]
        wait = self._wait(now, len(before) + 1, tokens + int(sum(wanted for _, wanted in before)))
        if wait == 0:
            self.leave(ticket)
            self.add(now, 1, tokens)
        return wait

    def leave(self, ticket: str) -> None:
        """Remove a request that is no longer waiting."""
        self._waiting.pop(ticket, None)

    def add(
        self, now: float, requests: int, tokens: int, instead_of: tuple[float, int] | None = None
    ) -> None:
        """Count requests and tokens.

        Args:
            instead_of: The time and the tokens counted earlier for the same request; the new count replaces
                them.
        """
        if instead_of is not None and (old := self._spent.get(str(math.ceil(instead_of[0])))) is not None:
            old[1] = max(0, old[1] - instead_of[1])
        entry = self._spent.setdefault(str(math.ceil(now)), [0, 0])
        entry[0] += requests
        entry[1] += tokens

    def _wait(self, now: float, requests: int, tokens: int) -> float:
        if requests > 1 and self._is_over(requests, tokens):
            return _POLL  # the waiting requests alone exceed the limit
        for second in sorted(map(int, self._spent), reverse=True):
            requests += self._spent[str(second)][0]
            tokens += self._spent[str(second)][1]
            if self._is_over(requests, tokens):
                return second + MINUTE - now
        return 0.0

    def _is_over(self, requests: int, tokens: int) -> bool:
        return (self._requests is not None and requests > self._requests) or (
            self._tokens is not None and tokens > self._tokens
        )


class Limiter(StreamingClient):
    """A model with limits on requests and tokens per minute, shared by all runs that use this client.

    Requests that would exceed a limit wait, in their order of arrival. The tokens of a request are estimated,
    including ``max_tokens`` if that is set, and the estimate is corrected when the response has arrived or
    failed. Responses that are longer than estimated may therefore exceed the token limit. With a `store`, all
    processes share the limits of a model and key; requests of a process that died are counted for at most a
    minute.

    Args:
        client: The model's client, or its name as in ``Agent(model=)``.
        requests: Requests per minute; None for no limit.
        tokens: Tokens per minute, sent and received; None for no limit.
        store: Shared storage, such as `durable.SharedLimits`; None to keep the limits in this object alone.
            While the storage is unavailable, requests fail with an `LLMError` of the kind ``connection``.
        clock: Clock, for tests.

    Raises:
        ConfigError: There is no limit, or one is not positive.
    """

    def __init__(
        self,
        client: ChatModel | str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        store: LimitStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        if requests is None and tokens is None:
            raise ConfigError("Limiter needs requests=... or tokens=..., a number per minute.")
        limits: list[tuple[str, Any]] = [("requests", requests), ("tokens", tokens)]
        for name, limit in limits:
            require_value(limit is None or is_whole(limit, 1), name, limit, "a whole number above 0")
        if store is not None and not callable(getattr(store, "change", None)):
            raise ConfigError(f"store={store!r:.80} must be a LimitStore, such as durable.SharedLimits(URL).")
        self.inner = client = _client_of(client)
        self._requests, self._tokens, self._store = requests, tokens, store
        self._clock: Clock = clock or SystemClock()
        self._ledger: JsonObject = {}
        self._lock = threading.Lock()
        self.takes_meta, self.takes_server_tools = takes_meta(client), takes_server_tools(client)
        self.origin = origin_of(client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("inner", "with_each"):  # the limit applies to the whole group
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def _key(self) -> str:
        """Key of the shared limits: the model and the account, perhaps unknown before the first request."""
        account = "\0".join(sorted(secrets_of(self.inner)))
        return f"{self.origin} {hashlib.sha256(account.encode()).hexdigest()[:12]}"

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Context window of the model."""
        return window_known_to(self.inner)

    async def aclose(self) -> None:
        """Close the client."""
        await close_client(self.inner)

    async def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response, as soon as the limits allow the request.

        Raises:
            LLMError: The request failed, or the shared storage is unavailable.
        """
        prompt = estimate_request(messages, tools) if self._tokens is not None else 0
        most = next((n for name in _OUTPUT_LIMITS if type(n := kwargs.get(name)) is int), 0)
        reserved = prompt + (most if self._tokens is not None else 0)
        ticket, begun = uuid.uuid4().hex, None
        try:
            noticed = -math.inf
            while True:
                wait, now = await self._change(lambda ledger, now: (ledger.take(now, ticket, reserved), now))
                if wait == 0:
                    begun = now
                    break
                if now - noticed >= _NOTICE:
                    noticed = now
                    shown = notice("library.limit_wait", seconds=f"{wait:.0f}", model=_name(self.inner))
                    yield Delta(notice=shown)
                await self._clock.sleep(min(wait, _POLL))
        finally:
            if begun is None:
                with contextlib.suppress(LLMError):
                    await self._change(lambda ledger, _: ledger.leave(ticket))
        used = _Used()
        try:
            async with aclosing(stream_of(self.inner, messages, tools, kwargs)) as deltas:
                async for delta in deltas:
                    used.take(delta)
                    yield delta
        except asyncio.CancelledError:
            used.has_begun = True  # the server may continue the response, so its tokens count
            raise
        finally:
            if self._tokens is not None:
                tokens = used.tokens(prompt)
                with contextlib.suppress(LLMError):  # the reserved tokens stay counted for a minute
                    await self._change(
                        lambda ledger, now: ledger.add(now, 0, tokens, instead_of=(begun, reserved))
                    )

    async def _change(self, work: Callable[[_MinuteLedger, float], T]) -> T:
        """Change the ledger."""

        def on_plain(plain: JsonObject, now: float) -> T:
            return work(_MinuteLedger(plain, self._requests, self._tokens), now)

        store = self._store
        if store is None:
            with self._lock:
                return on_plain(self._ledger, self._clock.monotonic())
        try:
            return await in_thread(lambda: store.change(self._key, on_plain))
        except (ConfigError, MissingExtraError):
            raise
        except PureAgentLoopError as error:
            problem = f"The shared limits of {_name(self.inner)} are unavailable: {safe_str(error)}"
            raise LLMError(problem, error, kind="connection") from error


class _Used:
    """Counts the tokens of a response, even if it is interrupted."""

    def __init__(self) -> None:
        self.has_begun = False
        self._usage: TokenUsage | None = None
        self._failed = 0
        self._written: list[str] = []

    def take(self, delta: Delta) -> None:
        """Add a piece."""
        self.has_begun = self.has_begun or not (delta.notice or delta.served)
        if usage := delta.usage and delta.usage.checked():
            self._usage = usage.after(self._usage)
        if spent := delta.spent and delta.spent.checked():
            self._failed += spent.total_tokens
        calls = (part.arguments for part in delta.tool_calls if isinstance(part.arguments, str))
        self._written += filter(None, (delta.text, delta.reasoning, *calls))

    def tokens(self, prompt: int) -> int:
        """Return the tokens, estimated if the server reported none; 0 if the server did no work."""
        written, usage = "".join(self._written), self._usage
        if usage is None or not is_plausible(usage, written):
            usage = usage_of_partial(None, prompt, written) if self.has_begun else TokenUsage.zero()
        return self._failed + usage.total_tokens


def estimate_request(messages: Sequence[Message], tools: Sequence[JsonFields] | None) -> int:
    """Estimate the tokens of a request."""
    return sum(map(estimate_message, messages)) + (estimate_tokens(json.dumps(tools)) if tools else 0)


def _client_of(model: ChatModel | str) -> ChatModel:
    """Return a client; a name is read as in ``Agent(model=)``."""
    if not isinstance(model, str):
        return model
    from pure_agent_loop.runs.choose import client_for

    return client_for(model)[0]


def _name(client: ChatModel) -> str:
    return model_of(client) or type(client).__name__
