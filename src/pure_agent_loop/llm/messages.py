"""The history: builds messages, and repairs any list of messages.

In a valid history, each message is an object with a known role, and only the first may be a system message.
Content is text or a list of typed parts. Every call has exactly one result, right after the message with the
call and in the same order. Call ids are unique, arguments are JSON objects, and no text holds a lone
surrogate.

Inside a state, a message may carry the key ``meta``, whose fields `message_types.MessageMeta` describes.
`to_wire` removes ``meta``, which is never sent to a server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from pure_agent_loop.errors import HistoryError
from pure_agent_loop.llm.arguments import parse_arguments
from pure_agent_loop.llm.base import origin_of
from pure_agent_loop.llm.extra import extra_of_call, with_extra, without_extra
from pure_agent_loop.llm.response import LLMResponse, unique_id
from pure_agent_loop.llm.values import JsonFields, JsonObject, ToolCall
from pure_agent_loop.media import by_bytes, part_words
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import as_text, to_jsonable

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import (
        AssistantMessage,
        Content,
        HistoryMessage,
        ToolMessage,
        UserMessage,
        WireCall,
    )

Message: TypeAlias = dict[str, Any]  # message from a caller; see `message_types`
M = TypeVar("M", bound="JsonFields")
SYSTEM_ROLES = ("system", "developer")
ROLES = ("system", "developer", "user", "assistant", "tool")
META: Final = "meta"
_META_KEYS: dict[str, type] = {
    "model": bool,
    "before": list,
    "synthetic": bool,
    "facts": bool,
    "reasoning": str,
    "origin": str,
    "failed": bool,
}
# Keys for the origin of texts, which a history keeps in the mode ``guard``; see `kernel.origins`.
_GUARD_KEYS = ("synthetic", "before", "model")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.S | re.I)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def as_history(messages: list[Message]) -> list[HistoryMessage]:
    """Return the same messages with precise types; `repair_history` must have checked them."""
    return cast("list[HistoryMessage]", messages)


def as_messages(history: list[HistoryMessage]) -> list[Message]:
    """Return the same messages, typed as plain dicts, as a caller passes them."""
    return cast("list[Message]", history)


def calls_of(message: JsonFields) -> Sequence[WireCall]:
    """Return the calls of a message; empty if there are none."""
    return message.get("tool_calls") or ()


def user_message(text: str, media: Sequence[JsonFields] = (), *, synthetic: bool = False) -> UserMessage:
    """Build a user message with its media after the text; build a notice in that role if `synthetic`."""
    parts = [*([{"type": "text", "text": text}] if text else []), *media]
    message: UserMessage = {"role": "user", "content": to_jsonable(parts if media else text)}
    if synthetic:
        message[META] = {"synthetic": True}
    elif not text and media and media[0]["type"] == "text":
        message[META] = {"model": True}  # a file without a word from the user
    return message


def facts_message(text: str) -> UserMessage:
    """Build a notice with facts about the run, which is not shown to people as part of the conversation."""
    return {"role": "user", "content": text, META: {"synthetic": True, "facts": True}}


def assistant_message(response: LLMResponse) -> AssistantMessage:
    """Build the history message of a response."""
    message: AssistantMessage = {"role": "assistant", "content": response.content}
    if response.tool_calls:
        message["tool_calls"] = [wire_call(call) for call in response.tool_calls]
    elif response.content is None:
        message["content"] = ""
    if response.reasoning_content:
        message[META] = {"reasoning": response.reasoning_content}
    if response.origin:
        message.update(cast("AssistantMessage", response.extra or {}))
        message[META] = {**message.get(META, {}), "origin": response.origin}
    return message


def wire_call(call: ToolCall) -> WireCall:
    """Build the history form of a call."""
    arguments = _JSON.encode(call.arguments)
    # Strict servers reject names with other characters.
    name = _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown"
    wire: WireCall = {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    return with_extra(wire, call.extra) if call.extra else wire


def tool_message(call_id: str, content: str, *, failed: bool = False) -> ToolMessage:
    """Build the message with the result of a call."""
    message: ToolMessage = {"role": "tool", "tool_call_id": call_id, "content": content}
    if failed:
        message[META] = {"failed": True}
    return message


def has_failed(message: JsonFields) -> bool:
    """Return True for the result of a failed call."""
    return bool((message.get(META) or {}).get("failed"))


def media_message(results: Iterable[tuple[str, Iterable[JsonFields]]]) -> list[UserMessage]:
    """Build one user message from images and files that tools returned; empty if there are none.

    Args:
        results: The name of each tool, and its media parts.
    """
    content: list[JsonFields] = []
    for tool, parts in results:
        if media := list(parts):
            content += [{"type": "text", "text": model_text("media_of", tool=tool)}, *media]
    return [user_message("", content, synthetic=True)] if content else []


def is_media(message: JsonFields) -> bool:
    """Return True for a message from `media_message`, which belongs to the results before it."""
    return message["role"] == "user" and is_synthetic(message) and isinstance(message["content"], list)


def in_words(message: M, keep: Collection[str] = ()) -> M:
    """Replace the images and files in a message with descriptions.

    Args:
        message: A message whose content is a list of parts.
    """
    kept = ("text", *keep)
    return _with_words(message, "media_gone", [part["type"] not in kept for part in message["content"]])


def _with_words(message: M, sentence_id: str, replaced: Iterable[bool]) -> M:
    """Replace some parts of a message with descriptions; content with only text left becomes a string."""
    parts = [
        {"type": "text", "text": model_text(sentence_id, what=part_words(part))} if is_replaced else part
        for part, is_replaced in zip(message["content"], replaced, strict=True)
    ]
    is_text = all(part["type"] == "text" for part in parts)
    return cast("M", {**message, "content": text_of(parts) if is_text else parts})


def newest_question(messages: Sequence[M]) -> M | None:
    """Return the newest message from a person."""
    return next(filter(is_question, reversed(messages)), None)


def newest_question_at(messages: Sequence[JsonFields]) -> int:
    """Return the index of the newest message from a person; -1 if there is none."""
    return next((n for n in range(len(messages) - 1, -1, -1) if is_question(messages[n])), -1)


def is_question(message: JsonFields) -> bool:
    """Return True for a message from a person; False for framework notices."""
    return message["role"] == "user" and not is_synthetic(message)


def is_synthetic(message: JsonFields) -> bool:
    """Return True if no person and no model wrote the message."""
    return bool((message.get(META) or {}).get("synthetic"))


def is_facts(message: JsonFields) -> bool:
    """Return True for a message from `facts_message`."""
    return bool((message.get(META) or {}).get("facts"))


def without_refused(message: M, refused: frozenset[int]) -> M:
    """Replace the refused parts of a message with descriptions.

    Args:
        refused: Marks of the refused parts; see `mark_of`.
    """
    content = message.get("content")
    if not isinstance(content, list) or refused.isdisjoint(marks := list(map(mark_of, content))):
        return message
    return _with_words(message, "media_refused", [mark in refused for mark in marks])


def mark_of(part: JsonFields) -> int:
    """Return a hash of an image's or file's data or URL; cheap, because Python caches string hashes."""
    inner = part.get(part["type"])
    source = inner if isinstance(inner, Mapping) else {}
    return hash(source.get("url") or source.get("file_data") or source.get("data"))


def text_of(content: str | Iterable[JsonFields]) -> str:
    """Return the text of a message's content, without other parts such as images."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


