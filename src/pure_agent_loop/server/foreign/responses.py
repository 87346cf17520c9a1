"""Responses: the same agents, with answers as lists of items."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.server.api.models import Answer
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.foreign.answers import Frames, StreamedAnswer, json_answer, whole
from pure_agent_loop.server.foreign.chat import STREAM, Asking, FunctionAbout, Tokens
from pure_agent_loop.server.foreign.history import (
    ONLY_NULLS,
    Open,
    check_fields,
    chosen,
    read_messages,
    refuse,
    refused_fields,
)
from pure_agent_loop.server.foreign.items import Item, messages_of
from pure_agent_loop.server.foreign.turn import OutsideCall, Piece, Turn, agent_named
from pure_agent_loop.server.foreign.wanted import Wanted, outside_tool

# Fields of the protocol that cannot be done here, with the values that ask for nothing. Nothing is kept, so
# there is no response to go on from: a request brings its history.
REFUSED: dict[str, tuple[Any, ...]] = {
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
PASSED = (
    "metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "temperature", "top_p", "user",
)  # fmt: skip


class Reasoning(Open):
    """How much a model thinks."""

    model_config = ONLY_NULLS
    effort: str | None = None


class TextOptions(Open):
    """What the text is to be."""

    model_config = ONLY_NULLS
    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesTool(FunctionAbout):
    """A tool of the caller."""

    type: Literal["function"]


class ResponsesBody(Asking):
    """A request for a response. A field that is not listed here is refused, if the protocol has it."""

    model_config = refused_fields(REFUSED)

    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    tools: list[ResponsesTool] | None = None
    max_output_tokens: Tokens = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None


class ResponseAbout(Answer):
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


async def _respond(asked: Asked) -> Response:
    body: ResponsesBody = asked.body
    headers = check_fields(body, REFUSED)
    turn = Turn(asked, _wanted(asked, body))
    made = _Response(body, turn)
    if body.stream:
        return StreamedAnswer(turn, made.events(), headers, named=True)
    pieces = await whole(turn, asked.request.receive)
    for piece in pieces:
        made.take(piece)
    made.end()
    return json_answer(made.about(made.status), headers)


def _wanted(asked: Asked, body: ResponsesBody) -> Wanted:
    agent = agent_named(asked, body.model)
    system, messages = read_messages(messages_of(body.input))
    tools, fields = chosen(body.tool_choice, [*map(outside_tool, body.tools or ())], list(agent.tools))
    fields |= {name: getattr(body, name) for name in PASSED if getattr(body, name) is not None}
    if body.max_output_tokens is not None:
        fields["max_tokens"] = body.max_output_tokens
    if body.reasoning is not None:
        refuse(body.reasoning.model_extra, "reasoning")
        fields |= {"reasoning_effort": body.reasoning.effort} if body.reasoning.effort else {}
    if body.text is not None:
        refuse(body.text.model_extra, "text")
        fields |= {"verbosity": body.text.verbosity} if body.text.verbosity else {}
        fields |= _format(body.text.format)
    system = "\n\n".join(filter(None, (body.instructions, system)))
    return Wanted(body.model, messages, system, tools, fields, {"user": body.user} if body.user else {})


def _format(given: dict[str, Any] | None) -> dict[str, Any]:
    if given is None or given.get("type") == "text":
        return {}
    about = {name: value for name, value in given.items() if name != "type"}
    named = {"json_schema": about} if given.get("type") == "json_schema" else about
    return {"response_format": {"type": given.get("type"), **named}}


class _Response:
    """A response while it is made: its items, and the events that tell of them.

    Args:
        body: The request.
        turn: The run.
    """

    def __init__(self, body: ResponsesBody, turn: Turn) -> None:
        self._body, self._turn = body, turn
        self._id, self._created = f"resp_{secrets.token_hex(16)}", int(time.time())
        self._output: list[dict[str, Any]] = []
        self._open = ""  # the kind of the item that goes on
        self._count = 0

    @property
    def status(self) -> str:
        """How it ended."""
        ends = {"error": "failed", "length": "incomplete", "content_filter": "incomplete"}
        return ends.get(self._turn.finish, "completed")

    def about(self, status: str) -> dict[str, Any]:
        """It, as it stands."""
        body, turn = self._body, self._turn
        given = body.model_dump(mode="json", include={"tools", "tool_choice"}, exclude_none=True)
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(turn.finish)
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": body.model,
            "output": self._output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "tool_choice": given.get("tool_choice", "auto"),
            "tools": given.get("tools", []),
            "error": {"code": "server_error", "message": turn.error} if turn.error else None,
            "incomplete_details": {"reason": why} if why else None,
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
        usage = self._turn.usage
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }

    async def events(self) -> Frames:
        """Run, and tell of it."""
        yield self._event("response.created", response=self.about("in_progress"))
        yield self._event("response.in_progress", response=self.about("in_progress"))
        async with aclosing(self._turn.pieces()) as pieces:
            async for piece in pieces:
                for event in self.take(piece):
                    yield event
        for event in self.end():
            yield event
        yield self._event(f"response.{self.status}", response=self.about(self.status))

    def take(self, piece: Piece) -> list[dict[str, Any]]:
        """A piece, as events."""
        kind = {"text": "message", "thinking": "reasoning"}.get(piece.kind)
        if kind is None:
            return self._close() if piece.kind == "break" else []
        events = [] if kind == self._open else [*self._close(), *self._begin(kind)]
        self._part["text"] += piece.text
        return [*events, self._told(f"{self._name}.delta", delta=piece.text, **self._more)]

    def end(self) -> list[dict[str, Any]]:
        """What comes behind the run."""
        events = self._close()
        for call in self._turn.calls:
            events += self._call(call)
        return events

    @property
    def _part(self) -> dict[str, Any]:
        part: dict[str, Any] = self._output[-1]["content"][0]
        return part

    @property
    def _name(self) -> str:
        return f"response.{self._part['type']}"

    @property
    def _more(self) -> dict[str, Any]:
        return {"logprobs": []} if self._open == "message" else {}

    def _begin(self, kind: str) -> list[dict[str, Any]]:
        self._open = kind
        item: dict[str, Any]
        if kind == "message":
            item = {"type": "message", "id": f"msg_{secrets.token_hex(12)}", "role": "assistant"}
            part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        else:
            item = {"type": "reasoning", "id": f"rs_{secrets.token_hex(12)}", "summary": []}
            part = {"type": "reasoning_text", "text": ""}
        item |= {"status": "in_progress", "content": []}
        self._output.append(item)
        added = self._told_item("added")
        item["content"].append(part)
        return [added, self._told("response.content_part.added", part=dict(part))]

    def _close(self) -> list[dict[str, Any]]:
        if not self._open:
            return []
        self._output[-1]["status"] = "completed"
        events = [
            self._told(f"{self._name}.done", text=self._part["text"], **self._more),
            self._told("response.content_part.done", part=dict(self._part)),
            self._told_item("done"),
        ]
        self._open = ""
        return events

    def _call(self, call: OutsideCall) -> list[dict[str, Any]]:
        about = {"type": "function_call", "id": f"fc_{secrets.token_hex(12)}", "call_id": call.id}
        item = {**about, "name": call.tool, "arguments": "", "status": "in_progress"}
        self._output.append(item)
        added, arguments = self._told_item("added"), json.dumps(call.args)
        item |= {"arguments": arguments, "status": "completed"}
        place = {"item_id": item["id"], "output_index": len(self._output) - 1}
        return [
            added,
            self._event("response.function_call_arguments.delta", **place, delta=arguments),
            self._event(
                "response.function_call_arguments.done", **place, name=call.tool, arguments=arguments
            ),
            self._told_item("done"),
        ]

    def _told(self, name: str, /, **about: Any) -> dict[str, Any]:
        index, item = len(self._output) - 1, self._output[-1]["id"]
        return self._event(name, item_id=item, output_index=index, content_index=0, **about)

    def _told_item(self, what: str) -> dict[str, Any]:
        item = dict(self._output[-1])
        if "content" in item:
            item["content"] = [dict(each) for each in item["content"]]
        return self._event(f"response.output_item.{what}", output_index=len(self._output) - 1, item=item)

    def _event(self, name: str, /, **about: Any) -> dict[str, Any]:
        self._count += 1
        return {"type": name, "sequence_number": self._count - 1, **about}


OPERATIONS = [
    Operation("POST", "/v1/responses", "openai_response", "A response of an agent.", _respond, ResponseAbout,
              body=ResponsesBody, media=STREAM, problems=(404, 503)),
]  # fmt: skip
