"""Simplify pydantic's JSON Schema for models and model servers: remove titles and avoidable ``$ref``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_NODES = 5_000
_PREFIX = "#/$defs/"
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "required"})
# A discriminator refers to definitions, which inlining removes; oneOf has the same meaning.
_NOISE = frozenset({"title", "discriminator", "$defs"})


class _SchemaTooLargeError(Exception):
    """Inlining would make the schema too large."""


def tidy_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop generated titles and inline definitions.

    Several servers fail on ``$ref``. Only definitions that contain themselves stay under ``$defs``; all
    definitions stay there if the schema would otherwise exceed 5,000 objects (twenty types that each use the
    next one twice would give a million).

    Args:
        schema: A JSON Schema as pydantic writes it. It is not modified.
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    try:
        return _Inliner(definitions, _recursive(definitions)).run(schema)
    except _SchemaTooLargeError:
        return _Inliner(definitions, set(definitions)).run(schema)


class _Inliner:
    def __init__(self, definitions: dict[str, Any], kept: set[str]) -> None:
        self._definitions = definitions
        self._kept = kept
        self._nodes = 0

    def run(self, schema: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._object(schema)
        if self._kept:
            result["$defs"] = {name: self._walk(self._definitions[name]) for name in sorted(self._kept)}
        return result

    def _walk(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._walk(item) for item in node]
        return self._object(node) if isinstance(node, dict) else node

    def _object(self, node: dict[str, Any]) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MAX_NODES and len(self._kept) < len(self._definitions):
            raise _SchemaTooLargeError
        result = {key: self._value(key, value) for key, value in node.items() if key not in _NOISE}
        target = _target(result)
        if target is not None and target not in self._kept:
            # Keywords next to a reference, such as a description, are more specific than those of the
            # definition.
            del result["$ref"]
            return {**self._object(self._definitions[target]), **result}
        return _without_single_all_of(result)

    def _value(self, key: str, value: Any) -> Any:
        if key in _DATA:
            return value
        return (
            {name: self._walk(item) for name, item in value.items()} if key in _NAMED else self._walk(value)
        )


def _without_single_all_of(node: dict[str, Any]) -> dict[str, Any]:
    """Unwrap ``{"allOf": [{"$ref": ...}], ...}``: pydantic before 2.9 wrote it for ``$ref`` with siblings."""
    parts = node.get("allOf")
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
        return node
    return {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}


def _target(node: dict[str, Any]) -> str | None:
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_PREFIX):
        return reference[len(_PREFIX) :]
    return None


def _recursive(definitions: dict[str, Any]) -> set[str]:
    """Return the definitions that contain themselves, directly or through others."""
    uses = {name: set(_references(node)) for name, node in definitions.items()}
    return {name for name in uses if name in _reachable(name, uses)}


def _reachable(start: str, uses: dict[str, set[str]]) -> set[str]:
    names: set[str] = set()
    pending = set(uses[start])
    while pending:
        name = pending.pop()
        names.add(name)
        pending |= uses.get(name, set()) - names
    return names


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        target = _target(node)
        if target is not None:
            yield target
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)
