"""The AI SDK's UI message stream, version 1: the protocol of ``useChat``."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.server.api.models import Body
from pure_agent_loop.server.api.operation import ApiRequest, Operation
from pure_agent_loop.server.foreign.chat import STREAM
from pure_agent_loop.server.foreign.history import OpenModel, parse_messages
from pure_agent_loop.server.foreign.replies import PartWriter, StreamEvent, StreamResponse, error_stream
from pure_agent_loop.server.foreign.run_request import FunctionAbout, RunRequest, outside_tool
from pure_agent_loop.server.foreign.turn import DONE, Chunk, Finish, OutsideCall, RequestRun, agent_named
from pure_agent_loop.server.problems import HttpProblem

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_FINISH_REASONS: dict[Finish, str] = {"tool_calls": "tool-calls", "content_filter": "content-filter"}
# Parts other than text, files and calls are for display only.
_PARTS = r"^(text|file|step-start|reasoning|source-url|source-document|dynamic-tool|(tool|data)-.+)$"


class UiPart(OpenModel):
    """A part of a message."""

    type: Annotated[str, Field(pattern=_PARTS)]


class UiMessage(OpenModel):
    """A message."""

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: Annotated[list[UiPart], Field(min_length=1)]


class UiBody(Body):
    """A request from ``useChat``.

    ``agent`` and ``tools`` are extensions: a page sends them as the `body` of its transport.
    """

    messages: Annotated[list[UiMessage], Field(min_length=1)]
    id: str | None = None
    trigger: Literal["submit-message", "regenerate-message"] | None = None
    messageId: str | None = None  # noqa: N815 - a name of the protocol
    agent: str | None = None
    tools: Annotated[list[FunctionAbout], Field(default_factory=list)]


async def _chat(request: ApiRequest) -> Response:
    body: UiBody = request.body
    name = body.agent if body.agent is not None else next(iter(request.service.hub.agents))
    agent_named(request, name)
    try:
        system, messages = parse_messages([message for ui in body.messages for message in _messages(ui)])
        tools = [*map(outside_tool, body.tools)]
        turn = RequestRun(
            request, RunRequest(name, messages, system, tools, {}, {"chat_id": body.id} if body.id else {})
        )
    except HttpProblem as problem:
        failed: list[Any] = [{"type": "start"}, {"type": "error", "errorText": problem.detail}, DONE]
        return error_stream(problem, failed, HEADERS)
    last = body.messages[-1]
    message_id = last.id if last.role == "assistant" and last.id else f"msg_{secrets.token_hex(12)}"
    return StreamResponse(turn, _UiStreamWriter(turn, message_id).events(), HEADERS)


def _messages(message: UiMessage) -> list[Message]:
    """Split a UI message, which combines all texts, calls and results of an assistant, into messages."""
    messages: list[Message] = []
    builder = _MessageBuilder(message.role)
    for ui_part in message.parts:
        kind, part = ui_part.type, ui_part.model_dump()
        if kind == "step-start" or (kind == "text" and builder.calls):
            messages += builder.close()
        if kind == "text":
            builder.content.append({"type": "text", "text": part.get("text") or ""})
        elif kind == "file":
            builder.content.append(_file(part))
        elif kind.startswith("tool-") or kind == "dynamic-tool":
            _add_call(part, builder.calls, builder.results)
    return [*messages, *builder.close()]


class _MessageBuilder:
    """Collects the parts of a message and the results of its calls."""

    def __init__(self, role: str) -> None:
        self._role = role
        self.content: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[Message] = []

    def close(self) -> list[Message]:
        """Return the message and its results, and reset this object."""
        message = {"role": self._role, "content": self.content or None, "tool_calls": self.calls or None}
        messages = [message] if self.content or self.calls else []
        messages += self.results
        self.content, self.calls, self.results = [], [], []
        return messages


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


class _UiStreamWriter(PartWriter):
    """Writes the events of a UI message stream. Parts are grouped by step."""

    def __init__(self, turn: RequestRun, message_id: str) -> None:
        super().__init__(turn)
        self._message_id, self._id, self._count, self._in_step = message_id, "", 0, False

    def begin(self) -> list[StreamEvent]:
        return [{"type": "start", "messageId": self._message_id}]

    @property
    def _name(self) -> str:
        return "text" if self.open_kind == "text" else "reasoning"

    def opened(self) -> list[StreamEvent]:
        self._count += 1
        self._id = f"{self._name}-{self._count}"
        return [*self._open_step(), {"type": f"{self._name}-start", "id": self._id}]

    def delta(self, text: str) -> StreamEvent:
        return {"type": f"{self._name}-delta", "id": self._id, "delta": text}

    def closed(self) -> list[StreamEvent]:
        return [{"type": f"{self._name}-end", "id": self._id}]

    def other(self, chunk: Chunk) -> list[StreamEvent]:
        if chunk.kind == "step":
            return [*self.close(), *self._close_step()]
        if chunk.kind == "call":  # dynamic: the page did not define the tool
            fields = {"toolCallId": chunk.call_id, "toolName": chunk.tool, "dynamic": True}
            return self._call(fields, chunk.args)
        fields = {"toolCallId": chunk.call_id, "dynamic": True}
        if chunk.is_error:
            return [{"type": "tool-output-error", **fields, "errorText": chunk.text or "The call failed."}]
        return [{"type": "tool-output-available", **fields, "output": chunk.text}]

    def outside_call(self, call: OutsideCall) -> list[StreamEvent]:
        return self._call({"toolCallId": call.id, "toolName": call.tool}, call.args)

    def _call(self, fields: dict[str, Any], args: dict[str, Any]) -> list[StreamEvent]:
        return [
            *self.close(),
            *self._open_step(),
            {"type": "tool-input-start", **fields},
            {"type": "tool-input-available", **fields, "input": args},
        ]

    def finish(self) -> list[StreamEvent]:
        reason = self.turn.finish
        failure = [{"type": "error", "errorText": self.turn.error}] if reason == "error" else []
        end = {"type": "finish", "finishReason": _FINISH_REASONS.get(reason, reason)}
        return [*self._close_step(), *failure, end, DONE]

    def _open_step(self) -> list[StreamEvent]:
        was_open, self._in_step = self._in_step, True
        return [] if was_open else [{"type": "start-step"}]

    def _close_step(self) -> list[StreamEvent]:
        was_open, self._in_step = self._in_step, False
        return [{"type": "finish-step"}] if was_open else []


OPERATIONS = [
    Operation("POST", "/api/ui-stream", "ui_stream", "Stream a run as an AI SDK UI message stream.", _chat,
              body=UiBody, media=STREAM, problems=(404, 422, 503)),
]  # fmt: skip
