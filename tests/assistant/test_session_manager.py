"""Sessions as one object."""

from __future__ import annotations

import pytest
from tests.helpers import add

from pure_agent_loop import Agent, ConfigError, SessionManager
from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.testing import ScriptedLLM, call


def run(manager, session, *script):
    return Agent(llm=ScriptedLLM(script), tools=[add], sessions=manager.store).run("go", session_id=session)


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_list_load_fork_export_delete(tmp_path, kind):
    manager = SessionManager(tmp_path / "s" if kind == "folder" else SqliteStore(tmp_path / "s.db"))
    assert list(manager.list()) == []
    result = run(manager, "a", call("add", a=1, b=2), "It is 3.")
    loaded = manager.load("a")
    assert loaded.messages == result.messages
    assert (loaded.task, loaded.stop_reason, loaded.steps, loaded.problems) == ("go", "completed", 2, [])
    assert manager.fork("a", 1, "b") == "b"
    assert manager.load("b").messages[-1]["role"] in ("user", "tool")
    assert {info.id for info in manager.list()} == {"a", "b"}
    assert "It is 3." in manager.export("a")
    assert "<html" in manager.export("a", "html")
    with pytest.raises(ConfigError, match="form="):
        manager.export("a", "pdf")
    manager.delete("b")
    assert not manager.exists("b")
    with pytest.raises(SessionNotFoundError):
        manager.load("b")


def test_repair_is_for_files(tmp_path):
    manager = SessionManager(tmp_path)
    run(manager, "a", "hello")
    path = tmp_path / "a.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:200] + b"garbage" + data[207:])
    assert manager.load("a").problems
    report = manager.repair("a")
    assert report.session_id == "a.repaired"
    assert manager.load("a.repaired").problems == []
    with pytest.raises(ConfigError, match="cannot repair"):
        SessionManager(SqliteStore(tmp_path / "s.db")).repair("a")


def test_without_a_root_it_is_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    manager = SessionManager()
    run(manager, "a", "hello")
    assert isinstance(manager.store, JsonlStore)
    assert (tmp_path / "home" / "sessions" / "a.jsonl").is_file()


@pytest.mark.parametrize("own", [[], [{"role": "system", "content": "Speak like a pirate."}]])
def test_the_history_is_that_of_the_result_with_its_own_system_message(own, tmp_path):
    history = [*own, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ahoy"}]
    with ScriptedLLM(["first", "second"]) as llm:
        agent = Agent(llm=llm, system_prompt="Be brief.", sessions=JsonlStore(tmp_path))
        agent.run("Go", messages=history, session_id="s")
        result = agent.run("On", session_id="s")
    assert SessionManager(tmp_path).load("s").messages == result.messages
    assert result.messages[: len(history)] == history
