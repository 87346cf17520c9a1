"""Stores for tests of sessions."""

from __future__ import annotations

import os

import pytest

from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore

STORES = {"jsonl": (JsonlStore, "s"), "sqlite": (SqliteStore, "s.sqlite")}


# A run costs more there, so `test_postgres` takes samples; PAL_POSTGRES=1 runs everything.
EVERY = [*STORES, *(["postgres"] if os.environ.get("PAL_POSTGRES") else [])]


@pytest.fixture(params=EVERY)
def new_store(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").new_database()
        schemas = iter(range(10**6))
        return lambda: PostgresStore(url, schema=f"s{next(schemas)}", connections=2)
    kind, name = STORES[request.param]
    numbers = iter(range(10**6))
    return lambda: kind(tmp_path / f"{next(numbers)}{name}")
