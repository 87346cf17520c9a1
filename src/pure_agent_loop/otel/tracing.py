"""Spans of runs, requests and calls.

A run is watched around its loop, a request and a call where they happen: in the effects of the journal. So
what is only read from a record is no span, and no span is held open by a generator. Parents are found by
OpenTelemetry's own context, which a call, its thread and what it begins inherit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opentelemetry import context, metrics, trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.otel import names
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import clean_text, safe_str, to_jsonable
from pure_agent_loop.tool import ToolOutcome

LOG = logging.getLogger("pure_agent_loop.otel")
T = TypeVar("T")
Drive = Callable[[QueryState, Kit], Awaitable[None]]
_CONTEXT = TraceContextTextMapPropagator()
_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA)
_WATCHED = ("model", "summary", "memory", "tool")  # the effects that are spans, by their keys
_WRITES = ":write"  # how the key of one ends that is none


def is_on() -> bool:
    """Whether somebody has configured a provider; those of the API itself do nothing."""
    given = (trace.get_tracer_provider(), "trace"), (metrics.get_meter_provider(), "metrics")
    return any(not type(each).__module__.startswith(f"opentelemetry.{own}") for each, own in given)


class Tracing:
    """Watches runs; see `runs.tracing`.

    Args:
        content: Whether what was said is sent too.
    """

    def __init__(self, *, content: bool) -> None:
        self.content = content
        self.tracer = trace.get_tracer(names.SCOPE, __version__)
        meter = metrics.get_meter(names.SCOPE, __version__)
        self.record: dict[names.Metric, Callable[..., None]] = {}
        for each in names.METRICS:
            about, bounds = (each.name, each.unit, each.about), each.bounds or None
            self.record[each] = (
                meter.create_histogram(*about, explicit_bucket_boundaries_advisory=bounds).record
                if bounds
                else meter.create_counter(*about).add
            )

    def carrier(self) -> Mapping[str, str]:
        """Where we are."""
        found: dict[str, str] = {}
        _CONTEXT.inject(found)
        return found

    async def watch(self, drive: Drive, state: QueryState, kit: Kit) -> None:
        """Drive a run in a span of its own, if there is somebody to send it to."""
        if not is_on():
            await drive(state, kit)
            return
        run, parent, before = _Run(self, state, kit), parent_of(kit.metadata), state.usage
        about = {**run.model, **({names.AGENT: kit.name} if kit.name else {})}
        with run.span(names.INVOKE_AGENT, kit.name, about, parent) as (span, end):
            await drive(state, replace(kit, journal=run, emit=run.emit))
            used = state.usage
            end[names.INPUT_TOKENS] = used.prompt_tokens - before.prompt_tokens
            end[names.OUTPUT_TOKENS] = used.completion_tokens - before.completion_tokens
            if state.stop_reason in ("error", "invalid_output"):
                run.fail(span, end, state.failure)


def parent_of(metadata: Mapping[str, Any]) -> context.Context | None:
    """The trace that a run was submitted in, if it does not already go on in one."""
    if trace.get_current_span().get_span_context().is_valid:
        return None
    carried = {key: value for key, value in metadata.items() if isinstance(value, str)}
    return _CONTEXT.extract(carried)


class _Run:
    """One run that is watched. It stands in the place of the run's journal and of its way out for events."""

    def __init__(self, tracing: Tracing, state: QueryState, kit: Kit) -> None:
        self._tracing, self._state = tracing, state
        self._journal, self._emit = kit.journal, kit.emit
        self._redactor = kit.redactor or Redactor()
        # Hooks that look at results may keep something back, and have not seen what a call gives.
        self._tells_results = tracing.content and not kit.hooks.after_tool
        self._made: dict[str, int] = {}  # spans, by their operation
        self._asked = 0.0  # when a request was sent of which nothing has come yet
        self._first = 0.0  # seconds until something came of the last one
        client: Any = getattr(kit.client, "inner", kit.client)
        model = kit.options.get("model") or getattr(kit.client, "model", "")
        host, port = _tried(_place_of, client) or ("", 0)
        found = (provider for part, provider in names.PROVIDERS.items() if part in host)
        self.model: dict[str, Any] = {names.PROVIDER: next(found, names.OPENAI)}
        self.model |= {names.REQUEST_MODEL: str(model)} if model else {}
        self.model |= {names.CONVERSATION: state.session_id} if state.session_id else {}
        if host:
            self.model |= {names.ADDRESS: host, names.PORT: port}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)  # all of a journal but its effects

    # -- spans ------------------------------------------------------------------------------------------

    @contextmanager
    def span(
        self, operation: str, what: str, about: Mapping[str, Any], parent: context.Context | None = None
    ) -> Any:
        """A span around what one coroutine awaits, and never around a `yield` of an async generator."""
        attributes = {names.OPERATION: operation, **about}
        start = self._tracing.tracer.start_span
        kind = SpanKind.CLIENT if operation == names.CHAT else SpanKind.INTERNAL
        span = _tried(start, clean_text(f"{operation} {what}".strip()), parent, kind, _clean(attributes))
        span = INVALID_SPAN if span is None else span
        token, begun = context.attach(trace.set_span_in_context(span, parent)), time.monotonic()
        end: dict[str, Any] = {}
        try:
            yield span, end
        except asyncio.CancelledError:  # somebody stopped it; a call may have taken too long
            if operation == names.EXECUTE_TOOL:
                self.fail(span, end, "cancelled")
            raise
        except BaseException as error:
            self.fail(span, end, error)
            raise
        finally:
            context.detach(token)
            span.set_attributes(_clean(end))
            _tried(span.end)
            _tried(self._measure, operation, _clean(attributes), end, time.monotonic() - begun)

    def fail(self, span: Span, end: dict[str, Any], error: object) -> None:
        """It has failed. What the error says may hold what was said, so only its kind is sent."""
        kind = error if isinstance(error, str) else type(error).__name__
        end[names.ERROR] = error.kind if isinstance(error, LLMError) else kind
        span.set_status(Status(StatusCode.ERROR))

    def _measure(
        self, operation: str, about: Mapping[str, Any], end: Mapping[str, Any], seconds: float
    ) -> None:
        labels = {name: about[name] for name in names.LABELS if name in about}
        record, self._made[operation] = self._tracing.record, self._made.get(operation, 0) + 1
        which = {names.CHAT: names.DURATION, names.EXECUTE_TOOL: names.TOOL_TIME}
        failed = {names.ERROR: end[names.ERROR]} if names.ERROR in end else {}
        record[which.get(operation, names.AGENT_TIME)](seconds, {**labels, **failed})
        if operation == names.INVOKE_AGENT:
            record[names.CHATS](self._made.get(names.CHAT, 0), labels)
            record[names.CALLS](self._made.get(names.EXECUTE_TOOL, 0), labels)
        elif operation == names.CHAT:
            kinds = {**labels, names.MODALITY: names.UNKNOWN}
            for name in names.SPENT.keys() & end:
                record[names.SPENT[name]](end[name], kinds)
            for name in names.SPREAD.keys() & end:
                record[names.SPREAD[name]](end[name], labels)
            if names.FIRST_CHUNK in end:
                record[names.CHUNK_TIME](end[names.FIRST_CHUNK], labels)

    # -- requests and calls -----------------------------------------------------------------------------

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """See `kernel.journal.Journal`: what happens is watched, what is only recorded is not."""
        kind = key.split(":")[1] if ":" in key else ""

        async def watched() -> T:
            if kind == "tool":
                return await self._call(key, run, about or {})
            return await self._chat(run)

        return await self._journal.effect(
            key, watched if kind in _WATCHED and not key.endswith(_WRITES) else run, about
        )

    async def emit(self, event: Event) -> None:
        """Look at an event on its way out."""
        if self._asked and event.type in _PIECES:
            self._first, self._asked = time.monotonic() - self._asked, 0.0
        if event.type is EventType.RETRY:
            trace.get_current_span().add_event(names.RETRY, {names.RETRY_ATTEMPT: event.data["attempt"]})
        await self._emit(event)  # type: ignore[arg-type] # every event is one of the union

    async def _chat(self, run: Callable[[], Awaitable[T]]) -> T:
        model = self.model.get(names.REQUEST_MODEL, "")
        with self.span(names.CHAT, model, {**self.model, names.STREAM: True}) as (span, end):
            if self._tracing.content:
                span.set_attributes(_tried(self._said) or {})
            self._asked, self._first = time.monotonic(), 0.0
            found = await run()
            end.update({names.FIRST_CHUNK: self._first} if self._first else {})
            if isinstance(found, LLMResponse):
                end.update(_usage(found.usage))
                end[names.FINISH_REASONS] = [found.finish_reason or "stop"]
                if self._tracing.content:
                    end[names.OUTPUT_MESSAGES] = self._json([_answer(found)])
            return found

    async def _call(self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any]) -> T:
        call_id, tool = key.split(":", 2)[2], str(about.get("tool", ""))
        known = {names.TOOL: tool, names.TOOL_CALL: call_id, names.TOOL_TYPE: "function"}
        with self.span(names.EXECUTE_TOOL, tool, known) as (span, end):
            if self._tracing.content:
                span.set_attribute(names.ARGUMENTS, self._json(about.get("args")))
            found = await run()
            if isinstance(found, ToolOutcome):
                if found.is_error:
                    self.fail(span, end, "tool_error")
                if self._tells_results:
                    end[names.RESULT] = self._redactor.redact(found.text)
            return found

    # -- what was said ----------------------------------------------------------------------------------

    def _said(self) -> dict[str, str]:
        system = [{"type": "text", "content": self._state.system_prompt}]
        return {
            names.INSTRUCTIONS: self._json(system),
            names.INPUT_MESSAGES: self._json([_message(each) for each in self._state.messages]),
        }

    def _json(self, value: Any) -> str:
        return self._redactor.redact(json.dumps(to_jsonable(value), ensure_ascii=False))


