"""Property names that a server rejects: replacements in requests, and restoration in responses. Pure.

A replacement ends in a hash of the name, so different names stay different, and the same name gets the same
replacement in tools, in earlier calls and in a typed answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pure_agent_loop.llm.adapt import DATA_KEYWORDS, NAMED_SCHEMAS
from pure_agent_loop.llm.messages import calls_of
from pure_agent_loop.llm.values import Delta, JsonFields, Message, ToolCallDelta
from pure_agent_loop.support.parsing import read_json

PLAIN_NAME = "[a-zA-Z_][a-zA-Z0-9_]{0,63}"  # every server accepts such a name
_HASH_DIGITS = 8
_BOUND = re.compile(r"\{\d*,(\d+)\}\Z")
_TEXT = -1  # buffer key of the response's text; that of a call's arguments is its index


class PropertyNames:
    """Replacements of the names that do not match a pattern.

    Args:
        pattern: Regular expression that each name must match as a whole.
        schemas: JSON data with schemas, such as the tools of a request.
    """

    def __init__(self, pattern: str, schemas: object) -> None:
        names = set(names_in(schemas))
        self._sent = {name: _replacement(name, pattern) for name in names if not fits(name, pattern)}

    def __bool__(self) -> bool:
        return bool(self._sent)

    def in_schema(self, schema: object) -> Any:
        """Return JSON data with the replacements in its schemas; each description has the original name."""
        if isinstance(schema, list):
            return [self.in_schema(item) for item in schema]
        if not isinstance(schema, Mapping):
            return schema
        return {key: self._keyword(key, value) for key, value in schema.items()}

    def _keyword(self, key: str, value: Any) -> Any:
        if key == "required" and isinstance(value, list):
            return [self._sent.get(name, name) for name in value]
        if key in ("properties", "dependentRequired", "dependentSchemas") and isinstance(value, Mapping):
            return {
                self._sent.get(name, name): self._keyword("required", inner)
                if isinstance(inner, list)
                else self._described(name, self.in_schema(inner))
                for name, inner in value.items()
            }
        if key in NAMED_SCHEMAS and isinstance(value, Mapping):
            return {name: self.in_schema(inner) for name, inner in value.items()}
        return renamed(value, self._sent) if key in DATA_KEYWORDS else self.in_schema(value)

    def _described(self, name: str, schema: Any) -> Any:
        if name not in self._sent or not isinstance(schema, dict):
            return schema
        said = schema.get("description")
        return {**schema, "description": f"{said} ({name})" if said else f"({name})"}

    def in_message(self, message: Message) -> Message:
        """Return a message whose calls have the replacements in their arguments."""
        calls = [self._in_call(call) for call in calls_of(message)]
        return {**message, "tool_calls": calls} if calls else message

    def _in_call(self, call: JsonFields) -> JsonFields:
        arguments = read_json(call["function"]["arguments"] or "{}")
        if (sent := renamed(arguments, self._sent)) == arguments:
            return call
        return {**call, "function": {**call["function"], "arguments": json.dumps(sent, ensure_ascii=False)}}

    def restorer(self, *, also_text: bool) -> NameRestorer:
        """Return an object that restores the original names in one response.

        Args:
            also_text: Whether the text of the response is JSON with these names, as in a typed answer.
        """
        return NameRestorer({sent: name for name, sent in self._sent.items()}, also_text=also_text)


class NameRestorer:
    """Restores the original names in a streamed response: `take` each delta, then `finish`."""

    def __init__(self, own: Mapping[str, str], *, also_text: bool) -> None:
        self._own, self._also_text = own, also_text
        self._quoted = {json.dumps(sent): json.dumps(name, ensure_ascii=False) for sent, name in own.items()}
        self._held: dict[int | None, str] = {}

    def take(self, delta: Delta) -> Delta:
        """Return the delta with the original names; a possible beginning of a name is buffered."""
        text = self._restored(_TEXT, delta.text) if self._also_text else delta.text
        return delta._replace(text=text, tool_calls=tuple(map(self._part, delta.tool_calls)))

    def finish(self) -> Delta:
        """Return the buffered delta."""
        text = self._held.pop(_TEXT, "")
        rest = ((index, rest) for index, rest in self._held.items() if rest)
        return Delta(text, tool_calls=tuple(ToolCallDelta(index, arguments=rest) for index, rest in rest))

    def _part(self, part: ToolCallDelta) -> ToolCallDelta:
        if isinstance(part.arguments, str):
            return replace(part, arguments=self._restored(part.index, part.arguments))
        return replace(part, arguments=renamed(part.arguments, self._own))

    def _restored(self, key: int | None, text: str) -> str:
        text = self._held.pop(key, "") + text
        for sent, name in self._quoted.items():
            text = text.replace(sent, name)
        end = text.rfind('"')
        if end >= 0 and any(sent.startswith(text[end:]) for sent in self._quoted):
            self._held[key] = text[end:]
            return text[:end]
        return text


def names_in(schema: object) -> Iterator[str]:
    """Yield the names of all properties in JSON data with schemas."""
    if isinstance(schema, list):
        for item in schema:
            yield from names_in(item)
    elif isinstance(schema, Mapping):
        for key, value in schema.items():
            is_named = key in NAMED_SCHEMAS and isinstance(value, Mapping)
            if key == "properties" and is_named:
                yield from value
            for inner in value.values() if is_named else () if key in DATA_KEYWORDS else [value]:
                yield from names_in(inner)


def fits(name: str, pattern: str) -> bool:
    """Return True if a name matches a pattern as a whole."""
    return re.fullmatch(pattern, name) is not None


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON data with its keys renamed, at any depth."""
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if type(value) is not dict:  # an object with duplicate keys is rejected anyway
        return value
    return {names.get(key, key): renamed(inner, names) for key, inner in value.items()}


def _replacement(name: str, pattern: str) -> str:
    bound = _BOUND.search(pattern)
    room = min(int(bound[1]) if bound else 40, 40) - _HASH_DIGITS - 1
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]
    return f"p_{re.sub('[^a-zA-Z0-9]+', '_', name).strip('_')}"[: max(room, 1)] + f"_{digest}"
