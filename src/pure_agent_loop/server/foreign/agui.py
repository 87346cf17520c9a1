"""AG-UI: a page of others shows an agent at work, and lends it tools."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.prompts.words import say
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.foreign.answers import Frames, StreamedAnswer, refused_in_stream
from pure_agent_loop.server.foreign.chat import STREAM
from pure_agent_loop.server.foreign.history import IGNORED, Open, ToolName, read_messages
from pure_agent_loop.server.foreign.turn import Piece, Turn, agent_named
from pure_agent_loop.server.foreign.wanted import Wanted, outside_tool
from pure_agent_loop.server.problems import Problem


class ToolAbout(Open):
    """A tool of the page."""

    name: ToolName
    description: str = ""
    parameters: dict[str, Any] | None = None


class ContextItem(Open):
    """What the page tells the agent."""

    description: str
    value: str


class _Message(Open):
    id: str
    content: str | list[dict[str, Any]] | None = None
    toolCalls: list[dict[str, Any]] | None = None  # noqa: N815 - a name of the protocol


class AguiMessage(_Message):
    """A message."""

    role: Literal["system", "developer", "user", "assistant", "activity", "reasoning"]


class AguiResult(_Message):
    """What a tool of the page has said."""

    role: Literal["tool"]
    toolCallId: Annotated[str, Field(min_length=1)]  # noqa: N815 - a name of the protocol


class AguiBody(Open):
    """A request for a run."""

    threadId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - a name of the protocol
    runId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - a name of the protocol
    parentRunId: str | None = None  # noqa: N815 - a name of the protocol
    protocolVersion: str | None = None  # noqa: N815 - a name of the protocol
    messages: Annotated[list[AguiMessage | AguiResult], Field(min_length=1)]
    tools: Annotated[list[ToolAbout], Field(default_factory=list)]
    context: Annotated[list[ContextItem], Field(default_factory=list)]
    state: Any = None
    forwardedProps: Any = None  # noqa: N815 - a name of the protocol
    resume: Annotated[list[Any], Field(max_length=0)] | None = None  # runs are never interrupted here


async def _run(asked: Asked) -> Response:
    body: AguiBody = asked.body
    given = asked.request.query_params.get("agent")
    name = given if given is not None else next(iter(asked.service.hub.agents))
    agent_named(asked, name)
    try:
        turn = Turn(asked, _wanted(body, name))
    except Problem as problem:
        ids = {"threadId": body.threadId, "runId": body.runId}
        failed = {"type": "RUN_ERROR", "message": problem.detail, "code": "bad_request"}
        return refused_in_stream(problem, [{"type": "RUN_STARTED", **ids}, failed])
    strange = [each for each in body.model_extra or {} if each.isidentifier() and each.isascii()]
    return StreamedAnswer(turn, _events(turn, body), {IGNORED: ",".join(strange)} if strange else {})


def _wanted(body: AguiBody, agent: str) -> Wanted:
    system, messages = read_messages([_message(each) for each in body.messages if each.role not in _SHOWN])
    told = [say("context_item", about=each.description, value=each.value) for each in body.context]
    system = "\n\n".join(filter(None, [system, *told]))
    about = {"state": body.state, "forwarded_props": body.forwardedProps, "thread_id": body.threadId}
    metadata = {name: value for name, value in about.items() if value not in (None, {})}
    return Wanted(agent, messages, system, [*map(outside_tool, body.tools)], {}, metadata)


_SHOWN = ("activity", "reasoning")  # what pages keep for people to see


def _message(given: AguiMessage | AguiResult) -> Message:
    calls = None
    if given.toolCalls:
        calls = [{"id": each.get("id"), "function": each.get("function")} for each in given.toolCalls]
    content = given.content
    if isinstance(content, list):
        content = [_part(each) for each in content]
    result_of = given.toolCallId if isinstance(given, AguiResult) else None
    return {"role": given.role, "content": content, "tool_calls": calls, "tool_call_id": result_of}


def _part(given: dict[str, Any]) -> dict[str, Any]:
    source, kind = given.get("source"), given.get("type")
    if kind in ("image", "document") and isinstance(source, dict) and source.get("type") == "data":
        url = f"data:{source.get('mimeType')};base64,{source.get('value')}"
        if kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"file_data": url, "filename": "document"}}
    return given


async def _events(turn: Turn, body: AguiBody) -> Frames:
    ids = {"threadId": body.threadId, "runId": body.runId}
    yield {"type": "RUN_STARTED", **ids}
    if body.state not in (None, {}):
        yield {"type": "STATE_SNAPSHOT", "snapshot": body.state}
    told = _Told()
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            for event in told.take(piece):
                yield event
    for event in told.close():
        yield event
    if turn.finish == "error":
        yield {"type": "RUN_ERROR", "message": turn.error, "code": "run_failed"}
        return
    for call in turn.calls:
        for event in told.call(call.id, call.tool, call.args):
            yield event
    yield {"type": "RUN_FINISHED", **ids}


class _Told:
    """Which message is open."""

    def __init__(self) -> None:
        self._kind, self._id, self._parent = "", "", ""

    def take(self, piece: Piece) -> Sequence[dict[str, Any]]:
        if piece.kind in ("text", "thinking"):
            begun = [] if piece.kind == self._kind else [*self.close(), *self._begin(piece.kind)]
            name = "TEXT" if piece.kind == "text" else "REASONING"
            delta = {"type": f"{name}_MESSAGE_CONTENT", "messageId": self._id, "delta": piece.text}
            return [*begun, delta]
        if piece.kind == "call":
            return self.call(piece.call_id, piece.tool, piece.args)
        if piece.kind == "result":
            about = {"messageId": _new_id(), "toolCallId": piece.call_id, "content": piece.text}
            return [*self.close(), {"type": "TOOL_CALL_RESULT", **about, "role": "tool"}]
        if piece.kind == "step":
            self._parent = ""
        return self.close() if piece.kind == "break" else []

    def call(self, call_id: str, tool: str, args: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """A call, as events. Calls of one step belong to one message."""
        closed = self.close()
        self._parent = self._parent or _new_id()
        about = {"toolCallId": call_id, "toolCallName": tool, "parentMessageId": self._parent}
        return [
            *closed,
            {"type": "TOOL_CALL_START", **about},
            {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": json.dumps(args)},
            {"type": "TOOL_CALL_END", "toolCallId": call_id},
        ]

    def close(self) -> Sequence[dict[str, Any]]:
        """The message that goes on has ended."""
        kind, self._kind = self._kind, ""
        if kind == "text":
            return [{"type": "TEXT_MESSAGE_END", "messageId": self._id}]
        if kind == "thinking":
            ended = {"messageId": self._id}
            return [{"type": "REASONING_MESSAGE_END", **ended}, {"type": "REASONING_END", **ended}]
        return []

    def _begin(self, kind: str) -> Sequence[dict[str, Any]]:
        self._kind, self._id = kind, _new_id()
        if kind == "text":
            self._parent = self._id
            return [{"type": "TEXT_MESSAGE_START", "messageId": self._id, "role": "assistant"}]
        begun = {"messageId": self._id}
        return [
            {"type": "REASONING_START", **begun},
            {"type": "REASONING_MESSAGE_START", **begun, "role": "reasoning"},
        ]


def _new_id() -> str:
    return f"msg_{secrets.token_hex(12)}"


class AguiQuery(Open):
    """Which agent."""

    agent: str | None = None


OPERATIONS = [
    Operation("POST", "/agui", "agui", "A run, as events of AG-UI.", _run, body=AguiBody, query=AguiQuery,
              media=STREAM, problems=(404, 422, 503)),
]  # fmt: skip
