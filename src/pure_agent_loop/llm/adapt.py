"""Adaptation of requests to a provider: applies a `Profile` to messages, tools and fields. Pure.

Inputs are not changed, except by `adapt_fields`; a plain profile changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import contains, methodcaller
from typing import Any

from pure_agent_loop.llm.extra import without_extra
from pure_agent_loop.llm.messages import (
    META,
    SYSTEM_ROLES,
    Message,
    for_origin,
    in_words,
    is_media,
    joined_content,
    newest_question_at,
)
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.values import JsonFields, JsonObject, Tools
from pure_agent_loop.media import MEDIA_KINDS, by_bytes

NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
DATA_KEYWORDS = ("enum", "const", "default", "examples", "required")
BRIDGE = "OK."  # assistant text inserted between a tool's result and the next user message
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
# Names of the output limit in the protocols.
LIMIT_FIELDS = (*TOKEN_LIMITS, "max_output_tokens", "maxOutputTokens")
LEAST_ROOM = 1_024  # tokens to leave for an answer; less is useless, so the history is shortened instead
_SHORT_ID = 24  # length of the replacement for an id that a server rejects
_CONTENT = methodcaller("get", "content")
_PLAIN_ID = re.compile("[a-zA-Z0-9_-]+")
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def adapt_messages(messages: Sequence[Message], profile: Profile, origin: str = "") -> list[Message]:
    """Return messages in the form the profile requires, without `meta`.

    Args:
        messages: The history after `adapt_content`, system message first; `meta` may hold a message's
            reasoning.
        origin: The server and the model. Fields that another server or model added to the messages are
            omitted.
    """
    adapted: Iterable[Message]
    if profile.reasoning_echo:
        adapted = list(_with_reasoning(messages, profile, origin))
    else:
        adapted = _without_meta(messages, origin)
    # Check the types first, because a history is long and most of its contents are plain text.
    if list in set(map(type, map(_CONTENT, adapted))):
        adapted = [
            {**m, "content": list(map(by_bytes, m["content"]))} if type(m.get("content")) is list else m
            for m in adapted
        ]
    if profile.message_refuses:
        adapted = [without_extra(message, profile.message_refuses) for message in adapted]
    if profile.system_role:
        adapted = _with_system_role(adapted, profile.system_role)
    if not profile.parallel_calls:
        adapted = _one_call_each(adapted)
    if not profile.null_content:
        adapted = ({**m, "content": ""} if m.get("content") is None else m for m in adapted)
    if not profile.user_after_tool:
        adapted = _with_bridges(adapted)
    if profile.alternates:
        adapted = _with_alternating_roles(adapted)
    if profile.call_stand_in:
        adapted = _with_stand_ins(adapted, profile.call_stand_in)
    return list(adapted)


def adapt_content(messages: Sequence[Message], profile: Profile) -> Sequence[Message]:
    """Return messages with media and call ids as a profile requires, in any protocol; keep `meta`."""
    if profile.takes is not None:
        taken = [MEDIA_KINDS[kind] for kind in profile.takes]
        messages = [in_words(message, taken) if is_media(message) else message for message in messages]
    if (length := profile.call_id_length) is not None:
        messages = [_with_ids(message, lambda i: short_id(i, length)) for message in messages]
    elif (limit := profile.call_id_limit) is not None:
        size = min(limit, _SHORT_ID)
        messages = [
            _with_ids(message, lambda i: i if fits_id(i, limit) else short_id(i, size))
            for message in messages
        ]
    return messages


def adapt_fields(body: JsonObject, profile: Profile, keep: Collection[str] = ()) -> None:
    """Rename and remove fields of a request, in place.

    Args:
        keep: Fields that are not removed.
    """
    if profile.output_limit_field:
        for name in TOKEN_LIMITS:
            if name in body and name != profile.output_limit_field:
                body.setdefault(profile.output_limit_field, body.pop(name))
                body.pop(name, None)
    for name in profile.refuses:
        if name not in keep:
            leave_out(body, name)


def leave_out(body: JsonObject, path: str) -> None:
    """Remove a field of a request, such as ``thinking.display``; nested objects are copied."""
    name, _, rest = path.partition(".")
    inner = body.get(name)
    if rest and isinstance(inner, Mapping):
        body[name] = inner = dict(inner)
        leave_out(inner, rest)
    if not rest or inner == {}:
        body.pop(name, None)


def adapt_tools(tools: Tools, profile: Profile) -> list[JsonObject]:
    """Remove the keywords that the profile excludes from tool schemas, and cut long descriptions."""
    without, limit = frozenset(profile.schema_without), profile.description_limit
    if not without and limit is None:
        return tools
    adapted = []
    for tool in tools:
        if not isinstance(tool.get("function"), Mapping):  # a server tool
            adapted.append(tool)
            continue
        function = dict(tool["function"])
        if without:
            function["parameters"] = simplify_schema(function.get("parameters") or {}, without)
        if limit is not None and len(function.get("description") or "") > limit:
            function["description"] = f"{function['description'][: max(0, limit - 4)]} ..."
        adapted.append({**tool, "function": function})
    return adapted


# -- messages -------------------------------------------------------------------------------------------


def _with_stand_ins(messages: Iterable[Message], fields: JsonFields) -> Iterator[Message]:
    for message in messages:
        if calls := message.get("tool_calls"):
            yield {**message, "tool_calls": [{**fields, **calls[0]}, *calls[1:]]}
        else:
            yield message


def _without_meta(messages: Sequence[Message], origin: str) -> Sequence[Message]:
    is_plain = True not in map(contains, messages, repeat(META))  # faster than a Python loop
    return messages if is_plain else [for_origin(m, origin) if META in m else m for m in messages]


def _with_reasoning(messages: Sequence[Message], profile: Profile, origin: str) -> Iterator[Message]:
    """Yield messages without `meta`, but with the reasoning in the field that the profile requires."""
    is_whole = profile.echo_scope == "history"
    start = 0 if is_whole else newest_question_at(messages)
    for number, message in enumerate(messages):
        plain = for_origin(message, origin) if META in message else message
        if number >= start and (message.get("tool_calls") or (is_whole and message["role"] == "assistant")):
            # In a history from another source, the reasoning is unknown; the field is then empty.
            thought = message.get(META, {}).get("reasoning", "")
            plain = {profile.reasoning_echo: thought, **plain}
        yield plain


def _with_system_role(messages: Iterable[Message], role: str) -> Iterator[Message]:
    system: Message | None = None
    for message in messages:
        if message["role"] not in SYSTEM_ROLES:
            if system is not None:
                is_user = message["role"] == "user"
                content = joined_content(system["content"], message["content"]) if is_user else None
                yield {**message, "content": content} if is_user else {**system, "role": "user"}
                if not is_user:
                    yield message
                system = None
            else:
                yield message
        elif role == "user":
            system = message
        else:
            yield {**message, "role": role}
    if system is not None:
        yield {**system, "role": "user"}


def _one_call_each(messages: Iterable[Message]) -> Iterator[Message]:
    """Split messages so that each holds one call, followed by its result."""
    waiting: dict[str, Message] = {}
    for message in messages:
        calls = message.get("tool_calls") or []
        if len(calls) > 1:
            first = {**message, "tool_calls": calls[:1]}
            rest = [{"role": "assistant", "content": None, "tool_calls": [call]} for call in calls[1:]]
            waiting = {call["id"]: part for call, part in zip(calls, [first, *rest], strict=True)}
        elif message["role"] == "tool" and message.get("tool_call_id") in waiting:
            yield waiting.pop(message["tool_call_id"])
            yield message
        else:
            yield message


def _with_bridges(messages: Iterable[Message]) -> Iterator[Message]:
    previous = ""
    for message in messages:
        if previous == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": BRIDGE}
        yield message
        previous = message["role"]


def _with_alternating_roles(messages: Iterable[Message]) -> Iterator[Message]:
    last: Message | None = None
    for message in messages:
        if last is not None and last["role"] == message["role"] and _is_plain(last) and _is_plain(message):
            last = {**last, "content": joined_content(last["content"], message["content"])}
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _is_plain(message: Message) -> bool:
    return message["role"] in ("user", "assistant") and not message.get("tool_calls")


def _with_ids(message: Message, new_id: Callable[[str], str]) -> Message:
    if message.get("tool_calls"):
        calls = [{**call, "id": new_id(call["id"])} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    if message["role"] == "tool":
        return {**message, "tool_call_id": new_id(message["tool_call_id"])}
    return message


def fits_id(call_id: str, limit: int) -> bool:
    """Return True for an id of at most `limit` letters, digits, ``_`` and ``-``."""
    return len(call_id) <= limit and _PLAIN_ID.fullmatch(call_id) is not None


def short_id(call_id: str, length: int) -> str:
    """Return the id if it is `length` letters and digits, else a stable id of that form derived from it."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest(), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[digit])
    return "".join(letters)


