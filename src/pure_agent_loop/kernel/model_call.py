"""Request a model's next answer as one stream, with retries and a watchdog for silence."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import replace

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, LimitExceededError, LLMError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.answer_parts import AnswerParts
from pure_agent_loop.kernel.bind import write_facts
from pure_agent_loop.kernel.doom import note_answer
from pure_agent_loop.kernel.journal import DailyCosts
from pure_agent_loop.kernel.kit import Kit, compact_now, shorten
from pure_agent_loop.kernel.redacting import ResponseRedactor
from pure_agent_loop.kernel.request import (
    Request,
    build_request,
    guess,
    is_typed,
    next_usage,
    window_in_step,
)
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.limits import LimitChecker, group_name
from pure_agent_loop.llm.base import origin_of, stream_of
from pure_agent_loop.llm.control_tokens import meant_name
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.tokens import (
    LONGEST_TOKEN,
    estimate_message,
    is_plausible,
    usage_of,
    usage_of_partial,
)
from pure_agent_loop.llm.tool_modes.typed_answers import FINAL_RESULT, answered
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage, get
from pure_agent_loop.output.wanted import PartialOutput
from pure_agent_loop.retry import next_delay
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.explained import explain
from pure_agent_loop.support.language import model_text, notice
from pure_agent_loop.support.text import error_text, safe_str

_DAY = 86_400  # seconds per day; each UTC day begins at a multiple of this number
# A rejected request counts as too long above this share of the window, or above this number of tokens if the
# window is unknown.
SUSPECT_SHARE, SUSPECT_TOKENS = 0.5, 20_000
# A request was truncated if its estimate exceeds FULL_SHARE of the window and the server counted less than
# CUT_SHARE of the estimate.
FULL_SHARE, CUT_SHARE = 0.8, 0.5
SILENT, IMPLAUSIBLE = "silent_truncation", "implausible_usage"


# -- one step: the request, its response, and what the response changes in the state ---------------------


async def respond(step: Step) -> LLMResponse:
    """Request the next answer and add it to the state.

    A request that the server rejects as too long is shortened and sent once more.

    Raises:
        LLMError: The request failed. A partial answer is kept only if the run was cancelled.
    """
    state, kit = step.state, step.kit
    for key in ("model", "model:shortened"):
        call = ModelCall(step)
        if kit.prefix_watch is not None:
            kit.prefix_watch.requests = kit.prefix_watch.requests[1], call.request
        try:
            response = await call.answer(f"{step.number}:{key}")
            break
        except LLMError as error:
            await call.shorten_history(error)
    await call.take_in(response)
    repetition = note_answer(state.doom, response.content or "", kit.limits.doom_loop_threshold)
    if repetition.action == "stop" and not state.pending:
        state.must_close = "doom_loop"
    if kit.limits.max_tool_calls is not None or kit.budget is not None:
        _count_calls(step)
    if response.reasoning_content and kit.emit_reasoning:
        await kit.emit(Event.reasoning(step.number, response.reasoning_content))
    if response.content:
        await kit.emit(Event.thought(step.number, response.content))
    if state.pending:
        await step.open_parts()
    return response


def _count_calls(step: Step) -> None:
    """Count the calls against the limit; excess calls are denied without a question."""
    state, budget, limit = step.state, step.kit.budget, step.kit.limits.max_tool_calls
    granted = len(state.pending)
    if limit is not None:
        granted = min(granted, max(0, limit - state.ledger.tool_calls))
    if budget is not None:
        granted = budget.take_calls(granted)
    if too_many := state.pending[granted:]:
        state.permissions.refuse(too_many, model_text("no_calls_left"))


# -- the attempts of one request -------------------------------------------------------------------------


class Attempts(ABC):
    """Attempts to get a response. The usage of a failed attempt counts at once toward limits and budgets."""

    def __init__(self, request: Request, step: Step) -> None:
        self.state, self.kit = step.state, step.kit
        if self.kit.redactor is not None and self.kit.redactor.of_clients:
            known = request.messages, request.tools
            messages, tools = self.kit.redactor.without_others(known, self.kit.client)
            if messages is not known[0] or tools is not known[1]:
                request = request._replace(messages=messages, tools=tools)
        self.request, self.step = request, step
        self.assembler: Assembler | None = None
        """Response of the newest attempt so far; None once its usage is counted."""
        self.spent: TokenUsage | None = None
        """Usage of the failed attempts; None if none failed."""

    @abstractmethod
    def prompt_tokens(self) -> int:
        """Estimate the tokens of the request."""

    @abstractmethod
    def next_usage(self) -> TokenUsage:
        """Estimate the usage of the next attempt."""

    @abstractmethod
    def estimate(self, response: LLMResponse) -> TokenUsage:
        """Estimate the usage of a response whose server did not report it."""

    @abstractmethod
    def show(self, delta: Delta) -> Awaitable[None]:
        """Show a piece of the response."""

    async def finish(self, response: LLMResponse) -> LLMResponse:
        """Return the whole response in the form that the step uses."""
        return response

    async def change_model(self, delta: Delta) -> None:
        """Count the usage of a model that failed during its response, before another model continues.

        Raises:
            LimitExceededError: Another request would exceed a limit.
        """
        if delta.spent is not None:
            self._count(delta.spent)
        if delta.served is not None and self.spent is not None:
            self.check_limits(None)

    async def discard(self) -> bool:
        """Discard the failed attempt; return True if a piece of it was shown."""
        return False

    async def run(self) -> LLMResponse:
        """Send the request until an attempt succeeds, as the retry policy allows.

        Raises:
            LimitExceededError: Another attempt would exceed a limit.
            Exception: The error of the last attempt, unchanged.
        """
        clock, retries, limits = self.kit.clock, 0, self.kit.limits
        personal, by_key = limits.max_cost_per_person_per_day, limits.max_cost_per_day_by
        has_day_limits = bool(limits.max_cost_per_day is not None or personal is not None or by_key)
        while True:
            if has_day_limits:
                await self.check_day()
            try:
                return await self.attempt()
            except Exception as error:
                retries += 1
                delay = next_delay(self.kit.retry, retries, error, clock.random())
                if delay is None:
                    raise
                self.check_limits(error)
                shown = await self.discard()
                status = error.status if isinstance(error, LLMError) else None
                retry = Event.retry(
                    self.step.number,
                    retries,
                    delay,
                    error_text(error),
                    shown,
                    attempts=self.kit.retry.max_retries + 1,
                    status=status,
                    said=error.said if status and isinstance(error, LLMError) else "",
                    title=explain(error).title,
                )
                await self.kit.emit(retry)
            await clock.sleep(delay)

    async def attempt(self) -> LLMResponse:
        """Send the request once and read its answer, showing each piece.

        Raises:
            LLMError: The answer was incomplete, or the model sent nothing for too long.
        """
        kit, request = self.kit, self.request
        self.assembler = assembler = Assembler(splits_thinking=getattr(kit.client, "thinks_in_text", True))
        patience, begun = kit.timeouts.first_byte, False
        watch = kit.silence if kit.silence is not None and kit.silence.is_free else Interrupt()
        try:
            with watch as silence:
                silence.after(patience)
                options = {**request.options, **kit.client_options}
                stream = stream_of(kit.client, request.messages, request.tools, options)
                try:
                    async for delta in stream:
                        if begun and delta == NOTHING:
                            continue  # keep-alives are not progress
                        seen = assembler.feed(delta)
                        silence.deadline = 0.0  # a slow reader does not mean a silent server
                        if delta.served is not None or delta.spent is not None:
                            await self.change_model(seen)
                        if seen.text or seen.tool_calls or seen.reasoning or seen.notice:
                            await self.show(seen)
                        if begun is not assembler.has_begun:  # a notice or a change of model does not set it
                            begun = assembler.has_begun
                            patience = kit.timeouts.idle if begun else kit.timeouts.first_byte
                        silence.after(patience)
                finally:
                    await stream.aclose()
            if silence.fired:
                rest = "the rest" if begun else "the beginning"
                problem = f"The server was silent for {patience:g} s; {rest} of its answer is missing."
                raise LLMError(problem, kind="timeout")  # noqa: TRY301 - handled as any failed attempt
            if (held_back := assembler.flush()) != NOTHING:
                await self.show(held_back)
            response = assembler.finish()
        except Exception as error:
            self.break_off(error)
            raise
        response = await self._with_cost(response, assembler)
        if assembler.has_extra:
            origin = response.served[-1].origin if response.served else origin_of(kit.client)
            response = replace(response, origin=origin)
        return await self.finish(response)

    async def _with_cost(self, response: LLMResponse, assembler: Assembler) -> LLMResponse:
        """Return a response with its cost, which is recorded because prices change."""
        known = response.usage or assembler.refused_usage
        if known is not None and (
            known is not response.usage
            or response.tool_calls  # with arguments
            or (known.completion_tokens + 1) * LONGEST_TOKEN
            < len(response.content or "") + len(response.reasoning_content or "")
        ):
            response = await self._with_plausible_usage(response, known, assembler.written())
        usage = self.kit.priced(self._usage_of(response))
        return response if usage is response.usage else replace(response, usage=usage)

    async def _with_plausible_usage(
        self, response: LLMResponse, usage: TokenUsage, written: str
    ) -> LLMResponse:
        """Drop an implausible usage report from a response; send a notice, once per run."""
        if usage is response.usage and is_plausible(usage, written):
            return response
        if IMPLAUSIBLE not in (tracking := self.state.auto_compact_tracking):
            tracking[IMPLAUSIBLE] = {"acted": 1, "saved": 0}
            numbers = {"tokens": usage.completion_tokens, "letters": len(written)}
            await self.show(Delta(notice=notice("library.usage_implausible", **numbers)))
        return replace(response, usage=None)

    def _usage_of(self, response: LLMResponse) -> TokenUsage:
        """Return the usage of a response, with the model that served it; estimated if none was reported."""
        usage = response.usage or self.estimate(response)
        return usage.of_model(response.served[-1].model) if response.served else usage

    def break_off(self, error: BaseException) -> None:
        """Count the usage of the newest attempt, which failed; zero if the server did no work."""
        assembler, self.assembler = self.assembler, None
        failure = error if isinstance(error, LLMError) else None
        if assembler is not None and not assembler.is_settled:
            is_silence = failure is not None and failure.kind == "timeout" and failure.original_error is None
            if assembler.has_begun or is_silence or isinstance(error, asyncio.CancelledError):
                known = assembler.partial().usage
                usage = usage_of_partial(known, self.prompt_tokens(), assembler.written())
                usage = usage.of_model(assembler.served[-1].model) if assembler.served else usage
                self._count(self.kit.priced(usage))
        if failure is not None:
            failure.spent = self.spent

    def take(self, spent: TokenUsage | None) -> None:
        """Count the recorded usage of attempts that failed in an earlier process."""
        if self.spent is None and spent is not None:
            self._count(spent)

    def _count(self, spent: TokenUsage) -> None:
        spent = self.kit.charge(spent)
        self.spent = spent if self.spent is None else self.spent + spent
        self.state.count(spent)

    def check_limits(self, error: BaseException | None) -> None:
        """Reject another attempt that exceeds the limits.

        Raises:
            LimitExceededError: A limit is exceeded; the message names it.
        """
        state, kit = self.state, self.kit
        checker = LimitChecker(kit.limits, state.ledger, kit.prompts, kit.clock, kit.budget)
        first = not state.ledger.tokens  # the first attempt is always sent
        usage = TokenUsage.zero() if first else kit.priced(self.next_usage())
        exceeded = checker.exceeded_by(usage, kit.model)
        if exceeded is not None:
            exceeded.spent = self.spent
            raise exceeded from error

    async def check_day(self) -> None:
        """Reject a request if the cost limit of the day has been reached.

        Raises:
            LimitExceededError: The limit has been reached; the message names the limit and the start of the
                next day.
        """
        kit, limits = self.kit, self.kit.limits.day_limits
        journal = as_protocol(kit.journal, DailyCosts)
        if journal is None:
            raise ConfigError(notice("library.day_needs_session"))
        now = kit.clock.now()
        groups = {key: group_name(kit.metadata.get(key)) for key, _ in limits.values()}
        totals = await journal.spent_on_day(now, groups)
        for name, (key, maximum) in limits.items():
            spent = totals[key]
            if spent >= maximum:
                note = notice("library.day_limit", name=name, hours=(_DAY - now % _DAY) / 3600)
                message = notice("library.day_spent", note=note, spent=f"{spent:g}", most=f"{maximum:g}")
                failure = LimitExceededError("budget", maximum, spent, message)
                failure.note = note
                failure.spent = self.spent
                raise failure


class ModelCall(Attempts):
    """The request of a step: emits its response as it arrives, and adds it to the state."""

    def __init__(self, step: Step) -> None:
        super().__init__(build_request(step.state, step.kit), step)
        self.state.offered = self.request.tools or self.state.offered
        self.parts = AnswerParts(step)
        self.shown = False
        """True if a piece of the newest attempt was shown."""
        self._is_typed = step.kit.output is not None and is_typed(step.state, step.kit)
        self._redactor: ResponseRedactor | None = None
        self._partial: PartialOutput | None = None
        self._begin_response()

    def _begin_response(self) -> None:
        """Prepare to redact the next response, and to read it as a typed answer."""
        redactor, output = self.kit.redactor, self.kit.output
        if redactor is not None and not redactor.is_empty:
            self._redactor = ResponseRedactor(redactor)
        if output is not None and self._is_typed:
            self._partial = output.partial()

    async def _explain_miss(self) -> None:
        """If a change of the prefix made the server's cache miss, send a notice that names the cause."""
        watch = self.kit.prefix_watch
        change = None if watch is None else watch.cause(self.state.rewritten)
        if change is not None:
            await self.kit.emit(Event.notice(self.step.number, change.words()))

    def prompt_tokens(self) -> int:
        """Estimate the tokens of the request."""
        return guess(self.state, self.request.tools)

    def next_usage(self) -> TokenUsage:
        """Estimate the usage of the next attempt."""
        return next_usage(self.state, self.kit)

    def estimate(self, response: LLMResponse) -> TokenUsage:
        """Estimate the usage of a response whose server did not report it."""
        return usage_of(guess(self.state, None), response)

    async def answer(self, key: str) -> LLMResponse:
        """Return the response, or the one that the journal has recorded under `key`.

        Raises:
            LLMError: The request failed.
        """
        try:
            return await self.kit.journal.effect(key, self.run)
        except asyncio.CancelledError as error:
            partial = (self.assembler or Assembler()).partial()
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

    async def finish(self, response: LLMResponse) -> LLMResponse:
        """Return a whole response, redacted, with a typed answer as its text."""
        if self._is_typed:
            response, text = answered(_with_meant_names(response, self.kit))
            await self.show(Delta(text))
        if self.spent is not None:
            response = replace(response, spent=self.spent)
        if self._redactor is None:
            return response
        await self._show(self._redactor.flush())
        return self._redactor.redact(response)

    async def discard(self) -> bool:
        """Discard the failed attempt; return True if a piece of it was shown."""
        shown, self.shown = self.shown, False
        self._begin_response()
        await self.parts.end("error")
        return shown

    async def change_model(self, delta: Delta) -> None:
        """Count the usage of a model that failed, and discard displayed text that is not kept."""
        await super().change_model(delta)
        if delta.served is None:
            return
        if not delta.served.start and await self.discard():
            await self.kit.emit(Event.retry(self.step.number, 1, 0.0, delta.notice, discard=True))
        elif self._partial is not None and self.kit.output is not None and self.assembler is not None:
            self._partial = self.kit.output.partial()  # start over without the calls of the failed model
            if self._partial is not None:
                self._partial.feed(Delta(self.assembler.partial().content or ""))

    def show(self, delta: Delta) -> Awaitable[None]:
        """Show a piece of the response, redacted."""
        return self._show(delta if self._redactor is None else self._redactor.feed(delta))

    async def _show(self, delta: Delta) -> None:
        emit, step = self.kit.emit, self.step.number
        if delta.notice:
            served = delta.served
            details = {} if served is None else {"model": served.model, "start": served.start}
            await emit(Event.notice(step, delta.notice, **details))
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
            await self.parts.end("completed")
            arguments = part.arguments if isinstance(part.arguments, str) else ""
            await emit(Event.tool_call_delta(step, part.index, part.name, arguments))
        if self._partial is not None:
            for output in self._partial.feed(delta):
                await emit(Event.partial_output(step, output))

    async def take_in(self, response: LLMResponse) -> None:
        """Add the response to the state, and count its tokens."""
        if self.parts.open is not None:
            await self.parts.end("completed")
        state, kit = self.state, self.kit
        estimate = self.prompt_tokens()
        usage = response.usage
        if usage is not None and not usage.estimated and 0 < usage.prompt_tokens < CUT_SHARE * estimate:
            await self._note_cut(response, usage.prompt_tokens, estimate)
        is_single = response.raw is None or is_of_one_request(response)
        usage = kit.charge(self._usage_of(response) if usage is None or response.served else usage)
        if is_single and usage.cached_tokens is not None:
            usage = usage.with_missed(state.context.prompt)
            if usage.cache_missed_tokens:
                await self._explain_miss()
        state.step_usage = usage
        for call in response.tool_calls:
            # The model may have added control tokens or a namespace to the name.
            if "<" in call.name or "." in call.name or "[" in call.name:
                response = _with_meant_names(response, kit)
                break
        if response.spent is not None:
            self.take(response.spent)
        before = len(state.messages)
        offered = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds or not kit.tools
        state.add_response(response, usage, tools_offered=offered)
        if is_single:
            state.context.note(usage, estimate, len(state.messages), kept=len(state.messages) > before)

    # -- overflow: a request that is too long after all --------------------------------------------------

    async def shorten_history(self, error: LLMError) -> None:
        """Shorten the history, once per step, if the request was too long; otherwise raise the error."""
        state, kit = self.state, self.kit
        state.window = 0  # look up the window again: the client may have learned it from the error
        overflow = self._as_overflow(error)
        if overflow is None:
            raise error
        before = sum(map(estimate_message, state.messages))
        if not state.has_attempted_reactive_compact:
            state.has_attempted_reactive_compact = True
            await shorten(compact_now(kit.compactor, state), state, kit)
            if kit.facts is not None and state.facts_due:
                await write_facts(state, kit.facts, kit.journal, compacted=True)
        if sum(map(estimate_message, state.messages)) >= before:
            tokens, window = self.prompt_tokens(), window_in_step(state, kit) or 0
            sizes = (tokens, window) if tokens > window > 0 else None
            overflow.about = {"sizes": sizes, **(overflow.about or {})}
            raise overflow from error.__cause__
        state.answers += 1  # so that the parts of the next attempt get different ids
        title = explain(overflow).title
        await kit.emit(Event.retry(self.step.number, 1, 0.0, safe_str(overflow), self.shown, title=title))

    def _as_overflow(self, error: LLMError) -> LLMError | None:
        """Return the error as kind ``context_overflow``; None if the request was not too long.

        Some servers reject a request that is too long with an empty body. A short request with an empty body
        was rejected for another reason.
        """
        if error.kind == "context_overflow":
            return error
        body = getattr(error.original_error, "body", error.message)
        is_bare = not body or (isinstance(body, str) and not body.strip())
        if error.kind != "bad_request" or error.status != 400 or not is_bare:
            return None
        tokens, window = self.prompt_tokens(), window_in_step(self.state, self.kit)
        if tokens <= (SUSPECT_TOKENS if window is None else SUSPECT_SHARE * window):
            return None
        problem = (
            f"{error.message} The server gives no reason. The request has about {tokens} tokens and is "
            "probably longer than the model's context window."
        )
        overflow = LLMError(problem, error.original_error, kind="context_overflow", status=error.status)
        overflow.about = error.about
        return overflow

    async def _note_cut(self, response: LLMResponse, counted: int, estimate: int) -> None:
        """Send a notice, once per run, if a low token count shows that the server truncated the request."""
        tracking, window = self.state.auto_compact_tracking, window_in_step(self.state, self.kit)
        is_full = window is not None and estimate > FULL_SHARE * window
        if not is_full or SILENT in tracking or not is_of_one_request(response):
            return
        tracking[SILENT] = {"acted": 1, "saved": 0}
        await self.step.notify(
            f"The server counted {counted} tokens in a request of about {estimate}: it seems to "
            "drop the beginning of long requests silently. Set the real size with context_window=..., "
            "or start the server with a larger window."
        )


def is_of_one_request(response: LLMResponse) -> bool:
    """True if the response took a single request: the usage of several does not show the history's length."""
    requests = get(response.raw, "requests")
    return not isinstance(requests, int) or requests <= 1


def client_failure(error: Exception) -> LLMError:
    """Wrap a client's exception that is not an `LLMError`."""
    return LLMError(f"The model client failed: {type(error).__name__}: {safe_str(error)}", error)


def _with_meant_names(response: LLMResponse, kit: Kit) -> LLMResponse:
    def known(name: str) -> object:
        return name == FINAL_RESULT or kit.tools.get(name)

    calls = [replace(call, name=meant_name(call.name, known)) for call in response.tool_calls]
    return replace(response, tool_calls=calls)
