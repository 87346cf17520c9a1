"""Stores for tests of sessions."""

from __future__ import annotations

import pytest

from pure_agent_loop.sessions import JsonlStore, SqliteStore

STORES = {"jsonl": (JsonlStore, "s"), "sqlite": (SqliteStore, "s.sqlite")}


@pytest.fixture(params=STORES)
def new_store(request, tmp_path):
    kind, name = STORES[request.param]
    numbers = iter(range(10**6))
    return lambda: kind(tmp_path / f"{next(numbers)}{name}")
