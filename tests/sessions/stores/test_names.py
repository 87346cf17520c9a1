"""Any text of up to 200 characters names a session, wherever it is kept."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, check_session_id, check_session_name
from pure_agent_loop.testing import ScriptedLLM

NAMES = [
    "cron:daily-report",
    "telegram:123",
    "用户1",
    "客" * 200,
    "x" * 200,
    "X" * 200,
    "a/b",
    "../../etc/passwd",
    "..",
    ".",
    ".hidden",
    "~",
    "C:\\Users",
    "con",
    "NUL.txt",
    "con:1",
    "a b",
    " a ",
    "%41",
    "%",
    "%~",
    "a?b#c&d",
    "ä",  # one character
    "a\u0308",  # the same, written as two
    "Ä:1",
    "ä:1",
    "user@example.org",
    "🙂",
    "*",
    "a.jsonl/",
    "x" * 65,
]
OLD = ["a", "A-1", "a.b", "20260131-142501-9f3a1c5e", "s.repaired-2", "_", "-rf"]
BAD = [
    "",
    " ",
    "\t",
    "a\nb",
    "a\0",
    "\x1b[2J",
    "a\x7f",
    "\x85",
    "a\u2028b",
    "\ud800",
    "x" * 201,
    None,
    7,
    b"a",
]


def test_each_name_has_its_own_session(new_store):
    store = new_store()
    for name in [*NAMES, *OLD]:
        agent = Agent(
            llm=ScriptedLLM([f"Hello {NAMES.index(name) if name in NAMES else name}"]), sessions=store
        )
        agent.run("hi", session_id=name)
    assert sorted(info.id for info in store.list()) == sorted([*NAMES, *OLD])
    sessions = SessionManager(store)
    for number, name in enumerate(NAMES):
        assert sessions.load(name).messages[-1]["content"] == f"Hello {number}"
    copy = sessions.fork(NAMES[0], new_id="copy/of:it")
    assert sessions.load(copy).task == "hi"
    for name in [*NAMES, *OLD]:
        sessions.delete(name)
    assert [info.id for info in store.list()] == ["copy/of:it"]


def test_names_of_files(tmp_path):
    store = JsonlStore(tmp_path / "s")
    for name in [*NAMES, *OLD]:
        store.open(name).close()
    found = [path.name for path in store.folder.iterdir()]
    assert all(path.parent == store.folder for path in tmp_path.rglob("*.jsonl"))
    assert {f"{name}.jsonl" for name in OLD} <= set(found)  # as they always were
    assert len({name.lower() for name in found}) == len(found)
    assert max(len(name.encode()) for name in found) < 200
    assert all(name.isascii() and not name.startswith(".") for name in found)
    assert not any(name.partition(".")[0].upper() in ("CON", "NUL") for name in found)
    for name in NAMES:
        store.delete(name)
    assert sorted(path.name for path in store.folder.iterdir()) == sorted(f"{name}.jsonl" for name in OLD)


@pytest.mark.parametrize("name", BAD)
def test_invalid_session_name_is_rejected(new_store, name):
    store = new_store()
    for act in (store.open, store.read, store.exists, store.delete, check_session_name, check_session_id):
        with pytest.raises(ConfigError, match="is not a valid session id"):
            act(name)


@pytest.mark.parametrize("name", ["客" * 200, "a/b", "x" * 200])
def test_a_damaged_session_of_any_name_is_repaired(tmp_path, name):
    store = JsonlStore(tmp_path)
    with store.open(name) as log:
        log.append("user", {"n": 1})
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b"{")
    report = store.repair(name)
    assert report.session_id == f"{name}.repaired"
    assert sorted(info.id for info in store.list()) == sorted([name, report.session_id])


def test_authors_of_stores_have_a_strict_check():
    assert check_session_id("a-1") == "a-1"
    for name in NAMES:
        with pytest.raises(ConfigError, match="cannot be a file name"):
            check_session_id(name)
