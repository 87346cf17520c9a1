"""Check values from files against their annotations."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_SIMPLE = {str, int, float, bool, types.NoneType}


def mistyped(value: Any, hint: Any, where: str = "it") -> str:
    """Describe where a value does not match its annotation, as part of a sentence; empty if it matches.

    Args:
        value: Any value. Dataclasses and named tuples are checked by field.
    """
    if hint is Any or (type(value) is hint and hint in _SIMPLE):
        return ""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        problems = (mistyped(value, option, where) for option in args)
        first = next(problems)
        return first if first and all(problems) else ""
    if origin is Literal:
        return "" if value in args and type(value) in map(type, args) else f"{where} is {value!r:.40}"
    if is_typeddict(origin):
        return _in_dict(value, origin, where)
    if not isinstance(origin, type):
        return ""
    if not _is_a(value, origin):
        return f"{where} is {value!r:.40}"
    return _inside(value, origin, args, where)


def _is_a(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)


def _inside(value: Any, kind: type, args: tuple[Any, ...], where: str) -> str:
    parts: list[tuple[Any, Any, str]] = []
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = _hints(kind)
        parts = [(getattr(value, name), hint, name) for name, hint in hints.items() if name[0] != "_"]
    elif issubclass(kind, Mapping) and args and args[1] is not Any:
        parts = [(entry, args[1], f"{where}[{key!r:.40}]") for key, entry in value.items()]
    elif kind is tuple and args and args[-1] is not ...:
        if len(value) != len(args):
            return f"{where} has {len(value)} items, not {len(args)}"
        parts = [
            (entry, hint, f"{where}[{n}]") for n, (entry, hint) in enumerate(zip(value, args, strict=True))
        ]
    elif issubclass(kind, Sequence) and args and args[0] is not Any:
        parts = [(entry, args[0], f"{where}[{number}]") for number, entry in enumerate(value)]
    return next(filter(None, (mistyped(*entry) for entry in parts)), "")


def _in_dict(value: Any, kind: Any, where: str) -> str:
    if not isinstance(value, dict):
        return f"{where} is {value!r:.40}"
    hints = _hints(kind)
    if missing := kind.__required_keys__ - value.keys():
        return f"{min(missing)!r} is missing"
    problems = (mistyped(entry, hints[key], key) for key, entry in value.items() if key in hints)
    return next(filter(None, problems), "")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
