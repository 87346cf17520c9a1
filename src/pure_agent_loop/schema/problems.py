"""Describe invalid arguments to a model: short, complete, without library jargon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import default_language, model_text

MAX_PROBLEMS = 8
PREVIEW_CHARS = 60
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
MAX_NODES = 5_000
_PREFIX = "#/$defs/"
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "required"})
# A discriminator maps values to definitions, which inlining removes; oneOf expresses the same.
_NOISE = frozenset({"title", "discriminator", "$defs"})


def describe_problems(
    errors: list[dict[str, Any]], arguments: Any, names: Sequence[str], required: AbstractSet[str]
) -> str:
    """Format pydantic's errors as one line.

    Args:
        errors: The result of ``ValidationError.errors()``.
        required: Parameters without a default.
    """
    problems: dict[str, list[str]] = {}
    got: dict[str, str | None] = {}
    unknown = []
    for error in errors:
        if error["type"] in _UNKNOWN and len(error["loc"]) == 1:
            unknown.append(_unknown(str(error["loc"][0]), arguments, names, required))
            continue
        path, text, value = _problem(error, arguments)
        problems.setdefault(path, []).append(text)
        got[path] = value
    lines = []
    for path, texts in problems.items():
        text, value = model_text("or").join(dict.fromkeys(texts)), got[path]
        lines.append(f"{path}: {text if value is None else model_text('given', problem=text, value=value)}")
    return "; ".join(_bounded(lines + unknown))


def _unknown(name: str, arguments: Any, names: Sequence[str], required: AbstractSet[str]) -> str:
    start = model_text("unknown_argument", name=_preview(name))
    if not names:
        return model_text("takes_none", start=start)
    free = [known for known in names if known not in arguments]
    # If exactly one required argument is missing, assume that the unknown name means it.
    import difflib  # imported only for an error

    close = difflib.get_close_matches(name, free, n=1) or [known for known in free if known in required]
    if len(close) == 1:
        return model_text("did_you_mean", start=start, name=close[0])
    return model_text("known_arguments", start=start, names=", ".join(names))


def _problem(error: dict[str, Any], arguments: Any) -> tuple[str, str, str | None]:
    """Return the path, the problem, and the given value, if any."""
    kind, location = error["type"], error["loc"]
    if kind == "missing":
        return _path(location, arguments, last=True), model_text("required"), None
    if kind in _UNKNOWN:
        return _path(location[:-1], arguments), model_text("unknown_field", name=_preview(location[-1])), None
    return _path(location, arguments), _wording(error), _preview(error["input"])


def _path(location: tuple[Any, ...], arguments: Any, last: bool = False) -> str:
    """Return a path such as ``items[0].name``, without pydantic's names of union members."""
    path, node = "", arguments
    for index, part in enumerate(location):
        if isinstance(node, list) and isinstance(part, int) and part < len(node):
            path, node = f"{path}[{part}]", node[part]
        elif isinstance(node, dict) and part in node:
            path, node = f"{path}.{part}", node[part]
        elif last and index == len(location) - 1:
            path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}"
    return path.removeprefix(".") or "arguments"


def _wording(error: dict[str, Any]) -> str:
    if default_language() == "zh":
        return _in_chinese(error["type"], error.get("ctx", {}))
    text = re.sub(r"^(Input |Value error, |Assertion failed, )", "", error["msg"])
    text = re.sub(r", unable to (parse|interpret) .*| or an instance of \w+", "", text)
    text = (
        text.replace("a valid array", "a valid list")
        .replace("a valid dictionary", "an object")
        .replace("a dictionary", "an object")
    )
    return text[:1].lower() + text[1:]


def _in_chinese(kind: str, context: dict[str, Any]) -> str:
    """Return an error of pydantic in Chinese.

    Args:
        context: The values of the placeholders; for a validator's own error the error itself.
    """
    from pure_agent_loop.prompts.chinese.pydantic import ERRORS, OTHER_ERROR

    text = ERRORS.get(kind) or (ERRORS["date_parsing"] if kind.startswith("date_") else OTHER_ERROR)
    values = {name: str(value).replace(" or ", ", ") for name, value in context.items()}
    try:
        return text.format(**values)
    except KeyError:  # another version of pydantic has other placeholders
        return OTHER_ERROR


def _preview(value: Any) -> str:
    try:
        text = "null" if value is None else repr(value)
    except Exception:  # noqa: BLE001 - a huge integer or a foreign object has no text
        return model_text("of_type", kind=type(value).__name__)
    return text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."


def _bounded(lines: list[str]) -> list[str]:
    rest = len(lines) - MAX_PROBLEMS
    return [*lines[:MAX_PROBLEMS], model_text("more_problems", count=rest)] if rest > 0 else lines


# -- simplify pydantic's JSON Schema for models and their servers: no titles, no avoidable ``$ref`` ------


class _SchemaTooLargeError(Exception):
    """Inlining would make the schema too large."""


def tidy_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop generated titles and inline definitions.

    Several servers fail on ``$ref``. Only definitions that contain themselves stay under ``$defs``;
    all of them do if the schema would exceed 5,000 objects (twenty types that each use the next
    one twice would give a million).

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
            # Keywords next to the reference (a description, a default) are more specific.
            del result["$ref"]
            return {**self._object(self._definitions[target]), **result}
        return _without_single_all_of(result)

    def _value(self, key: str, value: Any) -> Any:
        if key in _DATA:
            return value
        if key in _NAMED:
            return {name: self._walk(item) for name, item in value.items()}
        return self._walk(value)


def _without_single_all_of(node: dict[str, Any]) -> dict[str, Any]:
    """Unwrap ``{"allOf": [{"$ref": ...}], ...}``, pydantic's form before 2.9 of a reference with siblings."""
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


def with_texts(schema: dict[str, Any], texts: Mapping[str, str], tool: str) -> dict[str, Any]:
    """Return a tool's schema with other parameter descriptions; nested descriptions are removed.

    Raises:
        ConfigError: A parameter does not exist.
    """
    known = dict(schema.get("properties", {}))
    if unknown := [name for name in texts if name not in known]:
        raise ConfigError(f"ToolWords of {tool!r}: unknown parameter {', '.join(map(repr, unknown))}.")
    for name, text in texts.items():
        known[name] = {**_without_texts(known[name]), "description": text}
    return {**schema, "properties": known}


def _without_texts(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_texts(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    return {n: _without_texts(v) for n, v in part.items() if n != "description" or not isinstance(v, str)}
