"""A run that lasts as long as its request, because only the caller can see its result."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.errors import ConfigError, LLMError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message, repair_history, text_of
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import Permission
from pure_agent_loop.runs.options import RunSettings
from pure_agent_loop.runs.run import Run
from pure_agent_loop.server.api.openapi import ApiRequest
from pure_agent_loop.server.api.streams import wait_disconnect
from pure_agent_loop.server.people import HttpProblem, Person, no_agent
from pure_agent_loop.server.runs_file import Visibility
from pure_agent_loop.stop_reasons import STOP_REASONS, SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolRegistry

EXPIRY_SECONDS = 3_600.0
MAX_BYTES = 64 << 20
STOP_SECONDS = 5.0  # time for a run to end after its client disconnected
DONE = "[DONE]"


# -- A request for a run, independent of its protocol ----------------------------------------------------


@dataclass(frozen=True)
class RunRequest:
    """A request for a run.

    Args:
        messages: The history without system messages. The last one must be from the user or a tool.
        system: The caller's instructions, appended to the agent's system prompt.
        tools: The caller's tools.
        metadata: `RunContext.metadata`.
    """

    agent: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Tool] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.messages or self.messages[-1]["role"] not in ("user", "tool"):
            raise HttpProblem(
                400, "messages: the last one must have the role user or tool.", param="messages"
            )

    @property
    def new_results(self) -> dict[str, str]:
        """The tool results at the end of the history, by call id."""
        results: dict[str, str] = {}
        for entry in reversed(self.messages):
            if entry["role"] != "tool":
                break
            results.setdefault(entry["tool_call_id"], text_of(entry["content"]))
        return results

    def digest(self, count: int) -> str:
        """Hash the first `count` messages."""
        return hashlib.sha256(json.dumps(list(self.messages[:count])).encode()).hexdigest()

    def settings(self, agent: Agent) -> RunSettings:
        """Return the run's settings that differ from the agent's.

        Raises:
            HttpProblem: A tool has the name of a tool of the agent.
        """
        settings: RunSettings = {"metadata": dict(self.metadata)}
        if self.fields:
            settings["model_settings"] = dict(self.fields)  # type: ignore[typeddict-item]  # validated by the run
        if self.tools:
            settings["tools"] = _merge_tools(agent, self.tools)
        if self.system:
            own: Any = agent.config.system_prompt
            parts = list(own) if isinstance(own, (list, tuple)) else [own]
            settings["system_prompt"] = [*(part for part in parts if part), self.system]
        return settings


class _ToolSpec(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> dict[str, Any] | None: ...


def outside_tool(spec: _ToolSpec) -> Tool:
    """Create an external tool: the model calls it, and the caller executes it.

    Raises:
        HttpProblem: The tool is invalid.
    """
    schema = {"type": "object", "properties": {}} if spec.parameters is None else spec.parameters
    try:
        description = spec.description or ""
        return Tool(None, name=spec.name, description=description, parameters=schema, external=True)
    except ConfigError as error:
        raise HttpProblem(400, safe_str(error), param="tools") from error


def _merge_tools(agent: Agent, tools: Iterable[Tool]) -> ToolRegistry:
    registry = ToolRegistry(agent.tools)
    for tool in tools:
        if tool.name in registry:
            raise HttpProblem(400, f"tools: {tool.name!r} already exists. Rename it.", param="tools")
        registry.register(tool)
    return registry


# -- suspended runs that wait for results of the caller's tools ------------------------------------------
# A response with calls of the caller's tools ends the request; the results come in the next one. The
# caller's messages lack the calls of the agent's own tools, so the state is saved here and the run is
# resumed from it.
# If the state has expired, a new run starts from the caller's messages.


@dataclass(frozen=True)
class _SavedRun:
    expires: float
    agent: str
    count: int
    digest: str
    state: bytes
    calls: Mapping[str, str]  # the caller's call id -> the state's call id


class PendingCalls:
    """The suspended runs of one server."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, frozenset[str]], _SavedRun] = OrderedDict()
        self._bytes = 0

    def save(self, person: Person, request: RunRequest, state: QueryState, calls: Mapping[str, str]) -> None:
        """Save a run that waits for its caller. The oldest and expired runs are dropped."""
        packed = zlib.compress(json.dumps(state.to_dict()).encode(), 1)
        count = len(request.messages)
        expires = time.monotonic() + EXPIRY_SECONDS
        self._runs[person.name, frozenset(calls)] = _SavedRun(
            expires, request.agent, count, request.digest(count), packed, calls
        )
        self._bytes += len(packed)
        while self._runs and (
            self._bytes > MAX_BYTES or next(iter(self._runs.values())).expires < time.monotonic()
        ):
            self._bytes -= len(self._runs.popitem(last=False)[1].state)

    def resume(self, person: Person, request: RunRequest) -> dict[str, Any] | None:
        """Return the saved state that a request's results belong to, with the results added; None if missing.

        The saved run remains, so that the caller can repeat a failed request.
        """
        results = request.new_results
        saved = self._runs.get((person.name, frozenset(results)))
        if saved is None or saved.agent != request.agent or saved.digest != request.digest(saved.count):
            return None
        if any(message["role"] not in ("assistant", "tool") for message in request.messages[saved.count :]):
            return None
        state = QueryState.from_dict(json.loads(zlib.decompress(saved.state)))
        for caller_id, own_id in saved.calls.items():
            state.give_result(own_id, results[caller_id])
        return state.to_dict()


