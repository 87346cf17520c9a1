"""Model requests: one streamed answer, with retries and a watchdog for silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LimitExceededError, LLMError, SessionError
from pure_agent_loop.events import AnyEvent, Emit, Event, EventType, PartEvent
from pure_agent_loop.kernel.doom import note_answer
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import (
    Request,
    as_overflow,
    build_request,
    counts_less,
    guess,
    is_of_one_request,
    is_typed,
    make_room,
    next_usage,
    note_length,
)
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LimitChecker
from pure_agent_loop.llm.base import model_of, origin_of, stream_of
from pure_agent_loop.llm.control_tokens import meant_name
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens, usage_of
from pure_agent_loop.llm.tool_modes.refusals import FINAL_RESULT, answered
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.output.wanted import PartialOutput
from pure_agent_loop.parts import PartState, PartType, moved, new_part
from pure_agent_loop.retry import RetryAttempt, RetryHandler
from pure_agent_loop.support.language import message
from pure_agent_loop.support.secrets.redaction import Redactor, StreamRedactor
from pure_agent_loop.support.text import error_text, safe_str

# -- send and record the parts of a response while they change; see `parts` ------------------------------


class AnswerParts:
    """Text and reasoning of one response while it is written."""

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self._state = state
        self._kit = kit
        self._step = state.step
        self._written: list[str] = []
        self._count = 0
        self._message_id = f"msg_{state.answers}"
        self.open: dict[str, Any] | None = None
        """Part that is being written; None for none."""

    async def write(self, kind: PartType, text: str) -> None:
        """Add text of one kind; an open part of another kind is complete then."""
        if self.open is None or self.open["type"] != kind:
            await self.end("completed")
            self._count += 1
            now, name = self._kit.clock.now(), f"{self._message_id}.{self._count}"
            part = new_part(name, self._message_id, kind, now, session_id=self._state.session_id)
            self.open = running = moved(part, "running", now)
            await _send_part(part, self._step, self._kit)
            await _send_part({**running}, self._step, self._kit)
        self._written.append(text)

    async def end(self, state: PartState) -> None:
        """End the open part: complete, or taken back."""
        part, self.open = self.open, None  # first, so that it is not ended twice if sending fails
        if part is not None:
            output, self._written = "".join(self._written), []
            await _send_part(moved(part, state, self._kit.clock.now(), output), self._step, self._kit)

    async def open_calls(self) -> None:
        """Open a pending part for each call of a complete response."""
        for call in self._state.pending:
            part = _call_part(call, self._message_id, self._state, self._kit)
            self._state.parts[call.id] = {**part}
            await _send_part(part, self._step, self._kit)


def _send_part(part: dict[str, Any], step: int, kit: Kit) -> Awaitable[None]:
    """Record a change, then send it. The event has `part` itself; the state keeps a copy."""
    kit.journal.note_part(part)
    return kit.emit(PartEvent(EventType.PART, step, {"part": part}))


def _call_part(call: ToolCall, message_id: str, state: QueryState, kit: Kit) -> dict[str, Any]:
    return new_part(
        f"{message_id}.{call.id}",
        message_id,
        "tool",
        kit.clock.now(),
        session_id=state.session_id,
        tool=call.name,
        call_id=call.id,
        given=call.arguments,
    )


def change_part(
    state: QueryState, kit: Kit, call_id: str, to: PartState, output: str | None = None, *, step: int
) -> Awaitable[None]:
    """Move the part of a call to another state."""
    part = state.parts.get(call_id)
    if part is None:  # the run was resumed: another process opened the part
        call = next((call for call in state.pending if call.id == call_id), None)
        if call is None:
            return _nothing()
        part = _call_part(call, f"msg_{state.answers}", state, kit)
    part = moved(part, to, kit.clock.now(), output)
    if part["ended"] is None:
        state.parts[call_id] = {**part}
    else:
        state.parts.pop(call_id, None)
    return _send_part(part, step, kit)


async def _nothing() -> None:
    """Do nothing."""


async def end_open_parts(state: QueryState, kit: Kit) -> None:
    """End the parts of calls that have not ended as failed, with their result in the history."""
    if not state.parts:
        return
    results = {
        m.get("tool_call_id"): m["content"]
        for m in state.messages[-len(state.parts) :]
        if m["role"] == "tool"
    }
    for call_id in list(state.parts):
        await change_part(state, kit, call_id, "error", results.get(call_id, ""), step=state.step)


# -- redact known secrets in responses and events --------------------------------------------------------

_PIECES = frozenset({EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA})


class ResponseRedactor:
    """Redactor of one response, piece by piece."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text, self._reasoning = redactor.stream(), redactor.stream()
        self._calls: dict[int | None, StreamRedactor] = {}

    def feed(self, delta: Delta) -> Delta:
        """Return the part of a piece that certainly holds no secret; the rest is kept back."""
        text = self._text.feed(delta.text) if delta.text else delta.text
        reasoning = self._reasoning.feed(delta.reasoning) if delta.reasoning else delta.reasoning
        calls = tuple(map(self._call, delta.tool_calls)) if delta.tool_calls else ()
        if text is delta.text and reasoning is delta.reasoning and not calls:
            return delta
        return delta._replace(text=text, reasoning=reasoning, tool_calls=calls)

    def flush(self) -> Delta:
        """Return the held-back end of the response."""
        calls = ((index, stream.flush()) for index, stream in self._calls.items())
        parts = tuple(ToolCallDelta(index=index, arguments=rest) for index, rest in calls if rest)
        return Delta(text=self._text.flush(), reasoning=self._reasoning.flush(), tool_calls=parts)

    def redact(self, response: LLMResponse) -> LLMResponse:
        """Return the response without secrets; arguments of calls stay as they are."""
        content = self._redactor.redact_value(response.content)
        reasoning = self._redactor.redact_value(response.reasoning_content)
        extra = response.extra and self._redactor.redact_value(response.extra)
        same = content is response.content and reasoning is response.reasoning_content
        if same and extra is response.extra:
            return response
        return replace(response, content=content, reasoning_content=reasoning, extra=extra)

    def _call(self, part: ToolCallDelta) -> ToolCallDelta:
        if not isinstance(part.arguments, str):
            return part
        stream = self._calls.setdefault(part.index, self._redactor.stream())
        return replace(part, arguments=stream.feed(part.arguments))


