"""The JSON Schema of plain types, written as pydantic writes it, without loading pydantic.

Most tools take texts, numbers and lists of them. For all others `None` comes back, and pydantic decides.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union

from pure_agent_loop.schema.signature import ToolParameter

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_BARE: dict[Any, dict[str, Any]] = {
    list: {"items": {}, "type": "array"},
    dict: {"additionalProperties": True, "type": "object"},
}
_VALUES = (str, int, bool, type(None))


def plain_schema(parameters: Sequence[ToolParameter]) -> dict[str, Any] | None:
    """The schema of keyword arguments; None if one of them is not plain.

    Args:
        parameters: With their annotations resolved.
    """
    properties = {}
    for parameter in parameters:
        if not parameter.required and not is_plain(parameter.default):
            return None
        known = schema_of(parameter.annotation)
        if known is None:
            return None
        may_be_null = known == {"type": "null"} or {"type": "null"} in known.get("anyOf", ())
        if parameter.default is None and known and not may_be_null:
            parts = known.get("anyOf", [known])
            known = {"anyOf": [*parts, {"type": "null"}]}
        properties[parameter.name] = known
    required = [parameter.name for parameter in parameters if parameter.required]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def is_plain(value: Any) -> bool:
    """Whether a default is a JSON value as it stands."""
    return type(value) in _VALUES or (type(value) is float and value - value == 0)


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The schema of a type, new each time; None if it is not plain."""
    if annotation is Any:
        return {}
    if type(annotation) is type:
        if annotation in _BARE:
            return dict(_BARE[annotation])
        return {"type": _NAMES[annotation]} if annotation in _NAMES else None
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated and all(type(each) is str for each in parts[1:]):  # a description
        return schema_of(parts[0])
    if origin is Literal:
        return _literal(parts)
    if origin is Union or origin is types.UnionType:
        return _any_of([schema_of(each) for each in parts])
    if origin is list and len(parts) == 1:
        items = schema_of(parts[0])
        return None if items is None else {"items": items, "type": "array"}
    if origin is dict and parts[:1] == (str,):
        values = schema_of(parts[1])
        return None if values is None else {"additionalProperties": values or True, "type": "object"}
    return None


def _any_of(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [each for each in parts if each is not None]
    # What pydantic makes of unions in unions, and of members that are alike, is its own affair.
    is_simple = len(known) == len(parts) and all(each and "anyOf" not in each for each in known)
    return {"anyOf": known} if is_simple and all(known.count(each) == 1 for each in known) else None


def _literal(values: tuple[Any, ...]) -> dict[str, Any] | None:
    if any(type(value) is not str for value in values) or len(set(values)) != len(values):
        return None
    if len(values) == 1:
        return {"const": values[0], "type": "string"}
    return {"enum": list(values), "type": "string"}
