"""A request as one provider wants it: what a `Profile` says, done to messages, tools and fields. Pure.

Nothing given is changed; a plain profile leaves everything as it is, and each step costs the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.messages import (
    META,
    Message,
    in_words,
    is_media,
    is_question,
    joined_content,
    tool_message,
)
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.media import MEDIA_KINDS

BRIDGE = "OK."  # what the assistant is made to say between a tool's result and the next user message
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def adapt_messages(messages: Sequence[Message], profile: Profile) -> list[Message]:
    """Messages as the profile wants them, without `meta`.

    Args:
        messages: The history, system message first; `meta` may hold the thinking behind a message.
    """
    if profile.takes is not None:
        taken = [MEDIA_KINDS[kind] for kind in profile.takes]
        messages = [in_words(each, taken) if is_media(each) else each for each in messages]
    adapted: Iterable[Message]
    if profile.reasoning_echo:
        adapted = _with_reasoning(messages, profile)
    else:
        adapted = [each if META not in each else _without_meta(each) for each in messages]
    if profile.system_role:
        adapted = _with_system_role(adapted, profile.system_role)
    if not profile.parallel_calls:
        adapted = _one_call_each(adapted)
    if not profile.null_content:
        adapted = ({**m, "content": ""} if m.get("content") is None else m for m in adapted)
    if not profile.user_after_tool:
        adapted = _bridged(adapted)
    if profile.alternates:
        adapted = _taking_turns(adapted)
    if profile.call_id_length is not None:
        adapted = _with_ids(adapted, profile.call_id_length)
    return list(adapted)


def adapt_fields(body: dict[str, Any], profile: Profile, keep: Collection[str] = ()) -> None:
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
            body.pop(name, None)


def adapt_tools(tools: list[dict[str, Any]], profile: Profile) -> list[dict[str, Any]]:
    """Tool schemas without the keywords that the profile rules out."""
    without = frozenset(profile.schema_without)
    if not without:
        return tools
    return [
        {
            **tool,
            "function": {
                **tool["function"],
                "parameters": simplify_schema(tool["function"].get("parameters") or {}, without),
            },
        }
        for tool in tools
    ]


# -- messages -------------------------------------------------------------------------------------------


def _with_reasoning(messages: Sequence[Message], profile: Profile) -> Iterator[Message]:
    """Take `meta` off; give the thinking back, as the profile asks."""
    start = 0 if profile.echo_scope == "history" else _round_start(messages)
    for number, message in enumerate(messages):
        plain = _without_meta(message) if META in message else message
        if number >= start and message.get("tool_calls"):
            # An empty text where none is known: a history from elsewhere holds no thinking.
            thought = message.get(META, {}).get("reasoning", "")
            plain = {profile.reasoning_echo: thought, **plain}
        yield plain


def _without_meta(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != META}


def _round_start(messages: Sequence[Message]) -> int:
    """Where the last question stands; notices of the framework are none."""
    for number in range(len(messages) - 1, -1, -1):
        if is_question(messages[number]):
            return number
    return 0


def _with_system_role(messages: Iterable[Message], role: str) -> Iterator[Message]:
    system: Message | None = None
    for message in messages:
        if message["role"] not in ("system", "developer"):
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
    """Each call in a message of its own, its result right behind it."""
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


def _bridged(messages: Iterable[Message]) -> Iterator[Message]:
    previous = ""
    for message in messages:
        if previous == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": BRIDGE}
        yield message
        previous = message["role"]


def _taking_turns(messages: Iterable[Message]) -> Iterator[Message]:
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


def _with_ids(messages: Iterable[Message], length: int) -> Iterator[Message]:
    for message in messages:
        if message.get("tool_calls"):
            calls = [{**call, "id": short_id(call["id"], length)} for call in message["tool_calls"]]
            yield {**message, "tool_calls": calls}
        elif message["role"] == "tool":
            given = message["tool_call_id"]
            yield {**tool_message(short_id(given, length), message["content"])}
        else:
            yield message


def short_id(call_id: str, length: int) -> str:
    """The id itself if it is `length` letters and digits, else always the same such id for it."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest(), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[digit])
    return "".join(letters)


# -- schemas --------------------------------------------------------------------------------------------


def simplify_schema(schema: Any, without: frozenset[str]) -> Any:
    """A JSON Schema without some keywords. Where one can be said in another way, it is.

    ``$ref`` is written out (a schema inside itself becomes any object), ``const`` becomes an ``enum`` of
    one, a choice (``anyOf``, ``oneOf``) its first branch that is not null. The tool itself still checks.
    """
    definitions = _definitions_of(schema)
    return _simple(schema, without, definitions, ())


def _definitions_of(schema: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for place in ("$defs", "definitions"):
        if isinstance(schema, Mapping) and isinstance(schema.get(place), Mapping):
            found.update({f"#/{place}/{name}": each for name, each in schema[place].items()})
    return found


def _simple(
    schema: Any, without: frozenset[str], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Any:
    if isinstance(schema, list):
        return [_simple(each, without, definitions, inside) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and without & {"$ref", "$defs", "definitions"}:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = {"type": "object"} if reference in inside else definitions.get(reference, {})
        return _simple({**target, **rest}, without, definitions, (*inside, reference))
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties") and isinstance(value, Mapping):
            if key not in without:
                out[key] = {n: _simple(each, without, definitions, inside) for n, each in value.items()}
        elif key not in without:
            keeps = key in ("enum", "const", "default", "examples", "required")
            out[key] = value if keeps else _simple(value, without, definitions, inside)
    return {**_instead(schema, without, definitions, inside), **out}


def _instead(
    schema: Mapping[str, Any],
    without: frozenset[str],
    definitions: Mapping[str, Any],
    inside: tuple[str, ...],
) -> dict[str, Any]:
    """Another way to say what the removed keywords said."""
    said: dict[str, Any] = {}
    if "const" in without and "const" in schema:
        said["enum"] = [schema["const"]]
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if key in without and isinstance(branches, list):
            simple = [_simple(each, without, definitions, inside) for each in branches]
            wanted = [each for each in simple if isinstance(each, dict) and each.get("type") != "null"]
            for each in wanted if key == "allOf" else wanted[:1]:
                said.update(each)
    return said
