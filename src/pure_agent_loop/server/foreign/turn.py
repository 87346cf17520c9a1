"""One run of an agent for one request. It ends with its request: nobody else could see what comes of it."""

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
from pure_agent_loop.prompts.words import say
from pure_agent_loop.runs.run import Run
from pure_agent_loop.server.api.operation import Asked
from pure_agent_loop.server.entries import Sight
from pure_agent_loop.server.foreign.desk import desk_of
from pure_agent_loop.server.foreign.wanted import Wanted
from pure_agent_loop.server.problems import Problem, no_agent
from pure_agent_loop.stop_reasons import STOP_REASONS, SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.text import safe_str

Finish = Literal["stop", "tool_calls", "length", "content_filter", "error"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what comes of a run, as its caller may see it.

    Args:
        kind: ``text`` and ``thinking`` come in pieces; ``break``: what follows stands apart from the text
            before; ``call`` and ``result`` are those of the agent's own tools; ``step``: a step has ended.
        text: The text, or the result.
        call_id: The call.
        tool: Its tool.
        args: Its arguments.
        is_error: The result is a failure.
    """

    kind: Literal["text", "thinking", "break", "call", "result", "step"]
    text: str = ""
    call_id: str = ""
    tool: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call that the caller is to make: its id, the tool, and its arguments."""

    id: str
    tool: str
    args: dict[str, Any]


def agent_named(asked: Asked, name: str) -> Agent:
    """The agent that a request is for; whether there is one is said before anything else about it.

    Raises:
        Problem: There is none.
    """
    agents = asked.service.hub.agents
    if name not in agents:
        raise no_agent(name, agents, param="model", code="model_not_found")
    return agents[name]


class Turn:
    """A run for a request.

    Args:
        asked: The request.
        wanted: What it wants.

    Raises:
        Problem: It cannot begin.
    """

    def __init__(self, asked: Asked, wanted: Wanted) -> None:
        self.service, self.person, self.wanted = asked.service, asked.person, wanted
        self.token = CancelToken()
        self.desk = desk_of(asked.request.app)
        self.finish: Finish = "stop"
        self.error = ""
        self.status = 500  # of the error
        self.calls: list[OutsideCall] = []
        self.usage = TokenUsage.zero()
        self._agent = agent_named(asked, wanted.agent)
        self._settings = wanted.settings(self._agent)
        self._outside = {each.name for each in wanted.tools}
        self._sight: Sight = self.service.settings.sight_of(self.person)
        self._step, self._has_text, self._has_thought, self._due_break = 0, False, False, False
        self._has_any = False
        try:
            self._run = self._first()
        except Problem:
            raise
        except PureAgentLoopError as error:
            raise Problem(400, safe_str(error)) from error
        self._before = self._run.state.usage, self._run.state.ledger.cost

    def _first(self) -> Run[Any]:
        wanted, last = self.wanted, self.wanted.messages[-1]
        if last["role"] == "user":
            media = [] if isinstance(last["content"], str) else last["content"]
            return self._agent.prepare(
                text_of(last["content"]),
                list(wanted.messages[:-1]),
                media=[each for each in media if each["type"] != "text"],
                cancel_token=self.token,
                **self._settings,
            )
        kept = self.desk.going_on(self.person, wanted)
        if kept is not None:
            return self._going_on(kept)
        history, _ = repair_history(wanted.messages, self._agent._kit.prompts.tool_lost)
        tasks = [text_of(each["content"]) for each in history if each["role"] == "user"]
        state = QueryState(
            system_prompt=self._agent.system_prompt, messages=history, task=tasks[-1] if tasks else ""
        )
        return self._going_on(state.to_dict())

    def _going_on(self, state: dict[str, Any]) -> Run[Any]:
        return self._agent.prepare(None, state=state, cancel_token=self.token, **self._settings)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count it among the runs of the server, and what it used.

        Raises:
            Problem: There is no room.
        """
        with self.service.hub.guest(self.person, self.wanted.agent) as info:
            try:
                yield
            finally:
                state, (usage, cost) = self._run.state, self._before
                info.stop_reason = state.stop_reason or "cancelled"
                info.tokens, info.cost = (
                    state.usage.total_tokens - usage.total_tokens,
                    state.ledger.cost - cost,
                )

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Run, and say what comes of it. Leaving it stops the run."""
        run = self._run
        while True:
            async with aclosing(run.stream()) as events:
                async for event in events:
                    for piece in self._seen(event):
                        yield piece
            result = run.result()
            if result.stop_reason != SUSPENDED:
                break
            for question in result.questions:  # nobody is there who could say yes
                result.state.answer_permission(question.call_id, Permission("deny", say("nobody_to_ask")))
            run = self._run = self._going_on(result.state.to_dict())
        for piece in self._rest(result.content, result.state.answer.note):
            yield piece
        self._end(result)

    def _seen(self, event: AnyEvent) -> list[Piece]:
        sight = self._sight
        plain = event.to_dict() if sight.full else event.public(tools=sight.tools, reasoning=sight.reasoning)
        data, kind = plain["data"], event.type
        if event.step != self._step:
            self._step, self._has_text, self._has_thought = event.step, False, False
        text = data.get("content") or ""
        if kind is EventType.TEXT_DELTA or (kind is EventType.THOUGHT and not self._has_text):
            return self._text(text)
        if kind is EventType.REASONING_DELTA or (kind is EventType.REASONING and not self._has_thought):
            self._has_thought = True
            return [Piece("thinking", text)] if text else []
        if kind is EventType.RETRY and data.get("discard"):
            self._due_break, self._has_text, self._has_thought = self._has_any, False, False
        if kind is EventType.STEP_END:
            return [Piece("step")]
        if kind is EventType.ACTION:
            self._due_break = self._has_any
        if kind not in (EventType.ACTION, EventType.OBSERVATION) or data["tool"] in self._outside:
            return []
        about: dict[str, Any] = {"call_id": data["call_id"], "tool": data["tool"]}
        if kind is EventType.ACTION:
            return [Piece("call", args=data.get("args") or {}, **about)]
        failed = bool(event.data.get("is_error"))
        return [Piece("result", str(data.get("result") or ""), is_error=failed, **about)]

    def _text(self, text: str) -> list[Piece]:
        if not text:
            return []
        lead = [Piece("break")] if self._due_break else []
        self._has_text = self._has_any = True
        self._due_break = False
        return [*lead, Piece("text", text)]

    def _rest(self, content: str, note: str) -> list[Piece]:
        """What the answer has beside what the model wrote: why a limit ended it."""
        rest = note if self._has_any else content
        self._due_break = self._has_any
        return self._text(rest)

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
            # The model's own ids come again in other conversations.
            given = {f"call_{secrets.token_hex(12)}": each for each in result.open_calls}
            self.calls = [OutsideCall(name, each.name, each.arguments) for name, each in given.items()]
            own = {name: each.id for name, each in given.items()}
            self.desk.keep(self.person, self.wanted, result.state, own)
            self.finish = "tool_calls"
        elif kind == "limit" or reason == "output_limit":
            self.finish = "length"
        elif reason == "content_filter":
            self.finish = "content_filter"
        elif kind in ("failed", "cancelled"):
            self.finish = "error"
            full = result.error or self.token.reason or "The run was stopped."
            self.error = full if self._sight.full else "The run failed."
            self.status = 503 if isinstance(result.state.failure, LLMError) else 500
