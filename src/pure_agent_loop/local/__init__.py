"""A real model without any account: a small GGUF model in a server process of its own."""

from pure_agent_loop.local.client import LocalClient, open_local
from pure_agent_loop.local.detect import Found, find_server

__all__ = ["Found", "LocalClient", "find_server", "open_local"]