def response_redactor(redactor: Redactor | None) -> ResponseRedactor | None:
    """Return a redactor for the next response; None without known secrets."""
    return None if redactor is None or redactor.is_empty else ResponseRedactor(redactor)


def as_recorded(call: ToolCall, redactor: Redactor | None) -> ToolCall:
    """Return a call as a session records it; the state uses this form, so that a replay is the same."""
    if redactor is None:
        return call
    args = redactor.redact_value(call.arguments)
    invalid = call.invalid and redactor.redact_value(call.invalid)
    if args is call.arguments and invalid is call.invalid:
        return call
    return replace(call, arguments=args, invalid=invalid)


def _redacted_event(event: AnyEvent, redactor: Redactor) -> AnyEvent:
    """Redact an event; the value of a tool is an object of the program and stays."""
    value = event.data.get("value") if event.type is EventType.OBSERVATION else None
    plain = event.data if value is None else {k: v for k, v in event.data.items() if k != "value"}
    data = redactor.redact_value(plain)
    if data is plain:
        return event
    return replace(event, data=data if value is None else {**data, "value": value})


def redacting_emit(emit: Emit, redactor: Redactor | None) -> Emit:
    """Return a sink that redacts events."""
    if redactor is None or redactor.is_empty:
        return emit

    async def redact_event(event: AnyEvent) -> None:
        if event.type not in _PIECES:  # redacted as streams before
            event = _redacted_event(event, redactor)
        await emit(event)

    return redact_event


