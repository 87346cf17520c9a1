"""Lazy package exports and lazy patterns."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, AnyStr, cast


def lazy_exports(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package. Loaded names are kept; completion lists all.

    Args:
        places: Modules of the package, by the names they define.
    """

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *places})


class _Lazy:
    """Proxy of a compiled pattern; attributes are bound at first use."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # later lookups skip __getattr__
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use, as most patterns are rarely needed.

    Args:
        pattern: As for ``re.compile``; an error in it is raised only at first use.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
