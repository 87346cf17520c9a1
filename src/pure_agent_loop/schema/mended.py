"""Convert foreign JSON Schemas to the subset that model servers accept.

A construct that a server may reject is replaced by an equivalent one. A choice between whole sets of
arguments, which few servers accept, is described in words instead. Anything without an equivalent stays
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError

MAX_DEPTH = 100
MAX_INLINED = 200  # inlined references
MAX_CHOICES = 5  # nested choices
MAX_WORDS = 500  # maximum length of a rule described in words, in characters
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_SYNONYMS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
             "dict": "object", "none": "null"}  # fmt: skip
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_CHOICES = ("anyOf", "oneOf", "allOf")
_TOP_RULES = (*_CHOICES, "not", "enum", "const")  # keywords that servers reject at the top level
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def mended_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool's argument schema to a form that servers accept; a valid schema stays equal.

    Args:
        schema: The schema. It is not modified.

    Raises:
        ConfigError: The schema is not JSON, is not of type ``object``, is nested over 100 levels deep, or
            contains itself.
    """
    mender, top, seen = _SchemaMender(schema), dict(schema), set[str]()
    while "$ref" in top and str(top["$ref"]) not in seen:
        seen.add(reference := str(top.pop("$ref")))
        top = {**(mender.target(reference) or {}), **top}
    try:
        mended = mender.mend(top, MAX_DEPTH)
        json.dumps(mended, default=str)
    except ValueError as error:  # raised for a number with too many digits, among other things
        raise ConfigError(f"The argument schema is not JSON-serializable: {error}.") from None
    except RecursionError:
        raise ConfigError(
            f"The argument schema has more than {MAX_DEPTH} levels. Describe deeper ones as "
            "{'type': 'object'}, or use $ref."
        ) from None
    kinds = mended.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ConfigError(
            f"The argument schema must be an object with one property per argument; its type is {kinds!r}."
        )
    return _of_arguments(mended, mender)


class _SchemaMender:
    """Converter of a schema and its subschemas."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root, self._left = root, MAX_INLINED

    def mend(self, schema: Any, depth: int, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        if depth == 0:
            raise RecursionError
        if isinstance(schema, str):  # {"a": "string"}
            schema = {"type": schema}
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        reference = schema.get("$ref")
        if reference is not None and not self._is_plain(reference):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            self._left -= 1
            target = None if reference in inside or self._left < 0 else self.target(reference)
            return self.mend({**(target or {}), **rest}, depth - 1, (*inside, str(reference)))
        mended = {key: self._value(key, value, depth, inside) for key, value in schema.items()}
        return _with_items(_with_bounds(_with_names(_with_type(mended))))

    def _value(self, key: str, value: Any, depth: int, inside: tuple[str, ...]) -> Any:
        if key in _MAPS and isinstance(value, Mapping):
            return {n: self.mend(entry, depth - 1, inside) for n, entry in value.items()}
        if (key in _LISTS or key == "items") and isinstance(value, list):
            return [self.mend(entry, depth - 1, inside) for entry in value]
        if key in _SINGLE and (isinstance(value, Mapping) or (key == "items" and isinstance(value, bool))):
            return self.mend(value, depth - 1, inside)
        return value

    def _is_plain(self, reference: Any) -> bool:
        """Return True for a reference to a definition of this schema, the only kind that servers follow."""
        parts = str(reference).split("/")
        return (
            len(parts) == 3
            and parts[:2] in (["#", "$defs"], ["#", "definitions"])
            and bool(self.target(reference))
        )

    def target(self, reference: Any) -> Mapping[str, Any] | None:
        """Return the subschema at a JSON pointer; None if the pointer does not name one."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        node: Any = self._root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            index = int(name) if isinstance(node, list) and name.isdecimal() else name
            try:
                node = node[index]
            except (KeyError, IndexError, TypeError):
                return None
        return node if isinstance(node, Mapping) else None


def _with_type(schema: dict[str, Any]) -> dict[str, Any]:
    """Keep only valid types; translate Python's names to JSON's."""
    if "type" not in schema:
        return schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    names = dict.fromkeys(_SYNONYMS.get(str(kind).lower(), str(kind).lower()) for kind in kinds)
    valid_kinds = [kind for kind in names if kind in _TYPES]
    # Drop the keyword, because an unknown type could allow any value.
    if len(valid_kinds) < len(names) or not valid_kinds:
        return {key: value for key, value in schema.items() if key != "type"}
    return {**schema, "type": valid_kinds if len(valid_kinds) > 1 else valid_kinds[0]}