def _tried(do: Callable[..., T], *given: Any) -> T | None:
    """What comes of it; None if it fails: a run does not end because nobody can hear of it."""
    try:
        return do(*given)
    except Exception as error:  # noqa: BLE001 - processors, exporters and views are of others
        LOG.warning("Something of a trace is lost: %s: %s", type(error).__name__, safe_str(error))
        return None


def _place_of(client: Any) -> tuple[str, int]:
    place = urlsplit(str(getattr(client, "base_url", "") or ""))
    return place.hostname or "", place.port or (443 if place.scheme == "https" else 80)


def _clean(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Half of a letter would lose a whole batch of spans: no exporter can write it."""
    return {name: clean_text(each) if isinstance(each, str) else each for name, each in attributes.items()}


def _usage(usage: TokenUsage | None) -> dict[str, int]:
    if usage is None or usage.estimated:
        return {}
    found = {names.INPUT_TOKENS: usage.prompt_tokens, names.OUTPUT_TOKENS: usage.completion_tokens}
    more = {names.CACHED_TOKENS: usage.cached_tokens, names.REASONING_TOKENS: usage.reasoning_tokens}
    return found | {name: count for name, count in more.items() if count is not None}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role, content = str(message.get("role")), message.get("content")
    if role == "tool":
        answer = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}
        return {"role": role, "parts": [answer]}
    texts = [each.get("text") for each in content] if isinstance(content, list) else [content]
    parts: list[dict[str, Any]] = [{"type": "text", "content": each} for each in texts if each]
    return {"role": role, "parts": [*parts, *_calls(message.get("tool_calls") or ())]}


def _calls(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = [(each.get("id"), each.get("function") or {}) for each in calls]
    return [
        {"type": "tool_call", "id": number, "name": each.get("name"), "arguments": each.get("arguments")}
        for number, each in found
    ]


def _answer(response: LLMResponse) -> dict[str, Any]:
    calls = [
        {"id": each.id, "function": {"name": each.name, "arguments": each.arguments}}
        for each in response.tool_calls
    ]
    found = _message({"role": "assistant", "content": response.content, "tool_calls": calls})
    return {**found, "finish_reason": response.finish_reason or "stop"}
