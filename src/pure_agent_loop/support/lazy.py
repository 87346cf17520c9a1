"""What is made when it is first asked for: names of a package, and patterns. And dataclasses, made faster.

The standard library writes and compiles code for each class, also to compare, hash and show its values, which
most are never asked to do. Here that is one function for all classes, with the same results.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, AnyStr, cast

__all__ = ["dataclass", "lazy_pattern", "names_loaded_later"]


def names_loaded_later(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package. It keeps what was loaded, and completion shows all of it.

    Args:
        places: The modules of the package, by the names that stand in them.
    """

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *places})


class _Lazy:
    """Has what a compiled pattern has, each from its first use on."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # from now on it is found without this
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern that is compiled at its first use: most of those that a module has are needed seldom.

    Args:
        pattern: As for ``re.compile``, and right: what is wrong in it shows late.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value) if each.compare)


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: Any) -> int:
    return hash(_compared(self))


@recursive_repr("...")
def _shown(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """As ``dataclasses.dataclass``."""

        def made(kind: type) -> type:
            own, eq = dict(vars(kind)), options.get("eq", True)
            # Python itself writes None for who compares and says nothing of a hash.
            if eq and ("__hash__" not in own or (own["__hash__"] is None and "__eq__" in own)):
                kind.__hash__ = _hash if options.get("frozen") else None
            if eq and "__eq__" not in own:
                kind.__eq__ = _equals
            if options.get("repr", True) and "__repr__" not in own:
                kind.__repr__ = _shown
            return dataclasses.dataclass(**{**options, "eq": False, "repr": False})(kind)

        return made