async def respond(state: QueryState, kit: Kit) -> LLMResponse:
    """Request the next answer and add it to the state.

    A request that is refused as too long is shortened and sent again, once.

    Raises:
        LLMError: The request failed. A partial answer is kept only if the run was cancelled.
    """
    for key in ("model", "model:shortened"):
        call = _ModelCall(state, kit)
        try:
            response = await call.answer(f"{call.step}:{key}")
            break
        except LLMError as error:
            await _shorten(error, call, state, kit)
    if call.parts.open is not None:
        await call.parts.end("completed")
    guessed = guess(state, call.request.tools)
    if counts_less(response, guessed):
        await note_length(response, guessed, state, kit)
    usage = response.usage or usage_of(_prompt_tokens(state), response)
    _take_in(response, usage, guessed, call)
    said = note_answer(state.doom, response.content or "", kit.limits.doom_loop_threshold)
    if said.action == "stop" and not state.pending:
        state.must_close = "doom_loop"
    if kit.limits.max_tool_calls is not None or kit.budget is not None:
        _count_calls(state, kit)
    if response.reasoning_content and kit.emit_reasoning:
        await kit.emit(Event.reasoning(state.step, response.reasoning_content))
    if response.content:
        await kit.emit(Event.thought(state.step, response.content))
    if state.pending:
        await call.parts.open_calls()
    return response


def _with_meant_names(response: LLMResponse, kit: Kit) -> LLMResponse:
    def known(name: str) -> object:
        return name == FINAL_RESULT or kit.tools.get(name)

    calls = [replace(call, name=meant_name(call.name, known)) for call in response.tool_calls]
    return replace(response, tool_calls=calls)


def _count_calls(state: QueryState, kit: Kit) -> None:
    """Count the calls against the limit; excess calls are denied before any question."""
    granted, most = len(state.pending), kit.limits.max_tool_calls
    if most is not None:
        granted = min(granted, max(0, most - state.ledger.tool_calls))
    if kit.budget is not None:
        granted = kit.budget.take_calls(granted)
    if too_many := state.pending[granted:]:
        state.permissions.refuse(too_many, message("no_calls_left"))


def _prompt_tokens(state: QueryState) -> int:
    """Estimate the tokens of the request. Each message is counted once per run, not per step."""
    system = {"role": "system", "content": state.system_prompt}
    lead = estimate_message(system) if state.system_prompt else 0
    return lead + state.context.estimate(state.messages)


def _take_in(response: LLMResponse, usage: TokenUsage, guessed: int, call: _ModelCall) -> None:
    state, kit = call.state, call.kit
    for made in response.tool_calls:
        if "<" in made.name or "." in made.name or "[" in made.name:  # unusual in a name
            response = _with_meant_names(response, kit)
            break
    if response.spent is not None:
        call.take(response.spent)
    before = len(state.messages)
    offered = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds or not kit.tools
    state.add_response(response, usage, cost=charge(usage, kit), tools_offered=offered)
    if is_of_one_request(response):
        state.context.note(usage, guessed, len(state.messages), kept=len(state.messages) > before)


async def _shorten(error: LLMError, call: _ModelCall, state: QueryState, kit: Kit) -> None:
    """Shorten the history if a request was too long, once per step; else raise its error."""
    state.window = 0  # the client may have learned the window from the error
    overflow = as_overflow(error, state, kit)
    if overflow is None:
        raise error
    if not await make_room(state, kit):
        raise overflow from error.__cause__
    state.answers += 1  # the next attempt names its parts differently
    await kit.emit(Event.retry(state.step, 1, 0.0, safe_str(overflow), call.shown))


def spent_on(assembler: Assembler, error: BaseException, prompt: int) -> TokenUsage | None:
    """Return the usage of a failed attempt, estimated if not reported; None if the server did no work.

    Args:
        prompt: Estimated tokens of the request.
    """
    is_silence = isinstance(error, LLMError) and error.kind == "timeout" and error.original_error is None
    if not (assembler.has_begun or is_silence or isinstance(error, asyncio.CancelledError)):
        return None
    usage, written = assembler.partial().usage, estimate_tokens(assembler.written())
    return usage or TokenUsage(prompt, written, prompt + written, estimated=True)


