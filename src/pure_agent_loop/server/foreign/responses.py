"""OpenAI's responses protocol: /v1/responses."""

from __future__ import annotations

import json
import secrets
import time
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response

from pure_agent_loop.server.api.models import ApiModel
from pure_agent_loop.server.api.operation import ApiRequest, Operation
from pure_agent_loop.server.foreign.chat import STREAM, OpenAIBody, Tokens
from pure_agent_loop.server.foreign.history import (
    ONLY_NULLS,
    OpenModel,
    apply_tool_choice,
    check_fields,
    parse_messages,
    reject_extra,
    unsupported_fields,
)
from pure_agent_loop.server.foreign.items import Item, messages_of
from pure_agent_loop.server.foreign.replies import PartWriter, StreamEvent, StreamResponse, collect
from pure_agent_loop.server.foreign.run_request import FunctionAbout, RunRequest, outside_tool
from pure_agent_loop.server.foreign.turn import OutsideCall, RequestRun, agent_named

# Unsupported fields of the protocol, each with its harmless values, which are accepted. Responses are not
# stored, so a request cannot refer to an earlier response.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "access_programs": (),
    "background": (False,),
    "background_options": (),
    "context_management": (),
    "conversation": (),
    "image": (),
    "include": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "previous_response_id": (),
    "prompt": (),
    "prompt_cache_options": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "stream_options": ({"include_obfuscation": False},),
    "top_logprobs": (0,),
    "truncation": ("auto",),
}
FORWARDED = (
    "metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "temperature", "top_p", "user",
)  # fmt: skip


class Reasoning(OpenModel):
    """Reasoning options."""

    model_config = ONLY_NULLS
    effort: str | None = None


class TextOptions(OpenModel):
    """Text output options."""

    model_config = ONLY_NULLS
    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesTool(FunctionAbout):
    """A tool from the caller."""

    type: Literal["function"]


class ResponsesBody(OpenAIBody):
    """A request for a response. Other fields of the protocol are rejected."""

    model_config = unsupported_fields(UNSUPPORTED)

    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    tools: list[ResponsesTool] | None = None
    max_output_tokens: Tokens = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None


class ResponseAbout(ApiModel):
    """A response."""

    id: str
    object: str
    created_at: int
    status: str
    model: str
    output: list[dict[str, Any]]
    parallel_tool_calls: bool
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    instructions: str | None
    metadata: dict[str, str]
    temperature: float | None
    top_p: float | None
    max_output_tokens: int | None
    previous_response_id: None
    store: bool
    truncation: str
    usage: dict[str, Any] | None


async def _respond(request: ApiRequest) -> Response:
    body: ResponsesBody = request.body
    headers = check_fields(body, UNSUPPORTED)
    turn = RequestRun(request, _run_request(request, body))
    response = _ResponseBuilder(body, turn)
    if body.stream:
        return StreamResponse(turn, response.events(), headers, named=True)
    chunks = await collect(turn, request.http.receive)
    for chunk in chunks:
        response.add(chunk)
    response.end()
    return JSONResponse(response.to_dict(response.status), headers=headers)


def _run_request(request: ApiRequest, body: ResponsesBody) -> RunRequest:
    agent = agent_named(request, body.model)
    system, messages = parse_messages(messages_of(body.input))
    tools, fields = apply_tool_choice(
        body.tool_choice, [*map(outside_tool, body.tools or ())], list(agent.tools)
    )
    fields |= {name: getattr(body, name) for name in FORWARDED if getattr(body, name) is not None}
    if body.max_output_tokens is not None:
        fields["max_tokens"] = body.max_output_tokens
    if body.reasoning is not None:
        reject_extra(body.reasoning.model_extra, "reasoning")
        fields |= {"reasoning_effort": body.reasoning.effort} if body.reasoning.effort else {}
    if body.text is not None:
        reject_extra(body.text.model_extra, "text")
        fields |= {"verbosity": body.text.verbosity} if body.text.verbosity else {}
        fields |= _format(body.text.format)
    system = "\n\n".join(filter(None, (body.instructions, system)))
    return RunRequest(body.model, messages, system, tools, fields, {"user": body.user} if body.user else {})


def _format(text_format: dict[str, Any] | None) -> dict[str, Any]:
    if text_format is None or text_format.get("type") == "text":
        return {}
    options = {name: value for name, value in text_format.items() if name != "type"}
    nested = {"json_schema": options} if text_format.get("type") == "json_schema" else options
    return {"response_format": {"type": text_format.get("type"), **nested}}