def plain_text(content: Content | None) -> str:
    """Return the text of a response's content, refusals included."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return content or ""


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type, which may be empty, and the base64 of a ``data:`` URL; None for other URLs."""
    match = _DATA_URL.fullmatch(url)
    return (match[1], match[2]) if match else None


def written_content(
    content: Any, text: Callable[[str], JsonObject], media: Callable[[JsonFields], JsonObject | None]
) -> list[tuple[JsonFields, JsonObject]]:
    """Return the parts of a message, each with its form in a provider's protocol; blank texts are omitted.

    Args:
        text: Converts a string.
        media: Converts any other part; returns None for a kind that the protocol lacks, which is then
            described in text.
    """
    if isinstance(content, str):
        return [({}, text(content))] if content.strip() else []
    written: list[tuple[JsonFields, JsonObject]] = []
    for part in map(by_bytes, content or ()):
        kind = part["type"]
        if kind not in ("text", "refusal"):
            written.append((part, media(part) or text(model_text("media_gone", what=part_words(part)))))
        elif part[kind].strip():
            written.append((part, text(part[kind])))
    return written


def joined_content(first: object, second: object, between: str = "\n\n") -> Any:
    """Join two contents: strings with a separator, anything else as lists of parts."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{between}{second}" if first and second else first or second
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def to_wire(messages: Iterable[JsonFields], client: object = None) -> list[Message]:
    """Return messages in wire form: without `meta`, and without fields that another server added.

    Messages without `meta` are not copied.

    Args:
        client: The server's client; None for a server that added no fields.
    """
    sent = [
        message
        if META not in message
        else for_origin(message, origin_of(client))
        if "origin" in message[META]
        else {name: field for name, field in message.items() if name != META}
        for message in messages
    ]
    return cast("list[Message]", sent)


def for_origin(message: JsonFields, origin: str) -> Message:
    """Return the wire form of a message that has `meta`, for the server and model `origin`."""
    plain = {name: field for name, field in message.items() if name != META}
    added_by = message[META].get("origin")
    return plain if added_by in (None, origin) else without_extra(plain)


def to_keep(messages: Iterable[JsonFields], *, is_guarded: bool = False) -> list[Message]:
    """Return messages for a caller: in wire form, but with the origin of added fields in `meta`.

    In a history with such fields, `meta` also marks failed calls, so that a protocol with a field for
    failures gets the same bytes again.

    Args:
        is_guarded: True to also keep who wrote each message.
    """
    messages = list(messages)
    origins = [message[META].get("origin") for message in messages if META in message]
    kept = (*(("origin", "failed") if any(origins) else ()), *(_GUARD_KEYS if is_guarded else ()))
    told = [_with_meta(message, kept) if META in message else message for message in messages]
    return cast("list[Message]", told)


def _with_meta(message: JsonFields, names: Iterable[str]) -> Message:
    plain = {name: field for name, field in message.items() if name != META}
    meta = {name: message[META][name] for name in names if message[META].get(name)}
    return {**plain, META: meta} if meta else plain


def check_pairs(messages: Iterable[JsonFields]) -> None:
    """Reject a history in which results do not directly follow their calls.

    Raises:
        HistoryError: A call lacks its result, or a result its call.
    """
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting[:1]:
                raise HistoryError(f"A result without its call: {message.get('tool_call_id')!r}.")
            waiting.pop(0)
            continue
        if waiting:
            break
        waiting = [call["id"] for call in calls_of(message)]
    if waiting:
        raise HistoryError(f"Calls without a result: {', '.join(waiting)}.")


def repair_history(messages: Iterable[Any], lost: str) -> tuple[list[HistoryMessage], list[str]]:
    """Repair a history.

    Args:
        messages: Chat messages as dicts, e.g. from ``AgentResult.messages`` or a file.
        lost: The result to insert for a call without a result.

    Returns:
        A valid copy, and a sentence for each change.

    Raises:
        HistoryError: `messages` is not a list of messages.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not hasattr(messages, "__iter__"):
        raise HistoryError("messages must be a list of chat messages (dicts with 'role' and 'content').")
    repaired, fixes = _Repair(lost).run(messages)
    return as_history(repaired), fixes