class Tries:
    """Attempts of one request. The usage of a failed attempt counts at once, for limits and budgets."""

    def __init__(self, request: Request, state: QueryState, kit: Kit) -> None:
        self.request = request
        self.state, self.kit = state, kit
        self._assembler: Assembler | None = None  # of the newest attempt
        self.spent: TokenUsage | None = None
        """Usage of the failed attempts; None for none."""

    async def listen(self, show: Callable[[Delta], Awaitable[None]]) -> LLMResponse:
        """Send the request once and read its answer, emitting each piece.

        Raises:
            LLMError: The answer was incomplete, or the model was silent for too long.
        """
        kit, request = self.kit, self.request
        self._assembler = assembler = Assembler()
        patience, begun = kit.timeouts.first_byte, False
        watch = kit.silence if kit.silence is not None and kit.silence.is_free else Interrupt()
        try:
            with watch as silence:
                silence.after(patience)
                stream = stream_of(kit.client, request.messages, request.tools, request.options)
                try:
                    async for delta in stream:
                        if begun and delta == NOTHING:
                            continue  # keep-alives are not progress
                        seen = assembler.feed(delta)
                        if seen.text or seen.tool_calls or seen.reasoning or seen.notice:
                            silence.deadline = 0.0  # a slow reader is not a silent server
                            await show(seen)
                        patience, begun = kit.timeouts.idle, True
                        silence.after(patience)
                finally:
                    await stream.aclose()
            if silence.fired:
                rest = "the rest" if begun else "the beginning"
                message = f"The server was silent for {patience:g} s; {rest} of its answer is missing."
                raise LLMError(message, kind="timeout")  # noqa: TRY301 - handled as any failed attempt
            if (held_back := assembler.flush()) != NOTHING:
                await show(held_back)
            response = assembler.finish()
        except Exception as error:
            self.break_off(error)
            raise
        return replace(response, origin=origin_of(kit.client)) if assembler.has_extra else response

    def break_off(self, error: BaseException) -> None:
        """Count the usage of the newest attempt, which failed."""
        tried, self._assembler = self._assembler, None
        spent = None if tried is None else spent_on(tried, error, self.prompt_tokens())
        if spent is not None:
            self._count(spent)
        if isinstance(error, LLMError):
            error.spent = self.spent

    def take(self, spent: TokenUsage | None) -> None:
        """Count the recorded usage of failed attempts of another process."""
        if self.spent is None and spent is not None:
            self._count(spent)

    def _count(self, spent: TokenUsage) -> None:
        self.spent = spent if self.spent is None else self.spent + spent
        self.state.count(spent, charge(spent, self.kit))

    def check_limits(self, error: BaseException) -> None:
        """Reject another attempt that exceeds the limits.

        Raises:
            LimitExceededError: It names the limit.
        """
        state, kit = self.state, self.kit
        checker = LimitChecker(kit.limits, state.ledger, kit.prompts, kit.clock, kit.budget)
        usage = self.next_usage() if state.ledger.tokens else TokenUsage.zero()  # always send the first
        exceeded = checker.exceeded_by(usage, model_of(kit.client))
        if exceeded is not None:
            exceeded.spent = self.spent
            raise exceeded from error

    def prompt_tokens(self) -> int:
        """Estimate the tokens of the request."""
        raise NotImplementedError

    def next_usage(self) -> TokenUsage:
        """Estimate the usage of the next attempt."""
        raise NotImplementedError


