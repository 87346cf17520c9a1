"""The history: building messages, and making any list of them valid.

A history is valid when: each message is an object with a known role, and only the first may be a system
message; content is text or a list of typed parts; every call has exactly one
result, right behind the message that asked for it and in the same order; call ids are unique;
arguments are JSON objects; no text holds a lone surrogate.

Inside a state a message may carry the key ``meta`` (``synthetic``: no person or model wrote it;
``reasoning``: the thinking behind it). `to_wire` takes it off: servers never see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pure_agent_loop.errors import HistoryError
from pure_agent_loop.llm.arguments import parse_arguments
from pure_agent_loop.llm.response import LLMResponse, unique_id
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.media import part_words
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import as_text, to_jsonable

Message = dict[str, Any]
ROLES = ("system", "developer", "user", "assistant", "tool")
META = "meta"
_META_KEYS = {"synthetic": bool, "reasoning": str}
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def user_message(text: str, media: Sequence[dict[str, Any]] = (), *, synthetic: bool = False) -> Message:
    """A message of the user, media behind the text; or a notice in that role if `synthetic`."""
    parts = [*([{"type": "text", "text": text}] if text else []), *media]
    message: Message = {"role": "user", "content": to_jsonable(parts if media else text)}
    if synthetic:
        message[META] = {"synthetic": True}
    return message


def assistant_message(response: LLMResponse) -> Message:
    """An answer as it goes into the history."""
    message: Message = {"role": "assistant", "content": response.content}
    if response.tool_calls:
        message["tool_calls"] = [wire_call(call) for call in response.tool_calls]
    elif response.content is None:
        message["content"] = ""
    if response.reasoning_content:
        message[META] = {"reasoning": response.reasoning_content}
    return message


def wire_call(call: ToolCall) -> dict[str, Any]:
    """A call as it goes into the history."""
    arguments = _JSON.encode(call.arguments)
    name = _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown"  # strict servers refuse other names
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_message(call_id: str, content: str) -> Message:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def media_message(results: Iterable[tuple[str, Iterable[dict[str, Any]]]]) -> list[Message]:
    """What tools gave beside text, as one message in the user's role, or none.

    Args:
        results: The name of each tool, and its parts.
    """
    content: list[dict[str, Any]] = []
    for tool, parts in results:
        if found := list(parts):
            content += [{"type": "text", "text": say("media_of", tool=tool)}, *found]
    return [user_message("", content, synthetic=True)] if content else []


def is_media(message: Message) -> bool:
    """True for such a message: it belongs to the results before it."""
    return message["role"] == "user" and is_synthetic(message) and isinstance(message["content"], list)


def in_words(message: Message, keep: Collection[str] = ()) -> Message:
    """A message with words in the place of its images and files.

    Args:
        message: It; its content is a list of parts.
    """
    kept = ("text", *keep)
    content = [
        part if part["type"] in kept else {"type": "text", "text": say("media_gone", what=part_words(part))}
        for part in message["content"]
    ]
    is_text = all(part["type"] == "text" for part in content)
    return {**message, "content": text_of(content) if is_text else content}


def newest_question(messages: Sequence[Message]) -> Message | None:
    """What a person said last."""
    return next(filter(is_question, reversed(messages)), None)


def is_question(message: Mapping[str, Any]) -> bool:
    """True for what a person said; False for notices of the framework."""
    return message["role"] == "user" and not is_synthetic(message)


def is_synthetic(message: Mapping[str, Any]) -> bool:
    """True if no person and no model wrote it."""
    return bool((message.get(META) or {}).get("synthetic"))


def without_refused(message: Message, refused: frozenset[int]) -> Message:
    """A message with words in the place of what a server has refused.

    Args:
        refused: The marks of the parts; see `mark_of`.
    """
    content = message.get("content")
    if not isinstance(content, list) or refused.isdisjoint(map(mark_of, content)):
        return message
    said = [
        {"type": "text", "text": say("media_refused", what=part_words(part))}
        if mark_of(part) in refused
        else part
        for part in content
    ]
    return {**message, "content": text_of(said) if all(part["type"] == "text" for part in said) else said}


def mark_of(part: Mapping[str, Any]) -> int:
    """A mark of the data or the address that an image or a file is; a text works its hash out once."""
    inner = part.get(part["type"])
    found = inner if isinstance(inner, Mapping) else {}
    return hash(found.get("url") or found.get("file_data") or found.get("data"))


def text_of(content: str | list[dict[str, Any]]) -> str:
    """The text of a message's content, without other parts such as images."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


def joined_content(first: Any, second: Any, between: str = "\n\n") -> Any:
    """Two contents as one: texts with something between them, or lists of parts."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{between}{second}" if first and second else first or second
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def to_wire(messages: Iterable[Message]) -> list[Message]:
    """Messages as a server gets them: without `meta`. The messages themselves are not copied."""
    return [
        {key: value for key, value in message.items() if key != META} if META in message else message
        for message in messages
    ]


def check_pairs(messages: Iterable[Message]) -> None:
    """Refuse a history in which a call and its result are not next to each other.

    Raises:
        HistoryError: It names the ids.
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
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        raise HistoryError(f"Calls without a result: {', '.join(waiting)}.")