Finish = Literal["stop", "tool_calls", "length", "content_filter", "error"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a run's output, reduced to what the caller may see.

    Args:
        kind: ``text`` and ``thinking``: a delta. ``break``: a paragraph break before the next text. ``call``
            and ``result``: of the agent's own tools. ``step``: the end of a step.
        text: The delta or the result.
        call_id: The call's id.
    """

    kind: Literal["text", "thinking", "break", "call", "result", "step"]
    text: str = ""
    call_id: str = ""
    tool: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call of one of the caller's tools."""

    id: str
    tool: str
    args: dict[str, Any]


def agent_named(request: ApiRequest, name: str) -> Agent:
    """Return the agent of a request. Check it first: an unknown agent is reported before other errors.

    Raises:
        HttpProblem: The agent is unknown.
    """
    agents = request.service.hub.agents
    if name not in agents:
        raise no_agent(name, agents, param="model", code="model_not_found")
    return agents[name]


class RequestRun:
    """A run for a request.

    Raises:
        HttpProblem: The run cannot start.
    """

    def __init__(self, request: ApiRequest, run_request: RunRequest) -> None:
        self.service, self.person, self.run_request = request.service, request.person, run_request
        self.token = CancelToken()
        self.pending_calls: PendingCalls = request.http.app.state.pending_calls
        self.finish: Finish = "stop"
        self.error = ""
        self.status = 500  # HTTP status of the error
        self.calls: list[OutsideCall] = []
        self.usage = TokenUsage.zero()
        self._agent = agent_named(request, run_request.agent)
        self._settings = run_request.settings(self._agent)
        self._outside = {tool.name for tool in run_request.tools}
        self._visibility: Visibility = self.service.settings.visibility_of(self.person)
        self._step, self._has_text, self._has_thinking, self._needs_break = 0, False, False, False
        self._has_any = False
        try:
            self._run = self._prepare_run()
        except HttpProblem:
            raise
        except PureAgentLoopError as error:
            raise HttpProblem(400, safe_str(error)) from error
        self._before = self._run.state.usage, self._run.state.ledger.cost

    def _prepare_run(self) -> Run[Any]:
        request, last = self.run_request, self.run_request.messages[-1]
        if last["role"] == "user":
            parts = [] if isinstance(last["content"], str) else last["content"]
            return self._agent.prepare(
                text_of(last["content"]),
                list(request.messages[:-1]),
                media=[part for part in parts if part["type"] != "text"],
                cancel_token=self.token,
                **self._settings,
            )
        saved = self.pending_calls.resume(self.person, request)
        if saved is not None:
            return self._resume(saved)
        history, _ = repair_history(request.messages, self._agent.config.prompts.tool_lost)
        tasks = [text_of(message["content"]) for message in history if message["role"] == "user"]
        state = QueryState(
            system_prompt=self._agent.system_prompt, messages=history, task=tasks[-1] if tasks else ""
        )
        return self._resume(state.to_dict())

    def _resume(self, state: dict[str, Any]) -> Run[Any]:
        return self._agent.prepare(None, state=state, cancel_token=self.token, **self._settings)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the run in the server's limits, metrics and totals.

        Raises:
            HttpProblem: A limit of runs is reached.
        """
        with self.service.hub.ephemeral_run(self.person, self.run_request.agent) as info:
            try:
                yield
            finally:
                state, (usage, cost) = self._run.state, self._before
                info.stop_reason = state.stop_reason or "cancelled"
                info.tokens = state.usage.total_tokens - usage.total_tokens
                info.cost = None if state.cost is None else state.ledger.cost - cost

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Execute the run and yield its output. Closing the generator stops the run."""
        run = self._run
        while True:
            async with aclosing(run.stream()) as events:
                async for event in events:
                    for chunk in self._chunks_of(event):
                        yield chunk
            result = run.result()
            if result.stop_reason != SUSPENDED:
                break
            for question in result.questions:  # no person can approve here
                result.state.answer_permission(
                    question.call_id, Permission("deny", model_text("nobody_to_ask"))
                )
            run = self._run = self._resume(result.state.to_dict())
        for chunk in self._note(result.content, result.state.answer.note):
            yield chunk
        self._end(result)

    def _chunks_of(self, event: AnyEvent) -> list[Chunk]:
        visibility = self._visibility
        plain = (
            event.to_dict()
            if visibility.full
            else event.public(tools=visibility.tools, reasoning=visibility.reasoning)
        )
        data, kind = plain["data"], event.type
        if event.step != self._step:
            self._step, self._has_text, self._has_thinking = event.step, False, False
        text = data.get("content") or ""
        if kind is EventType.TEXT_DELTA or (kind is EventType.THOUGHT and not self._has_text):
            return self._text(text)
        if kind is EventType.REASONING_DELTA or (kind is EventType.REASONING and not self._has_thinking):
            self._has_thinking = True
            return [Chunk("thinking", text)] if text else []
        if kind is EventType.RETRY and data.get("discard"):
            self._needs_break, self._has_text, self._has_thinking = self._has_any, False, False
        if kind is EventType.STEP_END:
            return [Chunk("step")]
        if kind is EventType.ACTION:
            self._needs_break = self._has_any
        if kind not in (EventType.ACTION, EventType.OBSERVATION) or data["tool"] in self._outside:
            return []
        call: dict[str, Any] = {"call_id": data["call_id"], "tool": data["tool"]}
        if kind is EventType.ACTION:
            return [Chunk("call", args=data.get("args") or {}, **call)]
        failed = bool(event.data.get("is_error"))
        return [Chunk("result", str(data.get("result") or ""), is_error=failed, **call)]

    def _text(self, text: str) -> list[Chunk]:
        if not text:
            return []
        prefix = [Chunk("break")] if self._needs_break else []
        self._has_text = self._has_any = True
        self._needs_break = False
        return [*prefix, Chunk("text", text)]

    def _note(self, content: str, note: str) -> list[Chunk]:
        """Return the text that was not streamed: the note of a limit, or the whole answer."""
        text = note if self._has_any else content
        self._needs_break = self._has_any
        return self._text(text)

    def _end(self, result: Any) -> None:
        used, before = result.usage, self._before[0]
        self.usage = TokenUsage(
            used.prompt_tokens - before.prompt_tokens,
            used.completion_tokens - before.completion_tokens,
            used.total_tokens - before.total_tokens,
            used.reasoning_tokens,
            used.cached_tokens,
        )
        reason, kind = result.stop_reason, STOP_REASONS[result.stop_reason].kind
        if reason == WAITING_TOOL:
            # New ids: a model's own ids are not unique across conversations.
            calls = {f"call_{secrets.token_hex(12)}": call for call in result.open_calls}
            self.calls = [OutsideCall(new_id, call.name, call.arguments) for new_id, call in calls.items()]
            ids = {new_id: call.id for new_id, call in calls.items()}
            self.pending_calls.save(self.person, self.run_request, result.state, ids)
            self.finish = "tool_calls"
        elif kind == "limit" or reason == "output_limit":
            self.finish = "length"
        elif reason == "content_filter":
            self.finish = "content_filter"
        elif kind in ("failed", "cancelled"):
            self.finish = "error"
            error = result.error or self.token.reason or "The run was stopped."
            self.error = error if self._visibility.full else "The run failed."
            self.status = 503 if isinstance(result.state.failure, LLMError) else 500


# -- responses of a run: complete, or as Server-Sent Events. A disconnect stops the run ------------------

StreamEvent = dict[str, Any] | str
Frames = AsyncGenerator[StreamEvent, None]


def frame(content: Mapping[str, Any] | str, name: str = "") -> bytes:
    """Encode a Server-Sent Event."""
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def error_stream(
    problem: HttpProblem, frames: Iterable[StreamEvent], headers: Mapping[str, str] | None = None
) -> Response:
    """Report an invalid request as a stream with an error event, as the protocol demands.

    Raises:
        HttpProblem: The problem has another status than 400 or 422.
    """
    if problem.status not in (400, 422):
        raise problem
    body = b"".join(map(frame, frames))
    return Response(body, headers=dict(headers or {}), media_type="text/event-stream")


async def collect(turn: RequestRun, receive: Receive) -> list[Chunk]:
    """Execute a run and return its whole output.

    Raises:
        HttpProblem: The run failed, or its client disconnected.
    """
    output: list[Chunk] = []

    async def read() -> None:
        async with aclosing(turn.chunks()) as chunks:
            output.extend([chunk async for chunk in chunks])

    with turn.counted():
        await _until_disconnect(turn, receive, read())
    if turn.finish == "error":
        raise HttpProblem(turn.status, turn.error)
    return output


def join_text(chunks: list[Chunk], kind: str = "text") -> str:
    """Join the text of chunks of a kind."""
    return "".join(
        "\n\n" if chunk.kind == "break" else chunk.text for chunk in chunks if chunk.kind in (kind, "break")
    )


class StreamResponse(Response):
    """A Server-Sent Events response of a run.

    Args:
        frames: The events: objects, or raw text.
        named: Whether events also have their type as name.
    """

    def __init__(
        self,
        turn: RequestRun,
        frames: Frames,
        headers: Mapping[str, str] | None = None,
        *,
        named: bool = False,
    ) -> None:
        super().__init__(status_code=200)
        self._turn, self._frames, self._named = turn, frames, named
        self._head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache",
                      "x-accel-buffering": "no", **(headers or {})}  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI signature
        """Execute the run and send its events."""
        with self._turn.counted():
            await _until_disconnect(self._turn, receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._head.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        limits = self._turn.service.settings
        async with aclosing(self._frames) as frames:
            upcoming = asyncio.ensure_future(anext(frames, None))
            try:
                while True:
                    done, _ = await asyncio.wait({upcoming}, timeout=limits.keep_alive_seconds)
                    content = upcoming.result() if done else ""
                    if content is None:
                        break
                    if done:
                        upcoming = asyncio.ensure_future(anext(frames, None))
                    if not await self._write(send, content):
                        return
            finally:
                upcoming.cancel()
                await asyncio.wait({upcoming})
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Send, content: StreamEvent) -> bool:
        name = content["type"] if self._named and isinstance(content, dict) else ""
        body = frame(content, name) if content else b": keep-alive\n\n"
        with Interrupt() as block:
            block.after(self._turn.service.settings.viewer_seconds)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        return not block.fired


