"""A server with OpenAI's Responses protocol that plays a script and refuses what the real one refuses.

Sources of the refusals: ``[O]`` types of the ``openai`` package 3.57.0; issues are named by repository and
number.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta
from pure_agent_loop.testing.completions import Writing, sse, to_json
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import ServerFault
from pure_agent_loop.testing.history import loads_exactly
from pure_agent_loop.testing.request import ServerRequest
from pure_agent_loop.testing.server import ScriptedServer

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


class ResponsesServer(ScriptedServer):
    """Responses server that plays a script over real sockets; see `ScriptedServer`.

    It answers ``POST .../responses``, and for responses in the background ``GET .../responses/ID`` and
    ``POST .../responses/ID/cancel``. Reasoning is encrypted, and must come back as it was sent, before the
    item that followed it. Scripts may hold `response_items` and `Detach` besides the usual items.

    Args:
        script: See `ScriptedServer`.
        options: Further arguments of `ScriptedServer`.
    """

    _path = "/responses"
    _always_counts = True

    def __init__(self, script: Any = None, **options: Any) -> None:
        super().__init__(script, **options)
        self.issued = IssuedItems()
        self.polls: Iterator[str | int] = iter(())
        """Answers to polls, before the response: a status of a response, or an HTTP status."""
        self.cancelled: list[str] = []
        """Ids of the responses that were cancelled."""

    def forget(self) -> None:
        """Delete the stored responses."""
        self.issued.stored.clear()

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        body = request.body if isinstance(request.body, dict) else {}
        writing = ResponsesWriting(number, str(body.get("model")), issued=self.issued, request=body)
        writing.encrypts = "reasoning.encrypted_content" in (body.get("include") or ())
        return writing

    def _problems_of(self, request: ServerRequest) -> list[str]:
        return check_responses_request(request.body, issued=self.issued)

    async def _route(self, request: ServerRequest, out: Exchange) -> None:
        path = re.search(r"/responses/([^/?]+)(/cancel)?(\?.*)?$", request.path)
        previous = request.options.get("previous_response_id")
        if path is not None:
            self.other_requests.append(request)
            query = urllib.parse.parse_qs((path[3] or "")[1:])
            encrypts = "reasoning.encrypted_content" in query.get("include[]", ())
            await self._about(path[1], out, is_cancel=path[2] is not None, encrypts=encrypts)
        elif previous is not None and previous not in self.issued.stored:
            self.requests.append(request)
            words = f"Previous response with id '{previous}' not found."
            error = {"message": words, "code": "previous_response_not_found"}
            await out.respond(400, to_json({"error": error}))
        else:
            await super()._route(request, out)

    async def _about(self, response_id: str, out: Exchange, *, is_cancel: bool, encrypts: bool) -> None:
        """Answer a request about a response in the background."""
        response = self.issued.ended.get(response_id)
        if response is not None and not encrypts:
            output = [
                {**item, "encrypted_content": None} if "summary" in item else item
                for item in response["output"]
            ]
            response = {**response, "output": output}
        if is_cancel:
            self.cancelled.append(response_id)
            state: str | int = "cancelled"
        else:
            state = next(self.polls, "" if response is not None else 404)
        if isinstance(state, int):
            await out.respond(state, to_json({"error": {"message": f"Response {response_id!r}: {state}"}}))
        else:
            running = {"id": response_id, "status": state, "output": []}
            await out.respond(200, to_json(running if state else response))


@dataclass(slots=True)
class IssuedItems:
    """Items that a server has sent.

    Args:
        reasoning: Reasoning items, by encrypted content.
        followers: Type of the item after each reasoning item, by encrypted content.
        stored: Conversations that end with a stored response, by its id.
        ended: Ended responses, by id.
    """

    reasoning: dict[str, dict[str, Any]] = field(default_factory=dict)
    followers: dict[str, str] = field(default_factory=dict)
    stored: dict[str, list[Any]] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, response: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a response that has ended; return it."""
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
        issued: Where reasoning and stored responses are kept.
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
        """Return the events that end the response; none after its items unless it has a finish reason."""
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
        """Return what the server answers at once: in the background, a response that has not begun."""
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
            self._items[-1]["input"] += call.arguments  # JSON until the item is complete
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
    """Return the text that a custom tool is called with, for the arguments of a script."""
    try:
        return "".join(map(str, loads_exactly(arguments).values()))
    except (ValueError, AttributeError):
        return arguments


@dataclass(frozen=True, slots=True)
class ResponseItems(ServerFault):
    """A response made of items of the protocol; make one with `response_items`."""

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
    """Return a response made of these items, for `ResponsesServer`; in a stream, without deltas.

    Args:
        items: Output items.
        fields: Further fields of the response, such as ``status`` or ``incomplete_details``.
    """
    return ResponseItems(items, fields)


def _at(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "output_index": index, **fields}


def _emptied(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "arguments": ""} if "arguments" in item else dict(item)


# -- refusals --------------------------------------------------------------------------------------------


