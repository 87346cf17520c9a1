"""Server-specific fields of messages and calls: collected, joined and sent back. Pure.

No field name is special: a server gets back exactly the fields it sent, and no other server gets them. Empty
values are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.llm.values import JsonFields, JsonObject, get

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import WireCall

# Fields of the protocol, and fields that other code reads (reasoning, a refusal as text). `audio` holds sound
# data; the protocol accepts only its id in a later request.
MESSAGE_FIELDS = frozenset((
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio",
    "reasoning_content", "reasoning",
))  # fmt: skip
CALL_FIELDS = frozenset({"index", "id", "type", "function"})
FUNCTION_FIELDS = frozenset({"name", "arguments"})
_NEEDED = frozenset({"role", "content", "tool_calls", "tool_call_id"})
_EMPTY = (None, "")
_NAMING = ("index", "type", "id")  # fields that identify an item of a list


def extra_of(value: object, known: Collection[str]) -> JsonObject | None:
    """Return the non-empty fields of a dict or an SDK object that are not in `known`, or None."""
    fields = value if isinstance(value, Mapping) else getattr(value, "model_extra", None) or {}
    return {name: field for name, field in fields.items() if field and name not in known} or None


def extra_of_call(call: object) -> JsonObject | None:
    """Return the extra fields of a call; those of its function are under the key ``function``."""
    function = get(call, "function")
    is_flat = not function or isinstance(function, str)
    extra = extra_of(call, CALL_FIELDS | FUNCTION_FIELDS if is_flat else CALL_FIELDS) or {}
    inner = None if is_flat else extra_of(function, FUNCTION_FIELDS)
    return {**extra, "function": inner} if inner else extra or None


def with_extra(call: WireCall, extra: JsonFields | None) -> WireCall:
    """Return a call in a history with its extra fields."""
    if not extra:
        return call
    function = {**call["function"], **extra.get("function", {})}
    return cast("WireCall", {**call, **extra, "function": function})


def without_extra(message: JsonFields, refused: Collection[str] | None = None) -> JsonObject:
    """Return a message with only the protocol's fields.

    Args:
        refused: If given, drop only these fields.
    """

    def kept(value: JsonFields, known: frozenset[str]) -> JsonObject:
        if refused is None:
            return {name: field for name, field in value.items() if name in known}
        needed = _NEEDED if known is MESSAGE_FIELDS else known
        return {name: field for name, field in value.items() if name in needed or name not in refused}

    plain = kept(message, MESSAGE_FIELDS)
    if message.get("tool_calls"):
        plain["tool_calls"] = [
            {**kept(call, CALL_FIELDS), "function": kept(call["function"], FUNCTION_FIELDS)}
            for call in message["tool_calls"]
        ]
    return plain


def not_of_protocol(messages: Iterable[JsonFields]) -> list[str]:
    """Return the names of non-standard fields in messages and calls, in order."""
    names: dict[str, None] = {}
    for message in messages:
        names.update(dict.fromkeys(name for name in message if name not in _NEEDED))
        for call in message.get("tool_calls") or ():
            names.update(dict.fromkeys(name for name in call if name not in CALL_FIELDS))
            names.update(dict.fromkeys(name for name in call["function"] if name not in FUNCTION_FIELDS))
    return list(names)


def joined(pieces: Sequence[Any]) -> Any:
    """Join the streamed pieces of one value; a single piece stays unchanged.

    Strings are concatenated, objects joined by field, lists by item (see `_items`). If all pieces are equal,
    one of them is used. A last piece that equals all earlier pieces joined is ignored. If the pieces are
    numbers, the last one is used.
    """
    full = [piece for piece in pieces if piece not in _EMPTY] or list(pieces[:1])
    first, last = full[0], full[-1]
    if all(piece == first for piece in full):
        return first
    if all(isinstance(piece, str) for piece in full):
        text = "".join(full[:-1])
        return text if last == text else text + last
    if all(isinstance(piece, dict) for piece in full):
        names = dict.fromkeys(name for piece in full for name in piece)
        return {name: joined([piece[name] for piece in full if name in piece]) for name in names}
    if all(isinstance(piece, list) for piece in full):
        before = _items(full[:-1])
        return before if last == before else _items(full)
    return last


def _items(pieces: Sequence[list[Any]]) -> list[Any]:
    """Join the items of streamed lists.

    An item continues an earlier item if ``index``, ``type`` and ``id`` agree where both have them. Without an
    index, the first item of a list continues the last item so far, if that item has empty fields or no field
    is filled in both.
    """
    groups: list[list[Any]] = []
    for piece in pieces:
        for position, item in enumerate(piece):
            candidates = groups[::-1] if _has_index(item) else groups[-1:] if position == 0 else []
            group = next((group for group in candidates if _continues(group, item)), None)
            if group is None:
                groups.append([item])
            else:
                group.append(item)
    return [joined(group) for group in groups]


def _has_index(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("index"), int)


def _continues(group: list[Any], item: object) -> bool:
    if (
        not isinstance(item, dict)
        or not isinstance(group[0], dict)
        or _has_index(item) != _has_index(group[0])
    ):
        return False
    whole = joined(group)
    if any(whole.get(n) not in _EMPTY and item.get(n) not in (*_EMPTY, whole[n]) for n in _NAMING):
        return False
    if _has_index(item):
        return True
    content = {name: field for name, field in whole.items() if name not in _NAMING}
    is_incomplete = any(field in _EMPTY for field in content.values())
    return is_incomplete or not any(
        content.get(name) not in _EMPTY and item[name] not in _EMPTY for name in item
    )