def repair_history(messages: Iterable[Any], lost: str) -> tuple[list[Message], list[str]]:
    """Make a history valid, whatever it was.

    Args:
        messages: Chat messages as dicts, e.g. from ``AgentResult.messages`` or a file.
        lost: What a call without a result gets as its result.

    Returns:
        A valid copy, and a sentence for each thing that had to be changed.

    Raises:
        HistoryError: It is not a list of messages at all.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not hasattr(messages, "__iter__"):
        raise HistoryError("messages must be a list of chat messages (dicts with 'role' and 'content').")
    return _Repair(lost).run(messages)


class _Repair:
    """One pass over a history; see `repair_history`."""

    def __init__(self, lost: str) -> None:
        self._lost = lost
        self._out: list[Message] = []
        self._fixes: list[str] = []
        self._used: set[str] = set()
        self._open: dict[str, Message | None] = {}  # new id -> its result, in call order
        self._renamed: dict[str, list[str]] = {}  # id as given -> new ids that wait for a result

    def run(self, messages: Iterable[Any]) -> tuple[list[Message], list[str]]:
        for number, given in enumerate(messages):
            role = given.get("role") if isinstance(given, Mapping) else None
            if role not in (*ROLES, "function"):
                raise HistoryError(
                    f"messages[{number}] must be a dict with one of the roles {', '.join(ROLES)}; "
                    f"it is {given!r:.120}."
                )
            message: Message = to_jsonable(given)
            _check_meta(message)
            if role != "assistant":
                message.pop("tool_calls", None)
            if role in ("tool", "function"):
                self._add_result(message, number)
                continue
            self._close()
            if role == "assistant":
                self._check_assistant(message, number)
            if role in ("system", "developer") and self._out:
                message["role"] = "user"
                self._fixes.append(f"messages[{number}]: a later {role} message became one of the user")
            self._check_content(message, number)
            self._out.append(message)
        self._close()
        return self._out, self._fixes

    def _check_assistant(self, message: Message, number: int) -> None:
        thoughts = [message.pop(name, None) for name in ("reasoning_content", "reasoning")]
        thought = next((each for each in thoughts if isinstance(each, str) and each), None)
        if thought is not None:
            message[META] = {"reasoning": thought}  # a server gets it only where it asks for it
        calls = message.pop("tool_calls", None)
        legacy = message.pop("function_call", None)
        if calls is None and legacy:
            calls = [{"function": legacy}]
            self._fixes.append(f"messages[{number}]: function_call became tool_calls")
        if isinstance(calls, list) and calls:
            message["tool_calls"] = [self._check_call(call, number) for call in calls]
        elif calls:
            self._fixes.append(f"messages[{number}]: tool_calls is no list and was dropped")

    def _check_content(self, message: Message, number: int) -> None:
        content = message.get("content")
        if isinstance(content, str) or (content is None and "tool_calls" in message):
            return
        if isinstance(content, list) and content and all(map(_is_part, content)):
            return
        message["content"] = as_text(content) if content else ""
        self._fixes.append(f"messages[{number}]: content became text")

    def _check_call(self, call: Any, number: int) -> dict[str, Any]:
        call = call if isinstance(call, dict) else {}
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        given_arguments = function.get("arguments")
        arguments, invalid = parse_arguments(given_arguments)
        if invalid:
            self._fixes.append(f"messages[{number}]: {invalid}; replaced by an empty object")
        given = call.get("id") if isinstance(call.get("id"), str) else ""
        new = unique_id(given or f"call_{number}", self._used)
        if new != given:
            self._fixes.append(f"messages[{number}]: call id {given!r} became {new!r}")
        self._renamed.setdefault(given, []).append(new)
        self._open[new] = None
        checked = wire_call(ToolCall(new, str(function.get("name") or "unknown"), arguments))
        if _is_text_of(given_arguments, arguments):  # the same bytes keep prompt caches warm
            checked["function"]["arguments"] = given_arguments
        return checked

    def _add_result(self, message: Message, number: int) -> None:
        given = message.get("tool_call_id")
        waiting = self._renamed.get(given if isinstance(given, str) else "", [])
        if not waiting:
            self._fixes.append(f"messages[{number}]: a result without its call was dropped")
            return
        new = waiting.pop(0)
        self._check_content(message, number)
        self._open[new] = {**message, "role": "tool", "tool_call_id": new}

    def _close(self) -> None:
        for call_id, result in self._open.items():
            if result is None:
                self._fixes.append(f"call {call_id!r} had no result; it got one that says so")
            self._out.append(result or tool_message(call_id, self._lost))
        self._open, self._renamed = {}, {}


def _check_meta(message: Message) -> None:
    """Of `meta` from outside only what is understood is kept."""
    meta = message.pop(META, None)
    if isinstance(meta, dict):
        kept = {key: meta[key] for key, kind in _META_KEYS.items() if isinstance(meta.get(key), kind)}
        if kept:
            message[META] = kept


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str)


def _is_text_of(text: Any, arguments: dict[str, Any]) -> bool:
    """True if `text` is strict JSON for exactly these arguments."""
    try:
        return isinstance(text, str) and json.loads(text) == arguments
    except (ValueError, RecursionError):
        return False
