"""AG-UI: a third-party page displays a run and contributes tools."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.server.api.operation import ApiRequest, Operation
from pure_agent_loop.server.foreign.chat import STREAM
from pure_agent_loop.server.foreign.history import IGNORED, OpenModel, parse_messages
from pure_agent_loop.server.foreign.replies import PartWriter, StreamEvent, StreamResponse, error_stream
from pure_agent_loop.server.foreign.run_request import FunctionAbout, RunRequest, outside_tool
from pure_agent_loop.server.foreign.turn import Chunk, OutsideCall, RequestRun, agent_named
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.support.language import model_text

_DISPLAY_ONLY = ("activity", "reasoning")


class ContextItem(OpenModel):
    """Context that the page gives to the agent."""

    description: str
    value: str


class _Message(OpenModel):
    id: str
    content: str | list[dict[str, Any]] | None = None
    toolCalls: list[dict[str, Any]] | None = None  # noqa: N815 - a name of the protocol


class AguiMessage(_Message):
    """A message."""

    role: Literal["system", "developer", "user", "assistant", "activity", "reasoning"]


class AguiResult(_Message):
    """The result of a page's tool."""

    role: Literal["tool"]
    toolCallId: Annotated[str, Field(min_length=1)]  # noqa: N815 - a name of the protocol


class AguiBody(OpenModel):
    """A request for a run."""

    threadId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - a name of the protocol
    runId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - a name of the protocol
    parentRunId: str | None = None  # noqa: N815 - a name of the protocol
    protocolVersion: str | None = None  # noqa: N815 - a name of the protocol
    messages: Annotated[list[AguiMessage | AguiResult], Field(min_length=1)]
    tools: Annotated[list[FunctionAbout], Field(default_factory=list)]
    context: Annotated[list[ContextItem], Field(default_factory=list)]
    state: Any = None
    forwardedProps: Any = None  # noqa: N815 - a name of the protocol
    resume: Annotated[list[Any], Field(max_length=0)] | None = None  # no interrupts


async def _run(request: ApiRequest) -> Response:
    body: AguiBody = request.body
    parameter = request.http.query_params.get("agent")
    name = parameter if parameter is not None else next(iter(request.service.hub.agents))
    agent_named(request, name)
    try:
        turn = RequestRun(request, _run_request(body, name))
    except HttpProblem as problem:
        ids = {"threadId": body.threadId, "runId": body.runId}
        failed = {"type": "RUN_ERROR", "message": problem.detail, "code": "bad_request"}
        return error_stream(problem, [{"type": "RUN_STARTED", **ids}, failed])
    unknown = [name for name in body.model_extra or {} if name.isidentifier() and name.isascii()]
    return StreamResponse(
        turn, _AguiWriter(turn, body).events(), {IGNORED: ",".join(unknown)} if unknown else {}
    )


def _run_request(body: AguiBody, agent: str) -> RunRequest:
    visible = [_message(message) for message in body.messages if message.role not in _DISPLAY_ONLY]
    system, messages = parse_messages(visible)
    context = [model_text("context_item", about=item.description, value=item.value) for item in body.context]
    system = "\n\n".join(filter(None, [system, *context]))
    fields = {"state": body.state, "forwarded_props": body.forwardedProps, "thread_id": body.threadId}
    metadata = {name: value for name, value in fields.items() if value not in (None, {})}
    return RunRequest(agent, messages, system, [*map(outside_tool, body.tools)], {}, metadata)


def _message(message: AguiMessage | AguiResult) -> Message:
    calls = None
    if message.toolCalls:
        calls = [{"id": call.get("id"), "function": call.get("function")} for call in message.toolCalls]
    content = message.content
    if isinstance(content, list):
        content = [_part(part) for part in content]
    call_id = message.toolCallId if isinstance(message, AguiResult) else None
    return {"role": message.role, "content": content, "tool_calls": calls, "tool_call_id": call_id}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    source, kind = part.get("source"), part.get("type")
    if kind in ("image", "document") and isinstance(source, dict) and source.get("type") == "data":
        url = f"data:{source.get('mimeType')};base64,{source.get('value')}"
        if kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"file_data": url, "filename": "document"}}
    return part


class _AguiWriter(PartWriter):
    """Writes AG-UI events. The calls and the text of a step share a parent message."""

    def __init__(self, turn: RequestRun, body: AguiBody) -> None:
        super().__init__(turn)
        self._ids = {"threadId": body.threadId, "runId": body.runId}
        self._state, self._id, self._parent = body.state, "", ""

    def begin(self) -> list[StreamEvent]:
        state = self._state
        snapshot = [] if state in (None, {}) else [{"type": "STATE_SNAPSHOT", "snapshot": state}]
        return [{"type": "RUN_STARTED", **self._ids}, *snapshot]

    def opened(self) -> list[StreamEvent]:
        self._id = _new_id()
        if self.open_kind == "text":
            self._parent = self._id
            return [{"type": "TEXT_MESSAGE_START", "messageId": self._id, "role": "assistant"}]
        fields = {"messageId": self._id}
        return [
            {"type": "REASONING_START", **fields},
            {"type": "REASONING_MESSAGE_START", **fields, "role": "reasoning"},
        ]

    def delta(self, text: str) -> StreamEvent:
        name = "TEXT" if self.open_kind == "text" else "REASONING"
        return {"type": f"{name}_MESSAGE_CONTENT", "messageId": self._id, "delta": text}

    def closed(self) -> list[StreamEvent]:
        fields = {"messageId": self._id}
        if self.open_kind == "text":
            return [{"type": "TEXT_MESSAGE_END", **fields}]
        return [{"type": "REASONING_MESSAGE_END", **fields}, {"type": "REASONING_END", **fields}]

    def other(self, chunk: Chunk) -> list[StreamEvent]:
        if chunk.kind == "call":
            return self._call(chunk.call_id, chunk.tool, chunk.args)
        if chunk.kind == "result":
            fields = {"messageId": _new_id(), "toolCallId": chunk.call_id, "content": chunk.text}
            return [*self.close(), {"type": "TOOL_CALL_RESULT", **fields, "role": "tool"}]
        self._parent = ""
        return []

    def outside_call(self, call: OutsideCall) -> list[StreamEvent]:
        return self._call(call.id, call.tool, call.args)

    def _call(self, call_id: str, tool: str, args: dict[str, Any]) -> list[StreamEvent]:
        self._parent = self._parent or _new_id()
        fields = {"toolCallId": call_id, "toolCallName": tool, "parentMessageId": self._parent}
        return [
            *self.close(),
            {"type": "TOOL_CALL_START", **fields},
            {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": json.dumps(args)},
            {"type": "TOOL_CALL_END", "toolCallId": call_id},
        ]

    def finish(self) -> list[StreamEvent]:
        if self.turn.finish == "error":
            return [{"type": "RUN_ERROR", "message": self.turn.error, "code": "run_failed"}]
        return [{"type": "RUN_FINISHED", **self._ids}]


def _new_id() -> str:
    return f"msg_{secrets.token_hex(12)}"


class AguiQuery(OpenModel):
    """The agent to run; the first one if missing."""

    agent: str | None = None


OPERATIONS = [
    Operation("POST", "/agui", "agui", "Stream a run as AG-UI events.", _run, body=AguiBody, query=AguiQuery,
              media=STREAM, problems=(404, 422, 503)),
]  # fmt: skip
