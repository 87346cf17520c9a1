"""Values of a type: dataclasses, made faster, and whether what a file held has the type written down for it.

The standard library writes and compiles code for each dataclass, also to compare, hash and show its values,
which most are never asked to do. Here they are closures, with the same results.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["dataclass", "mistyped"]


def _equals_of(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    def equals(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self, names) == _values(other, names)

    equals.__code__ = _as_generated(equals.__code__)
    return equals


def _hash_of(names: tuple[str, ...]) -> Callable[[Any], int]:
    return lambda self: hash(_values(self, names))


def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def show(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    # pprint takes others for the user's own, and shows their values on one line.
    show.__qualname__ = "__create_fn__.<locals>.__repr__"
    guarded: Any = recursive_repr("...")(show)
    guarded.__wrapped__ = show
    return guarded  # type: ignore[no-any-return] # it is what recursive_repr was given


def _values(value: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in names])


@cache
def _as_generated(code: types.CodeType) -> types.CodeType:
    """pytest explains how two values differ only if what compares them comes from the standard library."""
    return code.replace(co_filename="<string>")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """As ``dataclasses.dataclass``."""

        def made(given: type) -> type:
            own = dict(vars(given))
            kind = dataclasses.dataclass(**{**options, "eq": False, "repr": False})(given)
            params, fields = kind.__dataclass_params__, dataclasses.fields(kind)
            params.eq, params.repr = options.get("eq", True), options.get("repr", True)
            compared = tuple(each.name for each in fields if each.compare)
            # Python itself writes None for who compares and says nothing of a hash.
            if params.eq and ("__hash__" not in own or (own["__hash__"] is None and "__eq__" in own)):
                kind.__hash__ = _hash_of(compared) if options.get("frozen") else None
            if params.eq and "__eq__" not in own:
                kind.__eq__ = _equals_of(compared)
            if params.repr and "__repr__" not in own:
                kind.__repr__ = _repr_of(tuple(each.name for each in fields if each.repr))
            return kind

        return made


def mistyped(value: Any, hint: Any, where: str = "it") -> str:
    """Where a value is not what its annotation says, as half a sentence; empty if all is right.

    Args:
        value: Any. Dataclasses and named tuples are looked into.
        hint: Its annotation. What is none of the usual ones fits everything.
    """
    if hint is Any:
        return ""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        found = [mistyped(value, each, where) for each in args]
        return "" if "" in found else found[0]
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
        parts = [(each, args[1], f"{where}[{key!r:.40}]") for key, each in value.items()]
    elif issubclass(kind, Sequence) and args and args[0] is not Any:
        parts = [(each, args[0], f"{where}[{number}]") for number, each in enumerate(value)]
    return next(filter(None, (mistyped(*each) for each in parts)), "")


def _in_dict(value: Any, kind: Any, where: str) -> str:
    if not isinstance(value, dict):
        return f"{where} is {value!r:.40}"
    hints = _hints(kind)
    missing = kind.__required_keys__ - value.keys()
    if missing:
        return f"{min(missing)!r} is missing"
    found = (mistyped(each, hints[key], key) for key, each in value.items() if key in hints)
    return next(filter(None, found), "")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
