"""Names of a package whose modules are loaded when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def load_name(package: str, places: Mapping[str, str], name: str) -> Any:
    """A name of a package, for its ``__getattr__``; the package keeps it.

    Args:
        places: The modules of the package, by the names that stand in them.

    Raises:
        AttributeError: There is no such name.
    """
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
    setattr(sys.modules[package], name, value)
    return value
