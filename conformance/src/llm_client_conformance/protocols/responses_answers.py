"""Answers of the Responses protocol: events of a stream, or a whole response, with encrypted reasoning."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance.scripted.completions import Writing, sse, to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import ServerFault
from llm_client_conformance.scripted.history import loads_exactly
from llm_client_conformance.values import Delta, TokenUsage, ToolCallDelta

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TOP_LEVEL = frozenset({
    "access_programs", "background", "background_options", "context_management", "conversation", "image",
    "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
    "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
    "service_tier", "store", "stream", "stream_options", "temperature",
    "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(slots=True)
class IssuedItems:
    """Items that a server has sent.

    Args:
        reasoning: Reasoning items, by encrypted content.
        followers: Type of the item after each reasoning item, by encrypted content.
        stored: Conversations that end with a stored response, by id of that response.
        ended: Ended responses, by id.
    """

    reasoning: dict[str, dict[str, Any]] = field(default_factory=dict)
    followers: dict[str, str] = field(default_factory=dict)
    stored: dict[str, list[Any]] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, response: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        """Store a response that has ended, and return it."""
        self.ended[response["id"]] = response
        if request.get("store") is not False:
            before = self.stored.get(str(request.get("previous_response_id")), [])
            sent = request.get("input")
            items = sent if isinstance(sent, list) else []
            self.stored[response["id"]] = [*before, *items, *response["output"]]
        return response


@dataclass(slots=True)
class ResponsesWriting(Writing):
    """Writer of one response.

    Args:
        issued: Object that stores the sent reasoning and the stored responses.
        request: The body of the request.
    """

    issued: IssuedItems = field(default_factory=IssuedItems)
    request: Mapping[str, Any] = field(default_factory=dict)
    encrypts: bool = True
    _items: list[dict[str, Any]] = field(default_factory=list)
    _kind: str = ""
    _number: int = 0
    _reason: str | None = None
    _usage: TokenUsage | None = None

    def frames(self, delta: Delta) -> list[bytes]:
        """Return the events for a delta."""
        return [self._frame(event) for event in self._events(delta)]

    def last_frames(self, *, done: bool) -> list[bytes]:
        """Return the events that end the response; without a finish reason, only those of its items."""
        events = [*self._begun(), *self._closed()]
        if self._reason is not None and done:
            response = self.issued.keep(self._response(), self.request)
            events.append({"type": f"response.{response['status']}", "response": response})
        return [self._frame(event) for event in events]

    def prefix(self) -> bytes:
        """Return the start of a whole response."""
        return to_json({"id": f"resp_{self.number}", "object": "response"})[:-1]

    def body(self) -> bytes:
        """Return the whole response."""
        for delta in self._deltas:
            for _ in self._events(delta):
                pass
        for _ in self._closed():
            pass
        response = self.issued.keep(self._response(), self.request)
        return to_json(self.state(response))

    def state(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the immediate answer of the server; in the background, a response that has not started."""
        if self.request.get("background"):
            return {**response, "status": "queued", "output": [], "usage": None}
        return response

    def _events(self, delta: Delta) -> Iterator[dict[str, Any]]:
        yield from self._begun()
        item: dict[str, Any]
        if delta.reasoning:
            item = {"type": "reasoning", "id": self._id("rs"), "summary": []}
            yield from self._opened("reasoning", item)
            yield from self._summary(delta.reasoning)
        if delta.text:
            item = {"type": "message", "id": self._id("msg"), "role": "assistant", "status": "in_progress"}
            yield from self._opened("message", {**item, "content": []})
            if not self._items[-1]["content"]:
                part = {"type": "output_text", "text": "", "annotations": []}
                self._items[-1]["content"].append(dict(part))
                yield self._event("response.content_part.added", content_index=0, part=part)
            self._items[-1]["content"][0]["text"] += delta.text
            yield self._event("response.output_text.delta", content_index=0, delta=delta.text)
        for call in delta.tool_calls:
            yield from self._call(call)
        self._reason = delta.finish_reason or self._reason
        self._usage = delta.usage or self._usage

    def _call(self, call: ToolCallDelta) -> Iterator[dict[str, Any]]:
        tools = self.request.get("tools") or ()
        is_custom = any(t.get("type") == "custom" and t["name"] == call.name for t in tools)
        item: dict[str, Any] = {"id": self._id("fc"), "call_id": call.id or "", "name": call.name or ""}
        if is_custom:
            item |= {"type": "custom_tool_call", "input": ""}
        else:
            item |= {"type": "function_call", "arguments": "", "status": "in_progress"}
        yield from self._opened(f"call {call.index}", item)
        if not isinstance(call.arguments, str) or not call.arguments:
            return
        if "input" in self._items[-1]:
            self._items[-1]["input"] += call.arguments  # remains JSON until the item is complete
        else:
            self._items[-1]["arguments"] += call.arguments
            yield self._event("response.function_call_arguments.delta", delta=call.arguments)

    def _summary(self, text: str) -> Iterator[dict[str, Any]]:
        summary = self._items[-1]["summary"]
        if not summary:
            part = {"type": "summary_text", "text": ""}
            summary.append(dict(part))
            yield self._event("response.reasoning_summary_part.added", summary_index=0, part=part)
        summary[0]["text"] += text
        yield self._event("response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _begun(self) -> Iterator[dict[str, Any]]:
        if self._number == 0:
            for kind in ("response.created", "response.in_progress", "response.an_event_of_the_future"):
                response = {"id": f"resp_{self.number}", "status": "in_progress"}
                yield {"type": kind, "response": response}

    def _opened(self, kind: str, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._kind != kind:
            yield from self._closed()
            self._kind = kind
            self._items.append(item)
            yield self._event("response.output_item.added", item=dict(item))

    def _closed(self) -> Iterator[dict[str, Any]]:
        if not self._kind:
            return
        self._kind = ""
        item = self._items[-1]
        if item["type"] == "reasoning":
            item["encrypted_content"] = self._encrypted(item) if self.encrypts else None
        elif item["type"] == "custom_tool_call":
            item["input"] = _text_of(item["input"])
            for piece in (item["input"][:3], item["input"][3:]):
                yield self._event("response.custom_tool_call_input.delta", delta=piece)
            self._follow(item)
        else:
            item["status"] = "completed"
            self._follow(item)
        yield self._event("response.output_item.done", item=dict(item))

    def _encrypted(self, item: dict[str, Any]) -> str:
        seed = f"{len(self.issued.reasoning)} {item['summary']}"
        content = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()
        self.issued.reasoning[content] = {**item, "encrypted_content": content}
        return content

    def _follow(self, item: Mapping[str, Any]) -> None:
        before = self._items[-2] if len(self._items) > 1 else {}
        if before.get("type") == "reasoning" and before.get("encrypted_content"):
            self.issued.followers[before["encrypted_content"]] = item["type"]

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        index = len(self._items) - 1
        return {"type": kind, "output_index": index, "item_id": self._items[-1]["id"], **fields}

    def _frame(self, event: dict[str, Any]) -> bytes:
        self._number += 1
        return sse(to_json({**event, "sequence_number": self._number}), event["type"])

    def _id(self, kind: str) -> str:
        return f"{kind}_{self.number}_{len(self._items)}"

    def _response(self) -> dict[str, Any]:
        reason = _INCOMPLETE.get(self._reason or "")
        usage = self._usage
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "model": self.model,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None,
            "output": self._items,
            "usage": usage
            and {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cached_tokens or 0,
                    "cache_write_tokens": usage.cache_write_tokens or 0,
                },
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
                "total_tokens": usage.total_tokens,
            },
        }