async def _until_disconnect(turn: RequestRun, receive: Receive, work: Awaitable[None]) -> None:
    """Await work; cancel the run if the client disconnects or the server stops."""
    working = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(wait_disconnect(receive))
    closing = asyncio.ensure_future(turn.service.closing.wait())
    try:
        await asyncio.wait({working, disconnect, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            turn.token.cancel("The server stops." if closing.done() else "The client disconnected.")
            await asyncio.wait({working}, timeout=STOP_SECONDS)
    finally:
        for task in (working, disconnect, closing):
            task.cancel()
        await asyncio.gather(working, disconnect, closing, return_exceptions=True)
    if not working.cancelled():
        working.result()


class PartWriter(ABC):
    """Writes a run as events of a protocol, with at most one text or reasoning part open."""

    def __init__(self, turn: RequestRun) -> None:
        self.turn = turn
        self.open_kind = ""
        """``text``, ``thinking``, or empty while no part is open."""

    async def events(self) -> Frames:
        """Execute the run and yield its events."""
        for event in self.begin():
            yield event
        async with aclosing(self.turn.chunks()) as chunks:
            async for chunk in chunks:
                for event in self.add(chunk):
                    yield event
        for event in self.end():
            yield event

    def add(self, chunk: Chunk) -> list[StreamEvent]:
        """Write a chunk. A delta of another kind than the open part's closes it and opens the next."""
        if chunk.kind == "break":
            return self.close()
        if chunk.kind not in ("text", "thinking"):
            return self.other(chunk)
        start: list[StreamEvent] = []
        if chunk.kind != self.open_kind:
            start = self.close()
            self.open_kind = chunk.kind
            start += self.opened()
        return [*start, self.delta(chunk.text)]

    def close(self) -> list[StreamEvent]:
        """Close the open part, if any."""
        events = self.closed() if self.open_kind else []
        self.open_kind = ""
        return events

    def end(self) -> list[StreamEvent]:
        """Close the open part, write the calls of the caller's tools and finish."""
        events = self.close()
        for call in self.turn.calls:
            events += self.outside_call(call)
        return [*events, *self.finish()]

    @abstractmethod
    def begin(self) -> list[StreamEvent]:
        """Start the stream."""

    @abstractmethod
    def opened(self) -> list[StreamEvent]:
        """Open a part of `open_kind`."""

    @abstractmethod
    def delta(self, text: str) -> StreamEvent:
        """Add text to the open part."""

    @abstractmethod
    def closed(self) -> list[StreamEvent]:
        """Close the part of `open_kind`."""

    def other(self, chunk: Chunk) -> list[StreamEvent]:  # noqa: ARG002 - for protocols that show them
        """Write a call or a result of the agent's own tools, or the end of a step."""
        return []

    @abstractmethod
    def outside_call(self, call: OutsideCall) -> list[StreamEvent]:
        """Write a call of one of the caller's tools."""

    @abstractmethod
    def finish(self) -> list[StreamEvent]:
        """Finish the stream."""
