"""A local model without an account: a small GGUF model in a separate server process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.local.engine.detect import KNOWN_PORTS, Found, find_server
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.local.client import ONE_REQUEST_A_CONNECTION, EmbeddedClient, join_model, open_local
    from pure_agent_loop.local.engine.joining import check_engine, join_server
    from pure_agent_loop.local.engine.models import Listed, list_models, pull_model, use_model

__all__ = [
    "KNOWN_PORTS",
    "ONE_REQUEST_A_CONNECTION",
    "EmbeddedClient",
    "Found",
    "Listed",
    "check_engine",
    "find_server",
    "join_model",
    "join_server",
    "list_models",
    "open_local",
    "pull_model",
    "use_model",
]


# Loaded lazily, because most runs only look for a running server.
_LATER = {
    "Listed": "engine.models",
    "check_engine": "engine.joining",
    "join_server": "engine.joining",
    "list_models": "engine.models",
    "pull_model": "engine.models",
    "use_model": "engine.models",
    "EmbeddedClient": "client",
    "ONE_REQUEST_A_CONNECTION": "client",
    "join_model": "client",
    "open_local": "client",
}
__getattr__, __dir__ = lazy_exports(__name__, _LATER)