class _ResponseBuilder(PartWriter):
    """Builds a response: its output items, and their events."""

    def __init__(self, body: ResponsesBody, turn: RequestRun) -> None:
        super().__init__(turn)
        self._body = body
        self._id, self._created = f"resp_{secrets.token_hex(16)}", int(time.time())
        self._output: list[dict[str, Any]] = []
        self._count = 0

    @property
    def status(self) -> str:
        """The final status."""
        statuses = {"error": "failed", "length": "incomplete", "content_filter": "incomplete"}
        return statuses.get(self.turn.finish, "completed")

    def to_dict(self, status: str) -> dict[str, Any]:
        """Return the response in its current state."""
        body, turn = self._body, self.turn
        tool_fields = body.model_dump(mode="json", include={"tools", "tool_choice"}, exclude_none=True)
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(turn.finish)
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": body.model,
            "output": self._output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "tool_choice": tool_fields.get("tool_choice", "auto"),
            "tools": tool_fields.get("tools", []),
            "error": {"code": "server_error", "message": turn.error} if turn.error else None,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": body.instructions,
            "metadata": body.metadata or {},
            "temperature": body.temperature,
            "top_p": body.top_p,
            "max_output_tokens": body.max_output_tokens,
            "previous_response_id": None,
            "store": False,
            "truncation": "auto",
            "usage": None if status in ("in_progress", "failed") else self._usage(),
        }

    def _usage(self) -> dict[str, Any]:
        usage = self.turn.usage
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }

    def begin(self) -> list[StreamEvent]:
        states = ("created", "in_progress")
        return [self._event(f"response.{state}", response=self.to_dict("in_progress")) for state in states]

    def delta(self, text: str) -> StreamEvent:
        self._part["text"] += text
        return self._item_event(f"{self._name}.delta", delta=text, **self._logprobs)

    def finish(self) -> list[StreamEvent]:
        return [self._event(f"response.{self.status}", response=self.to_dict(self.status))]

    @property
    def _part(self) -> dict[str, Any]:
        part: dict[str, Any] = self._output[-1]["content"][0]
        return part

    @property
    def _name(self) -> str:
        return f"response.{self._part['type']}"

    @property
    def _logprobs(self) -> dict[str, Any]:
        return {"logprobs": []} if self.open_kind == "text" else {}

    def opened(self) -> list[StreamEvent]:
        item: dict[str, Any]
        if self.open_kind == "text":
            item = {"type": "message", "id": f"msg_{secrets.token_hex(12)}", "role": "assistant"}
            part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        else:
            item = {"type": "reasoning", "id": f"rs_{secrets.token_hex(12)}", "summary": []}
            part = {"type": "reasoning_text", "text": ""}
        item |= {"status": "in_progress", "content": []}
        self._output.append(item)
        added = self._output_event("added")
        item["content"].append(part)
        return [added, self._item_event("response.content_part.added", part=dict(part))]

    def closed(self) -> list[StreamEvent]:
        self._output[-1]["status"] = "completed"
        return [
            self._item_event(f"{self._name}.done", text=self._part["text"], **self._logprobs),
            self._item_event("response.content_part.done", part=dict(self._part)),
            self._output_event("done"),
        ]

    def outside_call(self, call: OutsideCall) -> list[StreamEvent]:
        ids = {"id": f"fc_{secrets.token_hex(12)}", "call_id": call.id}
        item = {"type": "function_call", **ids, "name": call.tool, "arguments": "", "status": "in_progress"}
        self._output.append(item)
        added, arguments = self._output_event("added"), json.dumps(call.args)
        item |= {"arguments": arguments, "status": "completed"}
        position = {"item_id": item["id"], "output_index": len(self._output) - 1}
        return [
            added,
            self._event("response.function_call_arguments.delta", **position, delta=arguments),
            self._event(
                "response.function_call_arguments.done", **position, name=call.tool, arguments=arguments
            ),
            self._output_event("done"),
        ]

    def _item_event(self, name: str, /, **fields: Any) -> dict[str, Any]:
        index, item = len(self._output) - 1, self._output[-1]["id"]
        return self._event(name, item_id=item, output_index=index, content_index=0, **fields)

    def _output_event(self, change: str) -> dict[str, Any]:
        item = dict(self._output[-1])
        if "content" in item:
            item["content"] = [dict(part) for part in item["content"]]
        return self._event(f"response.output_item.{change}", output_index=len(self._output) - 1, item=item)

    def _event(self, name: str, /, **fields: Any) -> dict[str, Any]:
        self._count += 1
        return {"type": name, "sequence_number": self._count - 1, **fields}


OPERATIONS = [
    Operation("POST", "/v1/responses", "openai_response", "Create a response.", _respond, ResponseAbout,
              body=ResponsesBody, media=STREAM, problems=(404, 503)),
]  # fmt: skip
