"""What is made when it is first asked for: names of a package, and patterns."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, AnyStr, cast


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
