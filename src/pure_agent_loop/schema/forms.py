"""Equivalent spellings of a call's arguments. Permission rules are matched against all of them.

A model may omit a default, write a number as text, or give a path from the root of the file system or
through a link. The tool treats these spellings as equal, so rules must treat them as equal, too.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pure_agent_loop.support import globs
from pure_agent_loop.support.parsing import json_or_text
from pure_agent_loop.support.quoted_paths import unquoted_path

_TRUE = frozenset({"true", "1", "yes", "y", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "n", "off", "f"})
_NUMBERS = frozenset({"integer", "number"})


class Forms(NamedTuple):
    """One call in all its spellings.

    Args:
        meant: The arguments as the tool interprets them. An allow rule must match one of these.
        written: The arguments as the model wrote them. A deny or ask rule may also match these.
    """

    meant: tuple[Mapping[str, Any], ...]
    written: tuple[Mapping[str, Any], ...] = ()

    @property
    def each(self) -> tuple[Mapping[str, Any], ...]:
        """All spellings."""
        return (*self.written, *self.meant)

    def with_paths(self, paths: Sequence[str]) -> Forms:
        """Return the forms with the argument `path` replaced by each name of the path's target."""
        if not paths:
            return self
        meant = tuple({**self.meant[0], "path": path} for path in paths)
        return self._replace(meant=meant, written=self.each)


def forms_of(args: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> Forms:
    """Return the forms of a call according to its tool's schema."""
    properties = (parameters or {}).get("properties")
    fields = properties if isinstance(properties, Mapping) else {}
    left_out = {
        name: of["default"]
        for name, of in fields.items()
        if isinstance(of, Mapping) and "default" in of and _is_left_out(name, args, of)
    }
    typed_args = {name: _taken(value, fields.get(name)) for name, value in args.items()}
    return Forms(({**typed_args, **left_out},), (args,))


def _is_left_out(name: str, args: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    return name not in args or (args[name] is None and "null" not in kinds_of(schema))


def kinds_of(schema: object) -> set[str]:
    """Return the JSON types that a schema accepts; empty if the schema does not name any."""
    if not isinstance(schema, Mapping):
        return set()
    kind, several = schema.get("type"), schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list):
        alternatives = [kinds_of(option) for option in several]
        return set().union(*alternatives) if all(alternatives) else set()
    return {kind} if isinstance(kind, str) else set(kind) if isinstance(kind, list) else set()


def _taken(value: Any, schema: object) -> Any:
    """Convert a value as the tool does: a string that spells a number, boolean, list or object is parsed."""
    kinds = kinds_of(schema)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value in (0, 1) and "boolean" in kinds and not kinds & _NUMBERS:
        return bool(value)
    if not isinstance(value, str) or not kinds or "string" in kinds:
        return value
    word = value.strip().lower()
    if "boolean" in kinds and word in _TRUE | _FALSE:
        return word in _TRUE
    if kinds & _NUMBERS:
        with suppress(ValueError):
            return int(word)
        with suppress(ValueError, OverflowError):
            number = float(word)
            return int(number) if number.is_integer() else number
    return json_or_text(value)


def paths_of(root: str, path: object) -> list[str]:
    """Return the names of a path's target: relative to `root`, and from the root of the file system.

    Args:
        root: The folder that the path is relative to.

    Returns:
        The names; empty if the path leaves the folder or is invalid.
    """
    if not isinstance(path, str) or not path:
        return []
    try:
        top = os.path.realpath(root)
        plain = os.path.normpath(os.path.join(top, unquoted_path(path)))  # noqa: PTH118 - the file may be missing
        inside = os.path.relpath(os.path.realpath(plain), top)
    except (OSError, ValueError):
        return []
    relative = inside.replace(os.sep, "/")
    if relative == ".." or relative.startswith("../"):
        return []
    above = dict.fromkeys((os.path.abspath(root), top))  # noqa: PTH100 - its given name counts, too
    return [relative, *(posixpath.normpath(f"{parent}/{relative}") for parent in above)]


def fits(pattern: str, value: Any, name: str = "", *, too_long: bool = False) -> bool:
    """Return True if a value matches a pattern; return `too_long` if it is too long to match."""
    if isinstance(value, bool):
        pattern = pattern.lower()  # a rule may also spell a bool as Python does
    elif isinstance(value, (int, float)):
        with suppress(ValueError):
            pattern = _as_word(value) if float(pattern) == value else pattern
    if name == "path":
        pattern, value = _as_path(pattern), _as_path(value)
    return globs.fits(pattern, _as_word(value), too_long=too_long)


def _as_path(value: Any) -> Any:
    """Normalize a path as the tools do: ``src/../.env`` is not below ``src``, and ``./.env`` is ``.env``."""
    return posixpath.normpath(value) if isinstance(value, str) and value else value


def _as_word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