# -- schemas --------------------------------------------------------------------------------------------


def simplify_schema(schema: object, without: frozenset[str]) -> Any:
    """Remove keywords from a JSON Schema, and replace them with equivalents if possible.

    ``$ref`` is expanded (a recursive reference becomes a schema for any object), ``const`` becomes an
    ``enum`` with one value, and a choice (``anyOf``, ``oneOf``) becomes its first branch that is not null.
    The tool still validates its arguments.
    """
    return _simple(schema, without, _definitions_of(schema), ())


def _definitions_of(schema: object) -> JsonFields:
    definitions: JsonObject = {}
    for key in ("$defs", "definitions"):
        if isinstance(schema, Mapping) and isinstance(schema.get(key), Mapping):
            definitions.update({f"#/{key}/{name}": target for name, target in schema[key].items()})
    return definitions


def _simple(schema: object, without: frozenset[str], definitions: JsonFields, inside: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_simple(item, without, definitions, inside) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and without & {"$ref", "$defs", "definitions"}:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = {"type": "object"} if reference in inside else definitions.get(reference, {})
        return _simple({**target, **rest}, without, definitions, (*inside, reference))
    out: JsonObject = {}
    for key, value in schema.items():
        if key in NAMED_SCHEMAS and isinstance(value, Mapping):
            if key not in without:
                out[key] = {n: _simple(part, without, definitions, inside) for n, part in value.items()}
        elif key not in without:
            out[key] = value if key in DATA_KEYWORDS else _simple(value, without, definitions, inside)
    return {**_equivalents(schema, without, definitions, inside), **out}


def _equivalents(
    schema: JsonFields,
    without: frozenset[str],
    definitions: JsonFields,
    inside: tuple[str, ...],
) -> JsonObject:
    """Return equivalents of the removed keywords."""
    equivalents: JsonObject = {}
    if "const" in without and "const" in schema:
        equivalents["enum"] = [schema["const"]]
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if key in without and isinstance(branches, list):
            simple = [_simple(branch, without, definitions, inside) for branch in branches]
            usable = [
                branch for branch in simple if isinstance(branch, dict) and branch.get("type") != "null"
            ]
            for branch in usable if key == "allOf" else usable[:1]:
                equivalents.update(branch)
    return equivalents
