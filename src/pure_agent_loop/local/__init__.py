"""A real model without any account: a small GGUF model in a server process of its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pure_agent_loop.local.engine.detect import Found, find_server

if TYPE_CHECKING:
    from pure_agent_loop.local.client import EmbeddedClient, open_local

__all__ = ["EmbeddedClient", "Found", "find_server", "open_local"]


def __getattr__(name: str) -> Any:
    if name not in ("EmbeddedClient", "open_local"):  # most runs look for a server and need no more of this
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.client"), name)
