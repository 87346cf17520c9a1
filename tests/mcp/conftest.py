"""The command and its terminal, as the tests of the command line have them; and an event loop."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.conftest import chat, pal, screen_class

__all__ = ["chat", "loop", "pal", "screen_class"]


@pytest.fixture(scope="module")
def loop():
    """One event loop for a module, so that its server is started once."""
    found = asyncio.new_event_loop()
    yield found
    found.close()
