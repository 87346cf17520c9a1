"""JSON that a model wrote, judged: which call it spells, and whether arguments could fit a JSON Schema.

Of the standard for schemas, the part that tools use. Lenient where a tool's own validation is: ``"7"``
may stand for 7. What is unknown passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.support.lazy import lazy_pattern

NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
ARGUMENT_KEYS = (
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_input",
    "action_input",
    "tool_args",
    "params",
)
OTHER_KEYS = ("id", "type", "index", "tool_calls", "call_id", "thought", "reasoning")
_TOKEN = lazy_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}\[\]]', re.S)

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
MAX_HOPS = 50  # references and choices inside each other; a schema may refer to itself for ever


def could_fit(value: Any, schema: Any, root: Any = None, hops: int = 0) -> bool:
    """True unless `value` clearly breaks `schema`.

    Args:
        value: Parsed JSON.
        schema: A JSON Schema, or True or False; ``type``, ``enum``, ``const``, ``properties``, ``required``,
            ``additionalProperties``, ``items``, ``anyOf``, ``oneOf``, ``allOf`` and local ``$ref`` are read.
        root: Where a ``$ref`` points into; the schema itself if None.
        hops: How many schemas have been asked about this same value.
    """
    if not isinstance(schema, Mapping):
        return schema is not False
    root = schema if root is None else root
    if hops >= MAX_HOPS:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and not could_fit(value, _resolved(reference, root), root, hops + 1):
        return False
    if not _choices_fit(value, schema, root, hops + 1):
        return False
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    return _type_fits(value, schema.get("type")) and _parts_fit(value, schema, root)


def _choices_fit(value: Any, schema: Mapping[str, Any], root: Any, hops: int) -> bool:
    for key, needed in (("anyOf", any), ("oneOf", any), ("allOf", all)):
        choices = schema.get(key) or [True]
        if not needed(could_fit(value, choice, root, hops) for choice in choices):
            return False
    return True


def _type_fits(value: Any, wanted: Any) -> bool:
    names = wanted if isinstance(wanted, list) else [wanted] if wanted else []
    return not names or any(_is(value, name) for name in names)


def _is(value: Any, name: Any) -> bool:
    if name not in _TYPES:
        return True
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    if isinstance(value, str) and name in ("integer", "number", "boolean"):
        return _spells(value, name)
    return isinstance(value, _TYPES[name])


def _spells(text: str, name: str) -> bool:
    if name == "boolean":
        return text.lower() in ("true", "false")
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parts_fit(value: Any, schema: Mapping[str, Any], root: Any) -> bool:
    if isinstance(value, list):
        items = schema.get("items")
        return items is None or isinstance(items, list) or all(could_fit(item, items, root) for item in value)
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties") or {}
    if any(name not in value for name in schema.get("required") or ()):
        return False
    extra = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return all(could_fit(item, properties.get(name, extra), root) for name, item in value.items())


def _resolved(reference: str, root: Any) -> Any:
    """What a local reference points to; a schema that fits everything if that is not known."""
    target: Any = root
    if not reference.startswith("#"):
        return True
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key, True) if isinstance(target, Mapping) else True
    return target


def name_and_arguments(value: Any) -> tuple[str, Any] | None:
    """A JSON object as the call it may be, in any of the spellings in use."""
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):  # {"type": "function", "function": {"name": ..., "arguments": ...}}
        value = inner
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        if len(value) != 1:
            return None
        name, given = next(iter(value.items()))  # {"get_weather": {"city": ...}}
        return (name, given) if isinstance(given, Mapping) else None
    key = next((key for key in ARGUMENT_KEYS if key in value), None)
    if key is None and set(value) - {*NAME_KEYS, *OTHER_KEYS}:
        return None  # a name, but its neighbours are no arguments we know
    return name, None if key is None else value[key]


def end_of_json(text: str, start: int) -> int | None:
    """Where the object or list that begins at `start` ends; None if it does not."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token.group() in ("{", "["):
            depth += 1
        elif token.group() in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
        elif token.group(1) != '"':
            return None
    return None


def items_in(value: Any) -> list[Any]:
    """The calls a JSON value may stand for: those of a list, of a ``tool_calls``, or itself."""
    items = value.get("tool_calls", [value]) if isinstance(value, dict) else value
    return items if isinstance(items, list) else [value]