def _with_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn ``required`` and ``enum`` into lists without duplicates."""
    mended = dict(schema)
    properties = mended.get("properties")
    if "properties" in mended and not isinstance(properties, dict):
        del mended["properties"]
        properties = None
    inner = [name for name, field in (properties or {}).items() if field.get("required") is True]  # draft 3
    required = mended.get("required")
    if inner or "required" in mended:
        names = [n for n in (required if isinstance(required, list) else ()) if isinstance(n, str)]
        mended["required"] = list(dict.fromkeys([*names, *inner]))
        if required is True or (not mended["required"] and not isinstance(required, list)):
            del mended["required"]
        elif properties is not None:
            mended["properties"] = {
                n: _without(field, "required") if n in inner else field for n, field in properties.items()
            }
    if "enum" in mended:
        values = mended["enum"] if isinstance(mended["enum"], list) else []
        mended["enum"] = [value for n, value in enumerate(values) if not _is_listed(value, values[:n])]
        if not mended["enum"]:
            del mended["enum"]
    return mended


def _is_listed(value: Any, values: Iterable[Any]) -> bool:
    return any(type(value) is type(other) and value == other for other in values)


def _without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}


def _with_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the boolean ``exclusiveMinimum`` of JSON Schema draft 4 to a bound."""
    for name, bound in _BOUNDS:
        if isinstance(schema.get(name), bool):
            is_exclusive, schema = schema[name], _without(schema, name)
            if is_exclusive and bound in schema:
                schema = {**_without(schema, bound), name: schema[bound]}
    return schema


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Add ``items`` to arrays. Convert a tuple in the older form to ``prefixItems``."""
    items, kinds = schema.get("items"), schema.get("type")
    if isinstance(items, list):
        choices = [choice for n, choice in enumerate(items) if not _is_listed(choice, items[:n])]
        item_schema = choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {}
        return {**_without(schema, "additionalItems"), "prefixItems": items, "items": item_schema}
    if "items" not in schema and (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)):
        return {**schema, "items": {}}
    return schema


def _of_arguments(schema: dict[str, Any], mender: _SchemaMender) -> dict[str, Any]:
    """Make the top level an object; describe other top-level rules in words."""
    parts = list(_parts(schema, mender, 0))
    rules = {key: schema[key] for key in _TOP_RULES if key in schema}
    mended = {key: value for key, value in schema.items() if key not in (*_TOP_RULES, "$ref", "$schema")}
    for key, part in parts:
        for name, value in part.get("properties", {}).items():
            properties = mended.setdefault("properties", {})
            mended["properties"] = {**properties, name: _either(properties.get(name, value), value)}
        if key == "allOf" and part.get("required"):
            mended["required"] = list(dict.fromkeys([*mended.get("required", ()), *part["required"]]))
    if rules:
        words = json.dumps(rules, ensure_ascii=False, default=str)
        words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]} ..."
        mended["description"] = (
            f"{mended.get('description', '')}\nThe arguments must also fit: {words}".strip()
        )
    # Servers require `properties`; a schema without it allows any argument, and must still do so.
    if "properties" not in mended:
        mended = {"additionalProperties": True, **mended}
    properties = mended.get("properties", {})
    nowhere: dict[str, Any] = {name: {} for name in mended.get("required", ()) if name not in properties}
    return {**mended, "type": "object", "properties": {**properties, **nowhere} if nowhere else properties}


def _parts(schema: Mapping[str, Any], mender: _SchemaMender, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield each alternative of a top-level choice with the choice's keyword; resolve references."""
    for key in _CHOICES:
        for part in schema.get(key) or () if isinstance(schema.get(key), list) else ():
            target = mender.target(part["$ref"]) if "$ref" in part else part
            if isinstance(target, Mapping) and depth < MAX_CHOICES:
                target = part if target is part else mender.mend(target, MAX_DEPTH)
                yield key, target
                yield from _parts(target, mender, depth + 1)


def _either(first: Any, second: Any) -> Any:
    return first if first == second else {"anyOf": [*first.get("anyOf", [first]), second]}
