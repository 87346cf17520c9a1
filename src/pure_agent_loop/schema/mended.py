"""Convert foreign JSON Schemas to the subset that model servers accept.

A construct that a server may reject is replaced by an equivalent one, or (a choice between whole sets of
arguments, which few servers accept) by words. Anything without an equivalent stays unchanged.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Protocol, Union

from pure_agent_loop.errors import ConfigError, Retry, ToolExecutionError
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.schema.outcome import ToolOutcome, failed, outcome_of
from pure_agent_loop.schema.signature import ToolParameter
from pure_agent_loop.support.failures import is_meant, log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread

MAX_DEPTH = 100
MAX_INLINED = 200  # inlined references
MAX_CHOICES = 5  # nested choices
MAX_WORDS = 500  # characters of a rule in words
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_SYNONYMS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
             "dict": "object", "none": "null"}  # fmt: skip
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_CHOICES = ("anyOf", "oneOf", "allOf")
_TOP_RULES = (*_CHOICES, "not", "enum", "const")  # keywords that servers reject at the top level
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
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


def mended_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments as servers accept it; equal to the given one if valid.

    Args:
        schema: The schema. It is not modified.

    Raises:
        ConfigError: The schema is not JSON, not an object's, nested over 100 levels deep, or contains itself.
    """
    mender, top, seen = _SchemaMender(schema), dict(schema), set[str]()
    while "$ref" in top and str(top["$ref"]) not in seen:
        seen.add(reference := str(top.pop("$ref")))
        top = {**(mender.target(reference) or {}), **top}
    try:
        mended = mender.mend(top, MAX_DEPTH)
        json.dumps(mended, default=str)
    except ValueError as error:  # such as a number with too many digits
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
    """A converter of a schema and its subschemas."""

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
        """Return True for a reference that servers follow: one to a definition of this schema."""
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
    known = dict.fromkeys(_SYNONYMS.get(str(kind).lower(), str(kind).lower()) for kind in kinds)
    valid_kinds = [kind for kind in known if kind in _TYPES]
    if len(valid_kinds) < len(known) or not valid_kinds:  # an unknown type could be anything
        return {key: value for key, value in schema.items() if key != "type"}
    return {**schema, "type": valid_kinds if len(valid_kinds) > 1 else valid_kinds[0]}


def _with_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Make ``required`` and ``enum`` lists without duplicates."""
    mended = dict(schema)
    known = mended.get("properties")
    if "properties" in mended and not isinstance(known, dict):
        del mended["properties"]
        known = None
    inner = [name for name, field in (known or {}).items() if field.get("required") is True]  # draft 3
    required = mended.get("required")
    if inner or "required" in mended:
        names = [n for n in (required if isinstance(required, list) else ()) if isinstance(n, str)]
        mended["required"] = list(dict.fromkeys([*names, *inner]))
        if required is True or (not mended["required"] and not isinstance(required, list)):
            del mended["required"]
        elif known is not None:
            mended["properties"] = {
                n: _without(field, "required") if n in inner else field for n, field in known.items()
            }
    if "enum" in mended:
        values = mended["enum"] if isinstance(mended["enum"], list) else []
        mended["enum"] = [value for n, value in enumerate(values) if not _stands_in(value, values[:n])]
        if not mended["enum"]:
            del mended["enum"]
    return mended


def _stands_in(value: Any, values: Iterable[Any]) -> bool:
    return any(type(value) is type(other) and value == other for other in values)


def _without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}


def _with_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert draft 4's boolean ``exclusiveMinimum`` with its separate bound."""
    for name, bound in _BOUNDS:
        if isinstance(schema.get(name), bool):
            is_exclusive, schema = schema[name], _without(schema, name)
            if is_exclusive and bound in schema:
                schema = {**_without(schema, bound), name: schema[bound]}
    return schema


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Add ``items`` to arrays. Convert an old-form tuple to ``prefixItems`` and a choice of its items."""
    items, kinds = schema.get("items"), schema.get("type")
    if isinstance(items, list):
        choices = [choice for n, choice in enumerate(items) if not _stands_in(choice, items[:n])]
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
            known = mended.setdefault("properties", {})
            mended["properties"] = {**known, name: _either(known.get(name, value), value)}
        if key == "allOf" and part.get("required"):
            mended["required"] = list(dict.fromkeys([*mended.get("required", ()), *part["required"]]))
    if rules:
        words = json.dumps(rules, ensure_ascii=False, default=str)
        words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]} ..."
        mended["description"] = (
            f"{mended.get('description', '')}\nThe arguments must also fit: {words}".strip()
        )
    if "properties" not in mended:  # servers require it; any argument stays allowed
        mended = {"additionalProperties": True, **mended}
    known = mended.get("properties", {})
    nowhere: dict[str, Any] = {name: {} for name in mended.get("required", ()) if name not in known}
    return {**mended, "type": "object", "properties": {**known, **nowhere} if nowhere else known}


def _parts(schema: Mapping[str, Any], mender: _SchemaMender, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the alternatives of a top-level choice with their keyword; definitions are resolved."""
    for key in _CHOICES:
        for part in schema.get(key) or () if isinstance(schema.get(key), list) else ():
            target = mender.target(part["$ref"]) if "$ref" in part else part
            if isinstance(target, Mapping) and depth < MAX_CHOICES:
                target = part if target is part else mender.mend(target, MAX_DEPTH)
                yield key, target
                yield from _parts(target, mender, depth + 1)


