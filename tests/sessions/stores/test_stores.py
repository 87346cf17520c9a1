"""Both stores keep every rule, and the rules catch a store that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.sessions import JsonlStore, SqliteStore, default_store, new_session_id
from pure_agent_loop.sessions.store import Loaded, check_session_id
from pure_agent_loop.sessions.stores.jsonl import JsonlLog
from pure_agent_loop.testing import STORE_RULES, ScriptError, check_store

STORES = {
    "jsonl": lambda folder: JsonlStore(folder / "sessions"),
    "sqlite": lambda folder: SqliteStore(folder / "sessions.sqlite"),
}


@pytest.mark.parametrize("rule", STORE_RULES)
@pytest.mark.parametrize("kind", STORES)
def test_a_store_keeps_the_rule(kind, rule):
    check_store(STORES[kind], rules=[rule])


class Forgetful(JsonlStore):
    def read(self, session_id):
        loaded = super().read(session_id)
        return Loaded(loaded.records[:-1], loaded.problems)


class Changing(JsonlStore):
    def read(self, session_id):
        loaded = super().read(session_id)
        return Loaded([replace(record, data={}) for record in loaded.records], loaded.problems)


class Careless(JsonlStore):
    def open(self, session_id, *, create=True):
        return super().open(session_id, create=True)


class Alarming(JsonlStore):
    def read(self, session_id):
        return Loaded(super().read(session_id).records, ["something may be wrong"])


class Trusting(JsonlStore):
    def exists(self, session_id):
        return (self.folder / f"{session_id}.jsonl").exists()


class Unordered(JsonlStore):
    def list(self):
        return super().list()[::-1]


class Unlocked(JsonlStore):
    def open(self, session_id, *, create=True):
        log = super().open(session_id, create=create)
        log._lock.release()
        return log


class Sticky(JsonlStore):
    def delete(self, session_id):
        if not self.exists(session_id):
            raise SessionNotFoundError("there is none")


class Reopenable(JsonlStore):
    def open(self, session_id, *, create=True):
        log = super().open(session_id, create=create)
        log.close = lambda: log._lock.release()
        return log


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Forgetful, "records come back"),
        (Changing, "odd data survives"),
        (Careless, "what is missing is said"),
        (Alarming, "records come back"),
        (Trusting, "ids are checked"),
        (Unordered, "the list tells"),
        (Unlocked, "one writer"),
        (Sticky, "deleted is gone"),
        (Reopenable, "a closed log is closed"),
    ],
)
def test_broken_store_rule_is_named(broken, rule):
    with pytest.raises(ScriptError, match=rule):
        check_store(lambda folder: broken(folder / "sessions"), rules=[rule])


def test_an_error_of_the_store_is_a_broken_rule():
    with pytest.raises(ScriptError, match=r"'records come back': it raised SessionWriteError"):
        check_store(lambda folder: JsonlStore("/dev/null/x"), rules=["records come back"])


def test_the_default_store_follows_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    with default_store().open("s") as log:
        assert isinstance(log, JsonlLog)
        log.append("user", {})
    assert (tmp_path / "home" / "sessions" / "s.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home" / "sessions").stat().st_mode & 0o777 == 0o700


def test_new_ids_sort_by_time_and_differ():
    assert new_session_id(0).startswith("19700101-000000-")
    assert new_session_id(1e9) < new_session_id(1.1e9)
    made = {check_session_id(new_session_id()) for _ in range(1000)}
    assert len(made) == 1000


def test_a_folder_of_the_user_keeps_its_rights(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    JsonlStore(shared).open("s").close()
    assert shared.stat().st_mode & 0o777 == 0o755
    SqliteStore(shared / "s.sqlite").open("s").close()
    assert (shared / "s.sqlite").stat().st_mode & 0o777 == 0o600