def _text_of(arguments: str) -> str:
    """Return the input text of a custom tool for the arguments in a script."""
    try:
        return "".join(map(str, loads_exactly(arguments).values()))
    except (ValueError, AttributeError):
        return arguments


@dataclass(frozen=True, slots=True)
class ResponseItems(ServerFault):
    """A response made of items of the protocol; created by `response_items`."""

    items: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any]

    async def play(self, out: Exchange) -> bool:
        """Send the response."""
        writing = out.writing
        assert isinstance(writing, ResponsesWriting)
        response = {**writing._response(), "output": list(self.items), **self.fields}
        writing.issued.keep(response, writing.request)
        if not out.streamed:
            await out.respond(200, to_json(writing.state(response)))
            return False
        for frame in writing.frames(Delta()):
            await out.write(frame)
        for index, item in enumerate(self.items):
            await out.write(writing._frame(_at(index, "response.output_item.added", item=_emptied(item))))
            await out.write(writing._frame(_at(index, "response.output_item.done", item=item)))
        await out.write(writing._frame({"type": f"response.{response['status']}", "response": response}))
        await out.end()
        return False


@dataclass(frozen=True, slots=True)
class Detach(ServerFault):
    """A stream that breaks while the server completes its response in the background.

    Args:
        rest: Text of the rest of the response.
    """

    rest: str = ""

    async def play(self, out: Exchange) -> bool:
        """Complete the response, and break the connection."""
        assert isinstance(out.writing, ResponsesWriting)
        out.writing.frames(Delta(self.rest, finish_reason="stop"))
        out.writing.last_frames(done=True)
        await out.reset()
        return False


def response_items(*items: Mapping[str, Any], **fields: Any) -> ResponseItems:
    """Return a response made of these items, for `ResponsesServer`; a stream has no deltas.

    Args:
        items: Output items.
        fields: Further fields of the response, such as ``status`` or ``incomplete_details``.
    """
    return ResponseItems(items, fields)


def _at(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "output_index": index, **fields}


def _emptied(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "arguments": ""} if "arguments" in item else dict(item)
