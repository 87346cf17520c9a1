"""A run that ends with its HTTP request, because only the caller can see its result."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import LLMError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import repair_history, text_of
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import Permission
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import naming
from pure_agent_loop.server.api.operation import ApiRequest
from pure_agent_loop.server.entries import Visibility
from pure_agent_loop.server.foreign.pending import PendingCalls
from pure_agent_loop.server.foreign.run_request import RunRequest
from pure_agent_loop.server.problems import HttpProblem, no_agent
from pure_agent_loop.stop_reasons import STOP_REASONS, SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str

DONE = "[DONE]"
Finish = Literal["stop", "tool_calls", "length", "content_filter", "error"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a run's output, reduced to what the caller may see.

    Args:
        kind: ``text`` or ``thinking`` for a delta, ``break`` for a paragraph break before the next text,
            ``call`` or ``result`` of one of the agent's own tools, or ``step`` for the end of a step.
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
    """A call to one of the caller's tools."""

    id: str
    tool: str
    args: dict[str, Any]


def agent_named(request: ApiRequest, name: str) -> Agent:
    """Return the agent of a request. Call this function first, so that an unknown agent is reported before
    other errors.

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
            with naming(self._agent, run_request.agent):
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
        """Count the run, executed within the block, toward the server's limits, metrics and totals.

        Raises:
            HttpProblem: A run limit has been reached.
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
        """Return the text that was not streamed: a note about a reached limit, or the whole answer."""
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
