"""Files that are deleted, renamed or replaced while a run writes them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3

import pytest

from pure_agent_loop import Agent, EventType, tool
from pure_agent_loop.audit import AuditLog, verify
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import SessionWriteError
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.testing import ScriptedLLM, call


def deleted(path):
    path.unlink()


def renamed(path):
    path.rename(path.with_name("moved"))


def rotated(path):
    path.rename(path.with_name("moved"))
    path.touch()


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def folder_renamed(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


WAYS = [deleted, renamed, rotated, replaced, folder_renamed]
STORES = {
    "jsonl": (lambda folder: JsonlStore(folder / "kept"), "kept/s.jsonl"),
    "sqlite": (lambda folder: SqliteStore(folder / "kept/s.sqlite"), "kept/s.sqlite"),
    "wal": (lambda folder: SqliteStore(folder / "kept/s.sqlite"), "kept/s.sqlite-wal"),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("store", STORES)
def test_a_run_does_not_end_as_if_its_session_were_kept(tmp_path, store, way):
    make, file = STORES[store]

    @tool
    def act(n: int) -> str:
        """Act."""
        if n == 1:
            way(tmp_path / file)
        return "done"

    llm = ScriptedLLM([call("act", n=1), call("act", n=2), "Done."], strict=False)
    result = Agent(llm=llm, tools=[act], sessions=make(tmp_path)).run("go", session_id="s")
    assert result.stop_reason == "error"
    assert isinstance(result.state.failure, SessionWriteError)
    assert "deleted, renamed or replaced" in str(result.error)
    assert len(llm.requests) == 1  # nothing more is done that nobody keeps


@pytest.mark.parametrize(
    "statement", ["DELETE FROM records", "DELETE FROM records WHERE number > 3", "DELETE FROM sessions"]
)
def test_a_run_notices_that_rows_of_its_session_were_deleted(tmp_path, statement):
    path = tmp_path / "s.sqlite"

    @tool
    def act(n: int) -> str:
        """Act."""
        if n == 1:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute(statement)
        return "done"

    llm = ScriptedLLM([call("act", n=1), call("act", n=2), "Done."], strict=False)
    result = Agent(llm=llm, tools=[act], sessions=SqliteStore(path)).run("go", session_id="s")
    assert (result.stop_reason, len(llm.requests)) == ("error", 1)
    assert isinstance(result.state.failure, SessionWriteError)
    assert "records of this session were deleted" in str(result.error)
    with SqliteStore(path).open("s") as log:  # with what is left
        log.append("step", {"n": 1})


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_run_notices_that_the_end_of_its_session_was_cut_off(tmp_path, left):
    path = tmp_path / "s.jsonl"

    @tool
    def act(n: int) -> str:
        """Act."""
        if n == 1:
            os.truncate(path, int(path.stat().st_size * left))
        return "done"

    llm = ScriptedLLM([call("act", n=1), call("act", n=2), "Done."], strict=False)
    result = Agent(llm=llm, tools=[act], sessions=JsonlStore(tmp_path)).run("go", session_id="s")
    assert result.stop_reason == "error"
    assert "it was truncated while open" in str(result.error)
    assert len(llm.requests) == 1
    with JsonlStore(tmp_path).open("s") as log:  # with what is left
        log.append("step", {"n": 1})


def test_undisturbed_store_continues(tmp_path):
    llm = ScriptedLLM([call("act"), "Done."] * 2)

    @tool
    def act() -> str:
        """Act, while others look."""
        with sqlite3.connect(tmp_path / "s.sqlite") as other:
            other.execute("SELECT count(*) FROM records").fetchall()
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return "done"

    agent = Agent(llm=llm, tools=[act], sessions=SqliteStore(tmp_path / "s.sqlite"))
    for _ in range(2):
        assert agent.run("go", session_id="s").stop_reason == "completed"


def look_until_it_fails(engine):
    while True:
        engine.database.rows("SELECT 1 FROM @workers")


def test_a_durable_run_does_not_begin_again_in_a_new_file(tmp_path):
    done = []

    @tool
    def act(n: int) -> str:
        """Act."""
        done.append(n)
        for path in tmp_path.glob("r.sqlite*"):
            if path.is_file():
                path.rename(path.with_name(f"moved-{path.name}"))
        return "done"

    llm = ScriptedLLM([call("act", n=1), call("act", n=2), "Done."] * 3, strict=False)
    agents = {"a": Agent(llm=llm, tools=[act])}
    with Engine(f"sqlite:///{tmp_path}/r.sqlite", agents=agents, grace=1) as engine:
        engine.submit("a", "go")
        with pytest.raises(DurableError, match="deleted, renamed or replaced"):
            look_until_it_fails(engine)
    assert done == [1]
    assert len(llm.requests) == 1


@pytest.mark.parametrize("key", ["", "k" * 20])
@pytest.mark.parametrize("way", ["deleted", "renamed", "older", "emptied", "another"])
def test_removed_audit_log_fails_verification(tmp_path, way, key, caplog):
    folder, kept = tmp_path / "audit", tmp_path / "kept"

    @tool
    def pay(n: int) -> str:
        """Pay."""
        if n == 1:
            shutil.copytree(folder, kept)
        if n == 3:
            if way == "renamed":
                folder.rename(tmp_path / "moved")
            else:
                shutil.rmtree(folder)
            if way == "older":
                shutil.copytree(kept, folder)
            if way == "emptied":
                folder.mkdir()
            if way == "another":  # a whole log, and a longer one
                other = AuditLog(folder, key=key)
                Agent(llm=ScriptedLLM([*[call("pay", n=9)] * 20, "ok"]), tools=[pay], audit=other).run("x")
        return "paid"

    llm = ScriptedLLM([*[call("pay", n=n) for n in range(6)], "Done."])
    events = list(Agent(llm=llm, tools=[pay], audit=AuditLog(folder, key=key)).run_stream("go"))
    assert notices(events) == [
        f"Records of the audit log {folder} are missing: the file was moved or replaced."
    ]
    report = verify(AuditLog(folder, key=key))
    assert not report.ok
    assert "earlier lines of its writer were missing" in str(report.first_problem)
    assert any("was moved or replaced" in record.message for record in caplog.records)


def notices(events):
    return [event.data["message"] for event in events if event.type is EventType.NOTICE]


def head_deleted(folder):
    (folder / "head").unlink()


def file_deleted(folder):
    (folder / "audit-000001.jsonl").unlink()


def file_cut(folder):
    os.truncate(folder / "audit-000001.jsonl", 100)


def line_put_in(folder):
    with (folder / "audit-000001.jsonl").open("ab") as file:
        file.write(b'{"kind": "call"}\n')


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("way", [head_deleted, file_deleted, file_cut, line_put_in])
def test_damaged_audit_log_is_reported_during_the_run(tmp_path, way, language):
    folder = tmp_path / "audit"

    @tool
    def act(n: int) -> str:
        """Act."""
        if n == 1:
            way(folder)
        return "done"

    llm = ScriptedLLM([*[call("act", n=n) for n in range(4)], "Done."])
    agent = Agent(llm=llm, tools=[act], audit=AuditLog(folder), language=language)
    told = notices(agent.run_stream("go"))
    assert len(told) == 1
    assert str(folder) in told[0]
    assert "pal audit verify" in told[0]
    assert ("改动" in told[0]) == (language == "zh")
    assert not verify(folder).ok


def test_the_logs_of_an_agent_and_of_the_one_it_works_for_both_tell(tmp_path):
    folders = [tmp_path / "above", tmp_path / "own"]

    @tool
    def act() -> str:
        """Act."""
        for folder in folders:
            file_deleted(folder)
        return "done"

    helper = Agent(llm=ScriptedLLM([call("act"), "Helped."]), tools=[act], audit=AuditLog(folders[1]))
    llm = ScriptedLLM([call("helper", input="x"), "Done."])
    agent = Agent(llm=llm, tools=[helper.as_tool("helper", "Help.")], audit=AuditLog(folders[0]))
    told = " ".join(notices(agent.run_stream("go")))
    assert [told.count(str(folder)) for folder in folders] == [1, 1]


def test_a_result_without_its_call_is_damage_to_whoever_looks_later(tmp_path):
    folder = tmp_path / "audit"
    log = AuditLog(folder, key="")

    @tool
    def pay(n: int) -> str:
        """Pay, and forget whatever the writer knows of the log."""
        if n == 1:
            shutil.rmtree(folder)
            log._chain._newest = None
        return "paid"

    Agent(llm=ScriptedLLM([call("pay", n=0), call("pay", n=1), "Done."]), tools=[pay], audit=log).run("go")
    assert "result of a call that is not in this log" in str(verify(log).first_problem)


def test_several_writers_and_files_are_no_damage(tmp_path):
    logs = [AuditLog(tmp_path, key="", file_bytes=1_500) for _ in range(3)]

    @tool
    def act(n: int) -> str:
        """Act, and have others write meanwhile."""
        if n < 2:
            script = ScriptedLLM([call("act", n=n + 1), "ok"])
            Agent(llm=script, tools=[act], audit=logs[n + 1]).run("x")
        return "done"

    script = ScriptedLLM([*[call("act", n=0)] * 6, "ok"], strict=False)
    Agent(llm=script, tools=[act], audit=logs[0]).run("x")
    assert verify(tmp_path).ok
    assert len(list(tmp_path.glob("audit-*.jsonl"))) > 1
    assert all(verify(path).ok for path in tmp_path.glob("audit-*.jsonl"))