class _ModelCall(Tries):
    """One request and its retries."""

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self.request, self.state, self.kit = build_request(state, kit), state, kit
        self._assembler, self.spent = None, None
        self.parts = AnswerParts(state, kit)
        self.shown = False
        self._redactor = response_redactor(kit.redactor)
        self._partial: PartialOutput | None = None
        self._is_typed = kit.output is not None and is_typed(state, kit)
        self.step = state.step
        if self._is_typed:
            self._begin_typed()

    def _begin_typed(self) -> None:
        self._partial = None if self.kit.output is None else self.kit.output.partial()

    def prompt_tokens(self) -> int:
        return guess(self.state, self.request.tools)

    def next_usage(self) -> TokenUsage:
        return next_usage(self.state, self.kit)

    async def answer(self, key: str) -> LLMResponse:
        try:
            return await self.kit.journal.effect(key, self._run)
        except asyncio.CancelledError as error:
            partial = (self._assembler or Assembler()).partial()
            partial = partial if self._redactor is None else self._redactor.redact(partial)
            self.break_off(error)
            self.state.keep_partial(replace(partial, usage=None))  # counted
            await self.parts.end("error")
            raise
        except (LLMError, LimitExceededError) as error:
            self.take(error.spent)
            await self.parts.end("error")
            raise
        except Exception as error:
            self.break_off(error)
            await self.parts.end("error")
            if isinstance(error, SessionError):
                raise
            raise client_failure(error) from error

    def _run(self) -> Awaitable[LLMResponse]:
        handler = RetryHandler(self.kit.retry, self.kit.clock)
        return handler.execute(self._once, on_retry=self._on_retry)

    async def _on_retry(self, attempt: RetryAttempt) -> None:
        discard, self.shown = self.shown, False
        self.check_limits(attempt.error)
        self._redactor = response_redactor(self.kit.redactor)
        if self._is_typed:
            self._begin_typed()
        await self.parts.end("error")
        await tell_retry(attempt, self.state, self.kit, discard=discard)

    def _once(self) -> Awaitable[LLMResponse]:
        heard = self.listen(self._show)
        is_plain = self._redactor is None and not self._is_typed and self.spent is None
        return heard if is_plain else self._read(heard)

    async def _read(self, heard: Awaitable[LLMResponse]) -> LLMResponse:
        response = await heard
        if self._is_typed:
            response, text = answered(_with_meant_names(response, self.kit))
            await self._show(Delta(text))
        if self.spent is not None:
            response = replace(response, spent=self.spent)
        if self._redactor is None:
            return response
        await self._show_clean(self._redactor.flush())
        return self._redactor.redact(response)

    def _show(self, delta: Delta) -> Awaitable[None]:
        return self._show_clean(delta if self._redactor is None else self._redactor.feed(delta))

    async def _show_clean(self, delta: Delta) -> None:
        emit, step = self.kit.emit, self.step
        if delta.notice:
            await emit(Event.notice(step, delta.notice))
        if delta.reasoning and self.kit.emit_reasoning:
            self.shown = True
            await self.parts.write("reasoning", delta.reasoning)
            await emit(Event.reasoning_delta(step, delta.reasoning))
        if delta.text:
            self.shown = True
            await self.parts.write("text", delta.text)
            await emit(Event.text_delta(step, delta.text))
        for part in delta.tool_calls:
            self.shown = True
            arguments = part.arguments if isinstance(part.arguments, str) else ""
            await emit(Event.tool_call_delta(step, part.index, part.name, arguments))
        if self._partial is not None:
            for output in self._partial.feed(delta):
                await emit(Event.partial_output(step, output))


def client_failure(error: Exception) -> LLMError:
    """Wrap a client's exception that is not an `LLMError`."""
    return LLMError(f"The model client failed: {type(error).__name__}: {safe_str(error)}", error)


async def tell_retry(attempt: RetryAttempt, state: QueryState, kit: Kit, *, discard: bool) -> None:
    """Emit a retry event; with `discard`, the shown part of the answer is void."""
    reason = error_text(attempt.error)
    await kit.emit(Event.retry(state.step, attempt.attempt, attempt.delay, reason, discard))


def charge(usage: TokenUsage, kit: Kit) -> float:
    """Charge tokens and cost to the shared budget, at its own prices if set, and return the cost."""
    if kit.budget is None and not kit.limits.prices:
        return 0.0
    model = model_of(kit.client)
    own = price_for(kit.limits.prices, model)
    shared = None if kit.budget is None else price_for(kit.budget.prices, model)
    if kit.budget is not None:
        price = shared or own
        kit.budget.add(tokens=usage.total_tokens, cost=price.of(usage) if price else 0.0)
    price = own or shared
    return price.of(usage) if price else 0.0
