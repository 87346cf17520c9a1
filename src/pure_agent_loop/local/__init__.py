"""A real model without any account: a small GGUF model in a server process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.local.engine.detect import Found, find_server
from pure_agent_loop.support.lazy import names_loaded_later

if TYPE_CHECKING:
    from pure_agent_loop.local.client import EmbeddedClient, open_local

__all__ = ["EmbeddedClient", "Found", "find_server", "open_local"]


# Most runs look for a server and need no more of this.
_LATER = {"EmbeddedClient": "client", "open_local": "client"}
__getattr__, __dir__ = names_loaded_later(__name__, _LATER)
