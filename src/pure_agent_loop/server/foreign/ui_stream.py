"""The UI message stream of the AI SDK, version 1: what `useChat` sends and reads."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.server.api.models import Body
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.foreign.agui import ToolAbout
from pure_agent_loop.server.foreign.answers import DONE, Frames, StreamedAnswer, refused_in_stream
from pure_agent_loop.server.foreign.chat import STREAM
from pure_agent_loop.server.foreign.history import Open, read_messages
from pure_agent_loop.server.foreign.turn import Finish, Piece, Turn, agent_named
from pure_agent_loop.server.foreign.wanted import Wanted, outside_tool
from pure_agent_loop.server.problems import Problem

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_ENDS: dict[Finish, str] = {"tool_calls": "tool-calls", "content_filter": "content-filter"}
# Parts; what is no text, file or call is what pages keep for people to see.
_PARTS = r"^(text|file|step-start|reasoning|source-url|source-document|dynamic-tool|(tool|data)-.+)$"


class UiPart(Open):
    """A part of a message."""

    type: Annotated[str, Field(pattern=_PARTS)]


class UiMessage(Open):
    """A message."""

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: Annotated[list[UiPart], Field(min_length=1)]


class UiBody(Body):
    """A request of a chat on a page.

    ``agent`` and ``tools`` are this server's: a page sends them as the `body` of its transport.
    """

    messages: Annotated[list[UiMessage], Field(min_length=1)]
    id: str | None = None
    trigger: Literal["submit-message", "regenerate-message"] | None = None
    messageId: str | None = None  # noqa: N815 - a name of the protocol
    agent: str | None = None
    tools: Annotated[list[ToolAbout], Field(default_factory=list)]


async def _chat(asked: Asked) -> Response:
    body: UiBody = asked.body
    name = body.agent if body.agent is not None else next(iter(asked.service.hub.agents))
    agent_named(asked, name)
    try:
        system, messages = read_messages([made for each in body.messages for made in _messages(each)])
        tools = [*map(outside_tool, body.tools)]
        turn = Turn(asked, Wanted(name, messages, system, tools, {}, {"chat_id": body.id} if body.id else {}))
    except Problem as problem:
        failed: list[Any] = [{"type": "start"}, {"type": "error", "errorText": problem.detail}, DONE]
        return refused_in_stream(problem, failed, HEADERS)
    last = body.messages[-1]
    message_id = last.id if last.role == "assistant" and last.id else f"msg_{secrets.token_hex(12)}"
    return StreamedAnswer(turn, _events(turn, message_id), HEADERS)


def _messages(given: UiMessage) -> list[Message]:
    """A message as messages: what an assistant said, called and was told stands in one here."""
    found: list[Message] = []
    open_ = _OpenMessage(given.role)
    for each in given.parts:
        kind, part = each.type, each.model_dump()
        if kind == "step-start" or (kind == "text" and open_.calls):
            found += open_.close()
        if kind == "text":
            open_.content.append({"type": "text", "text": part.get("text") or ""})
        elif kind == "file":
            open_.content.append(_file(part))
        elif kind.startswith("tool-") or kind == "dynamic-tool":
            _add_call(part, open_.calls, open_.results)
    return [*found, *open_.close()]


class _OpenMessage:
    """A message that more may come to, and the results of its calls."""

    def __init__(self, role: str) -> None:
        self._role = role
        self.content: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[Message] = []

    def close(self) -> list[Message]:
        """What there was; it is empty then."""
        made = {"role": self._role, "content": self.content or None, "tool_calls": self.calls or None}
        found = [made] if self.content or self.calls else []
        found += self.results
        self.content, self.calls, self.results = [], [], []
        return found


def _file(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("url")
    if str(part.get("mediaType")).startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url, "filename": part.get("filename") or "file"}}


def _add_call(part: dict[str, Any], calls: list[dict[str, Any]], results: list[Message]) -> None:
    call_id, state = part.get("toolCallId"), part.get("state")
    name = part.get("toolName") if part["type"] == "dynamic-tool" else part["type"].removeprefix("tool-")
    calls.append(
        {"id": call_id, "function": {"name": name, "arguments": json.dumps(part.get("input") or {})}}
    )
    if state in ("output-available", "output-error") and isinstance(call_id, str):
        output = part.get("output") if state == "output-available" else part.get("errorText")
        text = output if isinstance(output, str) else json.dumps(output)
        results.append({"role": "tool", "tool_call_id": call_id, "content": text})


async def _events(turn: Turn, message_id: str) -> Frames:
    yield {"type": "start", "messageId": message_id}
    told = _Told()
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            for event in told.take(piece):
                yield event
    for call in turn.calls:
        for event in told.call(call.id, call.tool, call.args, dynamic=False):
            yield event
    for event in told.close_step():
        yield event
    if turn.finish == "error":
        yield {"type": "error", "errorText": turn.error}
    yield {"type": "finish", "finishReason": _ENDS.get(turn.finish, turn.finish)}
    yield DONE


class _Told:
    """Which part is open."""

    def __init__(self) -> None:
        self._kind, self._id, self._count, self._in_step = "", "", 0, False

    def take(self, piece: Piece) -> Sequence[dict[str, Any]]:
        """A piece, as events."""
        if piece.kind == "step":
            return self.close_step()
        if piece.kind == "break":
            return self._close()
        if piece.kind == "call":
            return self.call(piece.call_id, piece.tool, piece.args, dynamic=True)
        if piece.kind == "result":
            about = {"toolCallId": piece.call_id, "dynamic": True}
            if piece.is_error:
                return [{"type": "tool-output-error", **about, "errorText": piece.text or "It failed."}]
            return [{"type": "tool-output-available", **about, "output": piece.text}]
        name = "text" if piece.kind == "text" else "reasoning"
        begun: list[dict[str, Any]] = []
        if name != self._kind:
            begun = [*self._close(), *self._open_step()]
            self._count += 1
            self._kind, self._id = name, f"{name}-{self._count}"
            begun.append({"type": f"{name}-start", "id": self._id})
        return [*begun, {"type": f"{name}-delta", "id": self._id, "delta": piece.text}]

    def call(
        self, call_id: str, tool: str, args: dict[str, Any], *, dynamic: bool
    ) -> Sequence[dict[str, Any]]:
        """A call, as events; one of a tool that the page does not know is `dynamic`."""
        about = {"toolCallId": call_id, "toolName": tool, **({"dynamic": True} if dynamic else {})}
        begun = {"type": "tool-input-start", **about}
        return [
            *self._close(),
            *self._open_step(),
            begun,
            {"type": "tool-input-available", **about, "input": args},
        ]

    def close_step(self) -> Sequence[dict[str, Any]]:
        """The step that goes on has ended."""
        closed = self._close()
        if not self._in_step:
            return closed
        self._in_step = False
        return [*closed, {"type": "finish-step"}]

    def _open_step(self) -> list[dict[str, Any]]:
        if self._in_step:
            return []
        self._in_step = True
        return [{"type": "start-step"}]

    def _close(self) -> list[dict[str, Any]]:
        kind, self._kind = self._kind, ""
        return [{"type": f"{kind}-end", "id": self._id}] if kind else []


OPERATIONS = [
    Operation("POST", "/api/ui-stream", "ui_stream", "A run, as a UI message stream of the AI SDK.", _chat,
              body=UiBody, media=STREAM, problems=(404, 422, 503)),
]  # fmt: skip
