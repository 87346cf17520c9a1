"""Translation of other protocols' messages to chat completions. Pure.

Supports Anthropic's content blocks, items of the Responses API, Gemini's parts, and the formats of LangChain
and the AI SDK. Unknown kinds of blocks are rejected by name: nothing in a history is dropped silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import HistoryError
from pure_agent_loop.llm.values import JsonFields
from pure_agent_loop.support.text import to_jsonable

Message = dict[str, Any]
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_OTHER_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
_KINDS = {  # block types, with "_" in place of "-", by kind of block
    "text": "text input_text output_text summary_text",
    "call": "tool_use tool_call function_call custom_tool_call",
    "result": "tool_result function_call_output custom_tool_call_output function_response",
    "thought": "thinking reasoning",
    "media": "image image_url input_image document input_file file inline_data",
    "nothing": "redacted_thinking redacted_reasoning step_start",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_PARTS = {  # fields of Gemini's parts, which have no type
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
}
_IDS = ("call_id", "tool_use_id", "tool_call_id", "toolCallId", "id")


def translated(messages: Iterable[Any]) -> Iterator[tuple[int, Any, bool]]:
    """Yield each message with its number, and whether it was translated; one message may become several.

    Raises:
        HistoryError: A block has no counterpart in chat completions.
    """
    # The newest translation; the next may be merged into it, because one response may be spread over several
    # messages.
    held: tuple[int, Message] | None = None
    for number, original in enumerate(messages):
        message = _unwrapped(original)
        if not isinstance(message, Mapping) or not _is_foreign(message):
            if held is not None:
                yield (*held, True)
                held = None
            yield number, message, False
            continue
        for translation in _read(message, f"messages[{number}]"):
            if held is not None and held[1]["role"] == translation["role"] == "assistant":
                held = held[0], _merged(held[1], translation)
                continue
            if held is not None:
                yield (*held, True)
            held = number, translation
    if held is not None:
        yield (*held, True)


def _unwrapped(message: Any) -> Any:
    """Return a message without the wrapper of a library."""
    if not isinstance(message, Mapping) and callable(getattr(message, "model_dump", None)):
        message = message.model_dump(mode="json", exclude_none=True)
    if isinstance(message, Mapping) and "lc" in message and isinstance(message.get("kwargs"), Mapping):
        return message["kwargs"]
    if isinstance(message, Mapping) and isinstance(message.get("data"), Mapping) and "role" not in message:
        return {**message["data"], "type": message.get("type")}
    return message


def _role_of(message: JsonFields) -> str:
    role = message.get("role") or str(message.get("type")).removesuffix("MessageChunk").lower()
    return _OTHER_ROLES.get(role, role) if isinstance(role, str) else ""


def _is_foreign(message: JsonFields) -> bool:
    if message.get("role") not in _ROLES:
        kind = _KIND_OF.get(str(message.get("type")))
        return _role_of(message) in _ROLES or kind in ("call", "result", "thought")
    calls = message.get("tool_calls")
    return (
        message.get("type") == "message"
        or isinstance(message.get("parts"), list)
        or (isinstance(calls, list) and any(map(_is_other_call, calls)))
        or (isinstance(message.get("content"), list) and _are_foreign(message["content"]))
    )


def _are_foreign(parts: list[Any]) -> bool:
    """Return True for another protocol's blocks, or strings among blocks; other values are repaired later."""
    blocks = [part for part in parts if not isinstance(part, str)]
    has_texts = len(blocks) < len(parts)
    have_types = all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in blocks)
    return not all(map(_is_native, blocks)) or (has_texts and have_types)


def _is_other_call(call: object) -> bool:
    return isinstance(call, Mapping) and ("args" in call or isinstance(call.get("custom"), Mapping))


