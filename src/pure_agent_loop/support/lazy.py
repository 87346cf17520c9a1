"""Exports, optional modules and regular expressions that are loaded or compiled on first use."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, AnyStr, cast


def lazy_exports(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Loaded names are cached; ``__dir__`` lists all names.

    Args:
        places: Module that defines each name, by name.
    """

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *places})


def module_of_extra(name: str, feature: str, extra: str) -> Any:
    """Import a module of another package.

    Raises:
        MissingExtraError: The package is not installed; the error names the feature that needs the package,
            and the extra.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        from pure_agent_loop.errors import MissingExtraError

        raise MissingExtraError(feature, extra) from error


class _Lazy:
    """Proxy of a compiled pattern; attributes are bound on first use."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # later lookups then skip `__getattr__`
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use, because most patterns are rarely needed.

    Args:
        pattern: As for ``re.compile``; an error in it is raised only at first use.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