def check_responses_request(body: Any, *, issued: IssuedItems | None = None) -> list[str]:
    """Check the body of a Responses request as the API does.

    Args:
        body: The parsed JSON.
        issued: Reasoning that was sent before; None to skip the rules for it.

    Returns:
        One sentence per violation, with the source of the rule; empty if the request is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body is not a JSON object"]
    problems = [f"{name}: unknown parameter [O]" for name in body if name not in _TOP_LEVEL]
    problems += [*_check_tools(body), *_check_background(body)]
    items = body.get("input")
    if not isinstance(items, list):
        return [*problems, "input: a list of items is required [O]"]
    stored = [] if issued is None else issued.stored.get(str(body.get("previous_response_id")), [])
    items = [*stored, *items]
    return [*problems, *_check_items(items, len(stored)), *_check_reasoning(items, body, issued)]


def _check_background(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("background") and body.get("store") is False:
        yield "store: a response in the background must be stored (vllm-project/vllm: Responses entrypoint)"
    window = (body.get("background_options") or {}).get("completion_window", "soonest")
    if window != "soonest" and (not body.get("background") or body.get("stream")):
        yield f"background_options.completion_window: {window} needs background and no stream [O]"


def _check_tools(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or ()
    yield from _check_definitions(tools, "tools")
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none") and not tools:
        yield "tool_choice: only allowed with tools [O]"
    if not isinstance(choice, Mapping):
        return
    if choice.get("type") in ("function", "custom") and "name" not in choice:
        yield "tool_choice.name: missing required parameter [O]"
    if choice.get("type") == "allowed_tools" and (choice.get("mode") not in ("auto", "required")):
        yield "tool_choice.mode: auto or required [O]"


def _check_definitions(tools: Iterable[Mapping[str, Any]], place: str) -> Iterator[str]:
    for number, tool in enumerate(tools):
        kind = tool.get("type")
        for name in {"function": ("name", "parameters", "strict"), "custom": ("name",)}.get(str(kind), ()):
            if name not in tool:
                yield f"{place}[{number}].{name}: missing required parameter [O]"
        if kind in ("function", "custom") and not _NAME.fullmatch(str(tool.get("name"))):
            yield f"{place}[{number}].name: letters, digits, _ and - only [O]"


def _check_items(items: list[Any], stored: int) -> Iterator[str]:
    """Check the items of a conversation, of which the first are those that the server has itself."""
    open_calls: dict[str, str] = {}
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            if number >= stored:
                yield from _check_call(item, number)
            open_calls[str(item.get("call_id"))] = kind
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if open_calls.pop(str(item.get("call_id")), None) != kind.removesuffix("_output"):
                yield f"input[{number}]: no tool call found for call_id {item.get('call_id')!r} [O]"
        elif kind == "additional_tools":
            if item.get("role") != "developer":
                yield f"input[{number}].role: only developer is supported [O]"
            yield from _check_definitions(item["tools"], f"input[{number}].tools")
        elif kind == "message":
            yield from _check_message(item, number)
    for call in open_calls:
        yield f"input: no tool output found for function call {call} [O]"


def _check_call(item: Mapping[str, Any], number: int) -> Iterator[str]:
    is_function = item["type"] == "function_call"
    text = item.get("arguments" if is_function else "input")
    if not item.get("call_id") or not isinstance(text, str):
        yield f"input[{number}]: a call needs call_id and its input as text [O]"
    elif is_function:
        yield from _check_arguments(text, number)


def _check_arguments(text: str, number: int) -> Iterator[str]:
    try:
        loads_exactly(text)
    except (ValueError, RecursionError):
        yield f"input[{number}].arguments: invalid JSON [O]"


def _check_message(item: Mapping[str, Any], number: int) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"input[{number}].role: {role!r} is invalid [O]"
    if not isinstance(content, (str, list)):
        yield f"input[{number}].content: text or a list is required [O]"
    wrong = "output_text" if role == "user" else "input_text"
    if isinstance(content, list) and any(part.get("type") == wrong for part in content):
        yield f"input[{number}].content: {wrong} is invalid for the role {role} [O]"


def _check_reasoning(items: list[Any], body: Mapping[str, Any], issued: IssuedItems | None) -> Iterator[str]:
    """Check that reasoning is unchanged, before the item that followed it, and that no item comes twice."""
    if issued is None:
        return
    ids = [item["id"] for item in items if item.get("id")]
    for twice in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"input: duplicate item found with id {twice} (vercel/ai#15492)"
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        content = item.get("encrypted_content")
        if body.get("store") is False and not content:
            yield f"input[{number}]: item {item.get('id')} not found (openai/openai-agents-python#919)"
        elif content and issued.reasoning.get(content, {}).get("summary") != item.get("summary"):
            yield f"input[{number}]: the encrypted content could not be verified [O]"
        follower = issued.followers.get(str(content))
        after = items[number + 1].get("type", "message") if number + 1 < len(items) else None
        if follower is not None and after != follower:
            yield (
                f"input[{number}]: reasoning without its following item (openai/openai-agents-python#2503)"
            )