class _Repair:
    """One pass over a history; see `repair_history`."""

    def __init__(self, lost: str) -> None:
        self._lost = lost
        self._out: list[Message] = []
        self._fixes: list[str] = []
        self._used: set[str] = set()
        self._open: dict[str, Message | None] = {}  # new id -> its result, in call order
        self._renamed: dict[str, list[str]] = {}  # original id -> new ids without a result
        self._asked: dict[str, tuple[str, str]] = {}  # new id -> original id, name of the tool
        self._placed: dict[
            str, tuple[Message, bool]
        ] = {}  # original id -> its result, and whether it is real
        self._orphans: dict[
            str, list[tuple[Message, Message]]
        ] = {}  # by id: results without a call, each with a user message made from it
        self._orphan_messages: list[Message] = []  # these messages go after the results of the step

    def run(self, messages: Iterable[Any]) -> tuple[list[Message], list[str]]:
        from pure_agent_loop.llm.foreign import translated

        for number, original, is_new in translated(messages):
            if is_new:
                self._fixes.append(f"messages[{number}]: translated from another protocol")
            role = original.get("role") if isinstance(original, Mapping) else None
            if role not in (*ROLES, "function"):
                raise HistoryError(
                    f"messages[{number}] must be a dict with one of the roles {', '.join(ROLES)}; "
                    f"it is {original!r:.120}."
                )
            message = _without_empty_fields(to_jsonable(original))
            _check_meta(message)
            if role != "assistant":
                message.pop("tool_calls", None)
            if role in ("tool", "function"):
                self._add_result(message, number)
                continue
            self._close()
            if role == "assistant":
                self._check_assistant(message, number)
            self._check_content(message, number)
            if role in SYSTEM_ROLES and self._out:
                if len(self._out) == 1 and self._out[0]["role"] in SYSTEM_ROLES:
                    self._out[0]["content"] = joined_content(self._out[0]["content"], message["content"])
                    self._fixes.append(
                        f"messages[{number}]: the second {role} message was merged into the first"
                    )
                    continue
                message["role"] = "user"
                self._fixes.append(f"messages[{number}]: a later {role} message became a user message")
            self._out.append(message)
        self._close()
        return self._out, self._fixes

    def _check_assistant(self, message: Message, number: int) -> None:
        thoughts = [message.pop(name, None) for name in ("reasoning_content", "reasoning")]
        thought = next((text for text in thoughts if isinstance(text, str) and text), None)
        if thought is not None:
            # Move reasoning to `meta`, because it is sent only to servers that require it.
            message[META] = {**message.get(META, {}), "reasoning": thought}
        calls = message.pop("tool_calls", None)
        legacy = message.pop("function_call", None)
        if calls is None and legacy:
            calls = [{"function": legacy}]
            self._fixes.append(f"messages[{number}]: function_call became tool_calls")
        if isinstance(calls, list) and calls:
            message["tool_calls"] = [self._check_call(call, number) for call in calls]
        elif calls:
            self._fixes.append(f"messages[{number}]: tool_calls is not a list and was dropped")

    def _check_content(self, message: Message, number: int) -> None:
        content = message.get("content")
        if isinstance(content, str) or (content is None and "tool_calls" in message):
            return
        are_parts = isinstance(content, list) and all(
            isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
        )
        if content and are_parts:
            return
        message["content"] = as_text(content) if content else ""
        self._fixes.append(f"messages[{number}]: content became text")

    def _check_call(self, call: Any, number: int) -> WireCall:
        call = call if isinstance(call, dict) else {}
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        given_arguments = function.get("arguments")
        arguments, invalid = parse_arguments(given_arguments)
        if invalid:
            self._fixes.append(f"messages[{number}]: {invalid}; replaced by an empty object")
        original_id = call.get("id") if isinstance(call.get("id"), str) else ""
        new = unique_id(original_id or f"call_{number}", self._used)
        if new != original_id:
            self._fixes.append(f"messages[{number}]: call id {original_id!r} became {new!r}")
        name = str(function.get("name") or "unknown")
        self._asked[new], self._open[new] = (original_id, name), None
        if self._orphans.get(original_id):
            result, words = self._orphans[original_id].pop(0)
            self._out = [message for message in self._out if message is not words]
            self._open[new] = {**result, "role": "tool", "tool_call_id": new}
        else:
            self._renamed.setdefault(original_id, []).append(new)
        checked = wire_call(ToolCall(new, name, arguments))
        if is_json_of(given_arguments, arguments):  # unchanged bytes keep prompt caches valid
            checked["function"]["arguments"] = cast("str", given_arguments)
        return with_extra(checked, extra_of_call(call))

    def _add_result(self, message: Message, number: int) -> None:
        """Put a result after its call, wherever the result was in the list; never drop a real result."""
        original_id = message.get("tool_call_id")
        original_id = original_id if isinstance(original_id, str) else ""
        self._check_content(message, number)
        new = self._open_call_for(original_id, message)
        if new is not None:
            self._open[new] = placed = {**message, "role": "tool", "tool_call_id": new}
            self._placed[original_id] = placed, True
        elif original_id and original_id in self._placed:
            result, is_known = self._placed[original_id]
            self._fixes.append(f"messages[{number}]: a late result was moved to its call")
            if not is_known:
                result["content"] = message["content"]
            elif result["content"] != message["content"]:
                result["content"] = joined_content(result["content"], message["content"])
            self._placed[original_id] = result, True
        else:
            text = model_text("result_alone", text=text_of(message["content"]))
            words = cast("Message", user_message(text, synthetic=True))
            self._orphan_messages.append(words)
            if original_id:
                self._orphans.setdefault(original_id, []).append((message, words))
            self._fixes.append(f"messages[{number}]: a result without its call became a user message")

    def _open_call_for(self, original_id: str, message: Message) -> str | None:
        """Return the open call that a result answers: by id, or by name if one of them has no id."""
        if exact := self._renamed.get(original_id):
            return exact.pop(0)
        free = [(key, new) for key, ids in self._renamed.items() for new in ids if not (key and original_id)]
        named = [pair for pair in free if self._asked[pair[1]][1] == message.get("name")]
        for key, new in (named or free)[:1]:
            self._renamed[key].remove(new)
            return new
        return None

    def _close(self) -> None:
        for call_id, result in self._open.items():
            if result is None:
                self._fixes.append(f"call {call_id!r} had no result; a placeholder was added")
            placed = result or cast("Message", tool_message(call_id, self._lost))
            self._placed[self._asked[call_id][0]] = placed, result is not None
            self._out.append(placed)
        self._out += self._orphan_messages
        self._open, self._renamed, self._orphan_messages = {}, {}, []


def _without_empty_fields(message: Message) -> Message:
    """Remove the empty fields that libraries dump, and make the name valid."""
    name = message.get("name")
    if name is not None:
        message["name"] = (
            _NOT_IN_NAMES.sub("_", name)[:64] if isinstance(name, str) and name.isascii() else None
        )
    return {
        n: field for n, field in message.items() if n in ("role", "content") or field not in (None, [], {})
    }


def _check_meta(message: Message) -> None:
    """Keep only the known fields of `meta`."""
    meta = message.pop(META, None)
    if isinstance(meta, dict):
        kept = {key: meta[key] for key, kind in _META_KEYS.items() if isinstance(meta.get(key), kind)}
        if kept:
            message[META] = kept


def is_json_of(text: object, value: object) -> bool:
    """Return True if `text` is strict JSON of exactly this value."""
    try:
        return isinstance(text, str) and read_json(text) == value
    except ValueError:
        return False
