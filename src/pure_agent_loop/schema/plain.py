"""JSON Schema and validation of plain types, equal to pydantic's but without importing pydantic.

Most tools take only strings, numbers and lists of these. For other types the functions here return `None`,
and the caller uses pydantic. Both this module and pydantic validate with `pydantic_core` and the same core
schema.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, Union

from pure_agent_loop.schema.signature import ToolParameter

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_BARE: dict[Any, dict[str, Any]] = {
    list: {"items": {}, "type": "array"},
    dict: {"additionalProperties": True, "type": "object"},
}
_CORES: dict[Any, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "none",
    Any: "any",
}
_VALUES = (str, int, bool, type(None))


class Validator(Protocol):
    """A validator of the arguments of a call."""

    def validate_python(self, value: Any, /) -> Any:
        """Return keyword arguments. Raises ``pydantic_core.ValidationError``."""


def plain_schema(parameters: Sequence[ToolParameter]) -> dict[str, Any] | None:
    """Return the schema of keyword arguments; None if one of the types is not plain.

    Args:
        parameters: The parameters, with resolved annotations.
    """
    properties = {}
    for parameter in parameters:
        if not parameter.required and not is_plain(parameter.default):
            return None
        schema = schema_of(parameter.annotation)
        if schema is None:
            return None
        may_be_null = schema == {"type": "null"} or {"type": "null"} in schema.get("anyOf", ())
        if parameter.default is None and schema and not may_be_null:
            schema = {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}
        properties[parameter.name] = schema
    required = [parameter.name for parameter in parameters if parameter.required]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def plain_validator(parameters: Sequence[ToolParameter]) -> Validator:
    """Return the validator of keyword arguments that are all plain.

    Args:
        parameters: The parameters given to `plain_schema`.
    """
    from pydantic_core import SchemaValidator

    validator: Validator = SchemaValidator(core_of_all(parameters))
    return validator


def core_of_all(parameters: Sequence[ToolParameter]) -> Any:
    """Return pydantic's core schema of keyword arguments that are all plain."""
    fields = {}
    for parameter in parameters:
        core = _core_of(parameter.annotation)
        if parameter.default is None and core["type"] not in ("any", "none", "nullable"):
            core = {"type": "nullable", "schema": core}
        fields[parameter.name] = {"type": "typed-dict-field", "schema": core, "required": parameter.required}
    return {
        "type": "typed-dict",
        "fields": fields,
        "config": {"title": "Arguments", "coerce_numbers_to_str": True, "extra_fields_behavior": "forbid"},
    }


def _core_of(annotation: Any) -> dict[str, Any]:
    if annotation in _CORES:
        return {"type": _CORES[annotation]}
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _core_of(parts[0])
    if origin is Literal:
        return {"type": "literal", "expected": list(parts)}
    if annotation is list or origin is list:
        return {"type": "list", "items_schema": _core_of(parts[0] if parts else Any)}
    if annotation is dict or origin is dict:
        keys, values = parts or (Any, Any)
        return {"type": "dict", "keys_schema": _core_of(keys), "values_schema": _core_of(values)}
    choices = [_core_of(option) for option in parts if option is not type(None)]
    core = choices[0] if len(choices) == 1 else {"type": "union", "choices": choices}
    return core if len(choices) == len(parts) else {"type": "nullable", "schema": core}


def is_plain(value: Any) -> bool:
    """Return True if a default is a plain JSON value."""
    if type(value) is list:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    return type(value) in _VALUES or (type(value) is float and value - value == 0)


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """Return a new schema of a type; None if the type is not plain."""
    if annotation is Any:
        return {}
    if type(annotation) is type:
        if annotation in _BARE:
            return dict(_BARE[annotation])
        return {"type": _NAMES[annotation]} if annotation in _NAMES else None
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated and all(type(part) is str for part in parts[1:]):  # a description
        return schema_of(parts[0])
    if origin is Literal:
        return _literal(parts)
    if origin is Union or origin is types.UnionType:
        return _any_of([schema_of(part) for part in parts])
    if origin is list and len(parts) == 1:
        items = schema_of(parts[0])
        return None if items is None else {"items": items, "type": "array"}
    if origin is dict and parts[:1] == (str,):
        values = schema_of(parts[1])
        return None if values is None else {"additionalProperties": values or True, "type": "object"}
    return None


def _any_of(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    schemas = [part for part in parts if part is not None]
    # Nested unions and duplicate members are left to pydantic.
    is_simple = len(schemas) == len(parts) and all(part and "anyOf" not in part for part in schemas)
    return {"anyOf": schemas} if is_simple and all(schemas.count(part) == 1 for part in schemas) else None


def _literal(values: tuple[Any, ...]) -> dict[str, Any] | None:
    if any(type(value) is not str for value in values) or len(set(values)) != len(values):
        return None
    if len(values) == 1:
        return {"const": values[0], "type": "string"}
    return {"enum": list(values), "type": "string"}
