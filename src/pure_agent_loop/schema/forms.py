"""The ways to write one call. A rule speaks of what a call does, so it looks at each of them.

A model may leave out a default, write a number as text, or name a file from the root of the file system or
through a link. The tool takes all of these for the same, and so do the rules.
"""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

_TRUE = frozenset({"true", "1", "yes", "y", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "n", "off", "f"})
_NUMBERS = frozenset({"integer", "number"})


class Forms(NamedTuple):
    """One call in all its forms.

    Args:
        meant: What the tool makes of it. A rule that allows has to fit one of these.
        written: What the model wrote besides. A rule that denies or asks may also fit this.
    """

    meant: tuple[Mapping[str, Any], ...]
    written: tuple[Mapping[str, Any], ...] = ()

    @property
    def each(self) -> tuple[Mapping[str, Any], ...]:
        """All of them."""
        return (*self.written, *self.meant)

    def with_paths(self, paths: Sequence[str]) -> Forms:
        """The same with what the argument `path` leads to, by each of its names."""
        if not paths:
            return self
        meant = tuple({**self.meant[0], "path": each} for each in paths)
        return self._replace(meant=meant, written=self.each)


def forms_of(args: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> Forms:
    """The forms of a call that its tool's schema tells of.

    Args:
        args: The arguments as the model wrote them.
        parameters: The JSON Schema of the tool's arguments.
    """
    properties = (parameters or {}).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    left_out = {
        name: of["default"]
        for name, of in known.items()
        if isinstance(of, Mapping) and "default" in of and _is_left_out(name, args, of)
    }
    given = {name: _taken(value, known.get(name)) for name, value in args.items()}
    return Forms(({**given, **left_out},), (args,))


def _is_left_out(name: str, args: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    return name not in args or (args[name] is None and "null" not in kinds_of(schema))


def kinds_of(schema: object) -> set[str]:
    """The JSON types that a schema takes; empty if it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    said, several = schema.get("type"), schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list):
        found = [kinds_of(each) for each in several]
        return set().union(*found) if all(found) else set()
    return {said} if isinstance(said, str) else set(said) if isinstance(said, list) else set()


def _taken(value: Any, schema: object) -> Any:
    """A value as the tool takes it: the text of a number, a truth value, a list or an object as that."""
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
    with suppress(ValueError, RecursionError):
        return json.loads(value)
    return value


def paths_of(root: str, path: object) -> list[str]:
    """The names of what a path leads to: in its folder, and from the root of the file system.

    Args:
        root: The folder it is a path in.
        path: As the model wrote it.

    Returns:
        None of them if it leads out of the folder, or can be no path.
    """
    if not isinstance(path, str) or not path:
        return []
    try:
        top = os.path.realpath(root)
        plain = os.path.normpath(os.path.join(top, path))  # noqa: PTH118 - it need not exist
        inside = os.path.relpath(os.path.realpath(plain), top)
    except (OSError, ValueError):
        return []
    relative = inside.replace(os.sep, "/")
    if relative == ".." or relative.startswith("../"):
        return []
    above = dict.fromkeys((os.path.abspath(root), top))  # noqa: PTH100 - by the name it was given, too
    return [relative, *(posixpath.normpath(f"{each}/{relative}") for each in above)]


def fits(pattern: str, value: Any, name: str = "") -> bool:
    """True if a value of an argument is what a pattern of a rule says."""
    if isinstance(value, bool):
        pattern = pattern.lower()  # also as Python writes it
    elif isinstance(value, (int, float)):
        with suppress(ValueError):
            pattern = _as_word(value) if float(pattern) == value else pattern
    if name == "path":
        pattern, value = _as_path(pattern), _as_path(value)
    # fnmatch's brackets would surprise in a command line; only * and ? are wildcards here.
    plain = re.sub(r"[\[\]]", lambda bracket: f"[{bracket[0]}]", pattern)
    return fnmatch.fnmatchcase(_as_word(value), plain)


def _as_path(value: Any) -> Any:
    """The path as the tools open it: ``src/../.env`` is not below ``src``, and ``./.env`` is ``.env``."""
    return posixpath.normpath(value) if isinstance(value, str) and value else value


def _as_word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
