"""Spans and metrics of runs, requests and calls.

A run's span surrounds the loop; request and call spans surround the journal's effects. Effects that are read
from records therefore get no span, and no span is held open across a `yield`. The parent span comes from
OpenTelemetry's context, even in a call's threads and subagents.
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
RunLoop = Callable[[QueryState, Kit], Awaitable[None]]
_CONTEXT = TraceContextTextMapPropagator()
_DELTAS = (EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA)
_TRACED = ("model", "summary", "memory", "tool")  # effects that get a span, by the second part of their key
_WRITES = ":write"  # effects with this key suffix get no span


def is_on() -> bool:
    """Return True if a provider is configured. The API's default providers do nothing."""
    providers = (trace.get_tracer_provider(), "trace"), (metrics.get_meter_provider(), "metrics")
    return any(
        not type(provider).__module__.startswith(f"opentelemetry.{name}") for provider, name in providers
    )


class Tracing:
    """Traces runs; see `runs.tracing`.

    Args:
        content: True to record messages, arguments and results.
    """

    def __init__(self, *, content: bool) -> None:
        self.content = content
        self.tracer = trace.get_tracer(names.SCOPE, __version__)
        meter = metrics.get_meter(names.SCOPE, __version__)
        self.record: dict[names.Metric, Callable[..., None]] = {}
        for metric in names.METRICS:
            args, bounds = (metric.name, metric.unit, metric.description), metric.bounds or None
            self.record[metric] = (
                meter.create_histogram(*args, explicit_bucket_boundaries_advisory=bounds).record
                if bounds
                else meter.create_counter(*args).add
            )

    def carrier(self) -> Mapping[str, str]:
        """Return the current trace context as headers."""
        headers: dict[str, str] = {}
        _CONTEXT.inject(headers)
        return headers

    async def watch(self, drive: RunLoop, state: QueryState, kit: Kit) -> None:
        """Execute a run in a span if a provider is configured."""
        if not is_on():
            await drive(state, kit)
            return
        run, parent, before = _TracedRun(self, state, kit), parent_of(kit.metadata), state.usage
        paid = state.ledger.cost
        attributes = {**run.model, **({names.AGENT: kit.name} if kit.name else {})}
        with run.span(names.INVOKE_AGENT, kit.name, attributes, parent) as (span, end):
            await drive(state, replace(kit, journal=run, emit=run.emit))
            used = state.usage
            end[names.INPUT_TOKENS] = used.prompt_tokens - before.prompt_tokens
            end[names.OUTPUT_TOKENS] = used.completion_tokens - before.completion_tokens
            if used.cost is not None:
                end[names.COST] = state.ledger.cost - paid
            if state.stop_reason in ("error", "invalid_output"):
                run.fail(span, end, state.failure)


def parent_of(metadata: Mapping[str, Any]) -> context.Context | None:
    """Return the trace context in a run's metadata, unless the run is already in a trace."""
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return _CONTEXT.extract({key: value for key, value in metadata.items() if isinstance(value, str)})