def _is_native(part: Any) -> bool:
    """Return True for a chat-completions part: text, or a part whose type is the name of its field."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str):
        return True  # not a block: repaired later
    if kind in ("text", "refusal"):
        return True
    return isinstance(part.get(kind), Mapping) and kind != "reasoning"


def _merged(first: Message, second: Message) -> Message:
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    thoughts = [m["reasoning"] for m in (first, second) if m.get("reasoning")]
    content = [c for c in (first.get("content"), second.get("content")) if c]
    parts = [part for c in content for part in ([_text({"text": c})] if isinstance(c, str) else c)]
    is_text = all(isinstance(c, str) for c in content)
    return {
        "role": "assistant",
        "content": ("\n".join(content) or None) if is_text else parts,
        **({"tool_calls": calls} if calls else {}),
        **({"reasoning": "\n".join(thoughts)} if thoughts else {}),
    }


def _read(message: JsonFields, place: str) -> Iterator[Message]:
    """Yield the translations of a foreign message."""
    role = _role_of(message)
    if role not in _ROLES:  # a bare item outside of any message
        reading = _MessageTranslation("assistant", message, "{}")
        return reading.run([message], place)
    field = "parts" if isinstance(message.get("parts"), list) else "content"
    content = message.get(field)
    reading = _MessageTranslation(role, message, "{}." + field + "[{}]")
    return reading.run(content if isinstance(content, list) else [content or ""], place)


class _MessageTranslation:
    """Translates one message."""

    def __init__(self, role: str, message: JsonFields, form: str) -> None:
        self._role, self._message, self._form = role, message, form
        self._parts: list[Message] = []
        self._thoughts: list[str] = []
        given, kinds = message.get("tool_calls"), (list, tuple)
        calls = [call for call in given if isinstance(call, Mapping)] if isinstance(given, kinds) else []
        self._calls = [_call(call) if _is_other_call(call) else dict(call) for call in calls]
        # Ids of known calls, because a block may repeat a call.
        self._known = {call.get("id") for call in self._calls}

    def run(self, blocks: list[Any], place: str) -> Iterator[Message]:
        for number, item in enumerate(blocks):
            where = self._form.format(place, number)
            kind, block = _kind(item, where)
            self._add(kind, block, where)
            has_ended = kind == "both" and ("output" in block or "errorText" in block)
            if kind == "result" or has_ended:
                if self._role == "assistant":
                    yield from self._answer()
                yield from _result(block, where)
        if self._role == "assistant":
            yield from self._answer()
        elif self._parts:
            is_text = all(set(part) == {"type", "text"} for part in self._parts)
            texts = "\n".join(part.get("text", "") for part in self._parts)
            message = {"role": self._role, "content": texts if is_text else self._parts}
            yield (
                {**message, "tool_call_id": _first(self._message, _IDS)} if self._role == "tool" else message
            )

    def _add(self, kind: str, block: JsonFields, place: str) -> None:
        if kind == "call" and _first(block, _IDS) not in self._known:
            self._calls.append(_call(block))
        elif kind == "both":
            name = block.get("toolName") or block["type"].partition("-")[2]
            self._calls.append(_call({**block, "name": name}))
        elif kind == "thought":
            self._thoughts.append(_thought(block))
        elif kind == "media":
            self._parts.append(_medium(block, place))
        elif kind in ("native", "text"):
            self._parts.append(dict(block) if kind == "native" else _text(block))

    def _answer(self) -> Iterator[Message]:
        is_text = all("text" in part or "refusal" in part for part in self._parts)
        texts = (str(part.get("text") or part.get("refusal") or "") for part in self._parts)
        text = "\n".join(texts) if is_text else self._parts
        thought = "\n".join(filter(None, self._thoughts))
        if text or self._calls or thought:
            yield {
                "role": "assistant",
                "content": text or None,
                **({"tool_calls": self._calls} if self._calls else {}),
                **({"reasoning": thought} if thought else {}),
            }
        self._parts, self._calls, self._thoughts = [], [], []


def _kind(block: object, place: str) -> tuple[str, JsonFields]:
    if isinstance(block, str):
        return "text", {"text": block}
    if not isinstance(block, Mapping):
        raise HistoryError(f"{place} must be a content block (a dict with 'type'); it is {block!r:.80}.")
    if "type" not in block:  # a Gemini part
        for camel, snake in _PARTS.items():
            inner = block.get(camel, block.get(snake))
            if isinstance(inner, Mapping):
                return _KIND_OF[snake], inner
        if isinstance(block.get("text"), str):
            return ("thought" if block.get("thought") is True else "text"), block
    name = str(block.get("type"))
    kind = _KIND_OF.get(name.replace("-", "_"))
    if kind is None and name.startswith(("tool-", "dynamic-tool")) and "toolCallId" in block:
        return "both", block
    if name == "refusal" or (_is_native(block) and name in block):
        return "native", block
    if kind is None:
        name = name if "type" in block else ", ".join(map(str, block))
        raise HistoryError(
            f"{place} has the type {name!r}, which has no counterpart in chat completions. Write it as text, "
            f"or leave it out. Supported types: {', '.join(_KIND_OF)}."
        )
    return kind, block


def _text(block: JsonFields) -> Message:
    mark = {"cache_control": block["cache_control"]} if block.get("cache_control") else {}
    return {"type": "text", "text": str(block.get("text") or ""), **mark}


def _first(block: JsonFields, names: Iterable[str]) -> Any:
    return next((block[name] for name in names if block.get(name) is not None), None)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(to_jsonable(value), ensure_ascii=False)


def _call(block: JsonFields) -> Message:
    # Translate a call whose input is text, not JSON.
    custom = block if block.get("type") == "custom_tool_call" else block.get("custom")
    source = {**custom, "input": {"input": custom.get("input")}} if isinstance(custom, Mapping) else block
    arguments = _first(source, ("input", "args", "arguments"))
    arguments = {} if arguments is None else arguments
    name = str(_first(source, ("name", "toolName")))
    function = {"name": name, "arguments": _as_text(arguments)}
    return {"id": _first(block, _IDS), "type": "function", "function": function}


def _thought(block: JsonFields) -> str:
    content = _first(block, ("thinking", "text", "reasoning", "summary", "content"))
    texts = content if isinstance(content, list) else [content]
    return "\n".join(str(t.get("text", "")) if isinstance(t, Mapping) else str(t or "") for t in texts)


def _result(block: JsonFields, place: str) -> Iterator[Message]:
    content = _first(block, ("content", "output", "result", "response", "errorText"))
    if isinstance(content, Mapping) and "value" in content and "type" in content:  # the form of the AI SDK
        content = content["value"]
    media: list[Message] = []
    if isinstance(content, list) and content and all(isinstance(b, Mapping) and "type" in b for b in content):
        kinds = [_kind(inner, f"{place}.content[{number}]") for number, inner in enumerate(content)]
        media = [
            _medium(b, place) if k == "media" else dict(b)
            for k, b in kinds
            if k == "media" or (k == "native" and "text" not in b)
        ]
        content = "\n".join(str(b.get("text")) for k, b in kinds if "text" in b)
    text = "" if content is None else _as_text(content)
    message = {"role": "tool", "tool_call_id": _first(block, _IDS), "content": text}
    if block.get("is_error") is True or "errorText" in block:
        message["meta"] = {"failed": True}
    name = _first(block, ("name", "toolName"))
    yield {**message, "name": name} if isinstance(name, str) and message["tool_call_id"] is None else message
    if media:
        yield {"role": "user", "content": media, "meta": {"synthetic": True}}


def _medium(block: JsonFields, place: str) -> Message:
    source = block.get("source")
    source = source if isinstance(source, Mapping) else block
    mime = str(_first(source, ("media_type", "mime_type", "mimeType", "mediaType")) or "")
    data = _first(source, ("data", "base64", "file_data", "image"))
    url = _first(source, ("url", "image_url"))
    if isinstance(data, str) and source.get("type") == "text":
        return {"type": "text", "text": data}
    if isinstance(data, str) and not data.startswith(("data:", "http://", "https://")):
        data = f"data:{mime or 'image/png'};base64,{data}"
    address = data if isinstance(data, str) else url
    is_image = "image" in str(block.get("type")) or mime.startswith("image/")
    if is_image and isinstance(address, str):
        return {"type": "image_url", "image_url": {"url": address}}
    name = _first(block, ("filename", "title", "name")) or "document"
    if not is_image and isinstance(data, str):
        return {"type": "file", "file": {"filename": str(name), "file_data": data}}
    if not is_image and isinstance(block.get("file_id"), str):
        return {"type": "file", "file": {"file_id": block["file_id"]}}
    raise HistoryError(
        f"{place} has the type {block.get('type')!r} but no data to send. Pass its bytes as base64."
    )