def _either(first: Any, second: Any) -> Any:
    return first if first == second else {"anyOf": [*first.get("anyOf", [first]), second]}


# -- call a function for a model: every result or error becomes a `ToolOutcome` that the model reads -----


async def made(call: Callable[[], Awaitable[Any]], tool: str, prompts: Prompts) -> ToolOutcome:
    """Return the outcome of a call. Raises only for a real cancellation."""
    fail = partial(failed, prompts, tool)
    try:
        return await outcome_of(await call())
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        return cancelled_itself(error, tool, prompts)
    except KeyboardInterrupt:
        return fail("KeyboardInterrupt", model_text("interrupted"), interrupt=True)
    except Retry as error:  # or a subclass
        return replace(fail(Retry.__name__, safe_str(error)), is_retry=True)
    except ToolExecutionError as error:  # the text around its message names the tool
        return fail(type(error).__name__, safe_str(error.message))
    except BaseException as error:  # noqa: BLE001 - even SystemExit must not end the host program
        return _logged(error, tool, fail(type(error).__name__, safe_str(error)))


def cancelled_itself(error: asyncio.CancelledError, tool: str, prompts: Prompts) -> ToolOutcome:
    """Return the outcome of a call that cancelled itself."""
    return _logged(error, tool, failed(prompts, tool, type(error).__name__, model_text("cancelled_itself")))


def _logged(error: BaseException, tool: str, outcome: ToolOutcome) -> ToolOutcome:
    log_failure(f"The tool {tool!r}", error)
    return outcome if is_meant(error) else replace(outcome, error=error)


async def call_user(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """Call a function of the user, in a worker thread if it is not async, because it may block."""
    is_async = inspect.iscoroutinefunction(unwrapped(function))
    return await (function if is_async else partial(call_in_worker, function))(*args, **arguments)


async def call_in_worker(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """Call a function that is not async in a worker thread, and await what it returns."""
    result = await run_in_thread(partial(function, *args, **arguments))
    if isinstance(result, Raised):
        raise _foreign(result.error)
    return await result if inspect.isawaitable(result) else result


def unwrapped(function: Any) -> Any:
    """Return the function inside a ``partial`` or callable object, to see if it is async."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)  # noqa: B004 - the method itself, to see if it is async


def _foreign(error: BaseException) -> BaseException:
    """Make a thread's error safe to raise here: its CancelledError does not cancel this task."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError(model_text("raised_cancelled")).with_traceback(error.__traceback__)
    return error


def _is_being_cancelled() -> bool:
    """Return True unless the running task is certainly not being cancelled (unknowable before 3.11)."""
    if sys.version_info >= (3, 11):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    else:  # noqa: RET505 - so that a type checker skips the branch of the other version
        return True


# -- JSON Schema and validation of plain types, as pydantic writes them, without importing pydantic ------
# Most tools take texts, numbers and lists of them. For other types the functions return `None`, and
# pydantic is used. Both ways validate with pydantic's core and the same core schema.


class Validator(Protocol):
    """A validator of the arguments of a call."""

    def validate_python(self, value: Any, /) -> Any:
        """Return keyword arguments. Raises ``pydantic_core.ValidationError``."""
        ...


def plain_schema(parameters: Sequence[ToolParameter]) -> dict[str, Any] | None:
    """Return the schema of keyword arguments; None if one of them is not plain.

    Args:
        parameters: The parameters, with resolved annotations.
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
    """Return whether a default is a plain JSON value."""
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
    known = [part for part in parts if part is not None]
    # pydantic handles nested unions and duplicate members.
    is_simple = len(known) == len(parts) and all(part and "anyOf" not in part for part in known)
    return {"anyOf": known} if is_simple and all(known.count(part) == 1 for part in known) else None


def _literal(values: tuple[Any, ...]) -> dict[str, Any] | None:
    if any(type(value) is not str for value in values) or len(set(values)) != len(values):
        return None
    if len(values) == 1:
        return {"const": values[0], "type": "string"}
    return {"enum": list(values), "type": "string"}