class _TracedRun:
    """Traces one run, in place of the run's own journal and `emit`."""

    def __init__(self, tracing: Tracing, state: QueryState, kit: Kit) -> None:
        self._tracing, self._state = tracing, state
        self._journal, self._emit = kit.journal, kit.emit
        self._redactor = kit.redactor or Redactor()
        # after_tool hooks may remove parts of a result, but the span would contain the original.
        self._records_results = tracing.content and not kit.hooks.after_tool
        self._counts: dict[str, int] = {}  # number of spans by operation
        self._requested = 0.0  # time at which the current request was sent; 0 after the first chunk
        self._first_chunk = 0.0  # seconds to the first chunk of the last response
        client: Any = getattr(kit.client, "inner", kit.client)
        model = kit.options.get("model") or getattr(kit.client, "model", "")
        host, port = _try(_server_of, client) or ("", 0)
        providers = (provider for part, provider in names.PROVIDERS.items() if part in host)
        self.model: dict[str, Any] = {names.PROVIDER: next(providers, names.OPENAI)}
        self.model |= {names.REQUEST_MODEL: str(model)} if model else {}
        self.model |= {names.CONVERSATION: state.session_id} if state.session_id else {}
        if host:
            self.model |= {names.ADDRESS: host, names.PORT: port}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)  # forward everything except `effect`

    # -- spans ------------------------------------------------------------------------------------------

    @contextmanager
    def span(
        self, operation: str, name: str, extra: Mapping[str, Any], parent: context.Context | None = None
    ) -> Any:
        """Open a span. Use it only around awaits in one coroutine, never around a `yield`."""
        attributes = {names.OPERATION: operation, **extra}
        start = self._tracing.tracer.start_span
        kind = SpanKind.CLIENT if operation == names.CHAT else SpanKind.INTERNAL
        span = _try(start, clean_text(f"{operation} {name}".strip()), parent, kind, _clean(attributes))
        span = INVALID_SPAN if span is None else span
        token, start_time = context.attach(trace.set_span_in_context(span, parent)), time.monotonic()
        end: dict[str, Any] = {}
        try:
            yield span, end
        except asyncio.CancelledError:  # the run was cancelled, or a call reached its timeout
            if operation == names.EXECUTE_TOOL:
                self.fail(span, end, "cancelled")
            raise
        except BaseException as error:
            self.fail(span, end, error)
            raise
        finally:
            context.detach(token)
            span.set_attributes(_clean(end))
            _try(span.end)
            _try(self._measure, operation, _clean(attributes), end, time.monotonic() - start_time)

    def fail(self, span: Span, end: dict[str, Any], error: object) -> None:
        """Mark a span as failed.

        Only the error's kind is recorded, because its message may contain content.
        """
        kind = error if isinstance(error, str) else type(error).__name__
        end[names.ERROR] = error.kind if isinstance(error, LLMError) else kind
        span.set_status(Status(StatusCode.ERROR))

    def _measure(
        self, operation: str, attributes: Mapping[str, Any], end: Mapping[str, Any], seconds: float
    ) -> None:
        known = {**attributes, **end}
        labels = {name: known[name] for name in names.LABELS if name in known}
        record, self._counts[operation] = self._tracing.record, self._counts.get(operation, 0) + 1
        durations = {names.CHAT: names.DURATION, names.EXECUTE_TOOL: names.TOOL_TIME}
        error = {names.ERROR: end[names.ERROR]} if names.ERROR in end else {}
        record[durations.get(operation, names.AGENT_TIME)](seconds, {**labels, **error})
        if operation == names.INVOKE_AGENT:
            record[names.CHATS](self._counts.get(names.CHAT, 0), labels)
            record[names.CALLS](self._counts.get(names.EXECUTE_TOOL, 0), labels)
        elif operation == names.CHAT:
            kinds = {**labels, names.MODALITY: names.UNKNOWN}
            for name in names.TOTALS.keys() & end:
                record[names.TOTALS[name]](end[name], kinds)
            for name in names.DISTRIBUTIONS.keys() & end:
                record[names.DISTRIBUTIONS[name]](end[name], labels)
            if names.FIRST_CHUNK in end:
                record[names.CHUNK_TIME](end[names.FIRST_CHUNK], labels)

    # -- requests and calls -----------------------------------------------------------------------------

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """See `kernel.journal.Journal`. Only executed effects are traced, not effects read from records."""
        kind = key.split(":")[1] if ":" in key else ""

        async def traced() -> T:
            if kind == "tool":
                return await self._call(key, run, about or {})
            return await self._chat(run, self._state.context.prompt if kind == "model" else 0)

        return await self._journal.effect(
            key, traced if kind in _TRACED and not key.endswith(_WRITES) else run, about
        )

    async def emit(self, event: Event) -> None:
        """Record the first delta and retries, then emit the event."""
        if self._requested and event.type in _DELTAS:
            self._first_chunk, self._requested = time.monotonic() - self._requested, 0.0
        if event.type is EventType.RETRY:
            trace.get_current_span().add_event(names.RETRY, {names.RETRY_ATTEMPT: event.data["attempt"]})
        await self._emit(event)  # type: ignore[arg-type] # every event is in the union

    async def _chat(self, run: Callable[[], Awaitable[T]], previous: int) -> T:
        """Trace a request; `previous` is the number of prompt tokens in the run's previous request."""
        model = self.model.get(names.REQUEST_MODEL, "")
        with self.span(names.CHAT, model, {**self.model, names.STREAM: True}) as (span, end):
            if self._tracing.content:
                span.set_attributes(_try(self._input) or {})
            self._requested, self._first_chunk = time.monotonic(), 0.0
            response = await run()
            end.update({names.FIRST_CHUNK: self._first_chunk} if self._first_chunk else {})
            if isinstance(response, LLMResponse):
                end.update(_usage(response.usage and response.usage.with_missed(previous)))
                if response.usage is not None and response.usage.cost is not None:
                    end[names.COST] = response.usage.cost
                if response.served:
                    end[names.RESPONSE_MODEL] = response.served[-1].model
                end[names.FINISH_REASONS] = [response.finish_reason or "stop"]
                if self._tracing.content:
                    end[names.OUTPUT_MESSAGES] = self._json([_output(response)])
            return response

    async def _call(self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any]) -> T:
        call_id, tool = key.split(":", 2)[2], str(about.get("tool", ""))
        attributes = {names.TOOL: tool, names.TOOL_CALL: call_id, names.TOOL_TYPE: "function"}
        with self.span(names.EXECUTE_TOOL, tool, attributes) as (span, end):
            if self._tracing.content:
                span.set_attribute(names.ARGUMENTS, self._json(about.get("args")))
            outcome = await run()
            if isinstance(outcome, ToolOutcome):
                if outcome.is_error:
                    self.fail(span, end, "tool_error")
                if self._records_results:
                    end[names.RESULT] = self._redactor.redact(outcome.text)
            return outcome

    # -- content ----------------------------------------------------------------------------------------

    def _input(self) -> dict[str, str]:
        system = [{"type": "text", "content": self._state.system_prompt}]
        return {
            names.INSTRUCTIONS: self._json(system),
            names.INPUT_MESSAGES: self._json([_message(message) for message in self._state.messages]),
        }

    def _json(self, value: Any) -> str:
        return self._redactor.redact(json.dumps(to_jsonable(value), ensure_ascii=False))


def _try(function: Callable[..., T], *args: Any) -> T | None:
    """Call a function. If it fails, log the error and return None, so that the run does not fail."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - third-party processors, exporters and views
        LOG.warning("Tracing failed, data is lost: %s: %s", type(error).__name__, safe_str(error))
        return None


def _server_of(client: Any) -> tuple[str, int]:
    url = urlsplit(str(getattr(client, "base_url", "") or ""))
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _clean(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Remove lone surrogates, because exporters fail on them and lose the whole batch."""
    return {
        name: clean_text(value) if isinstance(value, str) else value for name, value in attributes.items()
    }


def _usage(usage: TokenUsage | None) -> dict[str, int]:
    if usage is None or usage.estimated:
        return {}
    required = {names.INPUT_TOKENS: usage.prompt_tokens, names.OUTPUT_TOKENS: usage.completion_tokens}
    optional = {
        names.CACHED_TOKENS: usage.cached_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.CACHE_MISSED_TOKENS: usage.cache_missed_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    return required | {name: count for name, count in optional.items() if count is not None}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role, content = str(message.get("role")), message.get("content")
    if role == "tool":
        result = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}
        return {"role": role, "parts": [result]}
    texts = [part.get("text") for part in content] if isinstance(content, list) else [content]
    parts: list[dict[str, Any]] = [{"type": "text", "content": text} for text in texts if text]
    return {"role": role, "parts": [*parts, *_calls(message.get("tool_calls") or ())]}


def _calls(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    functions = [(call.get("id"), call.get("function") or {}) for call in calls]
    return [
        {
            "type": "tool_call",
            "id": call_id,
            "name": function.get("name"),
            "arguments": function.get("arguments"),
        }
        for call_id, function in functions
    ]


def _output(response: LLMResponse) -> dict[str, Any]:
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in response.tool_calls
    ]
    message = _message({"role": "assistant", "content": response.content, "tool_calls": calls})
    return {**message, "finish_reason": response.finish_reason or "stop"}
