"""Records of tasks: the table of states, the files, and what is known of a process that is gone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError, SessionLockedError
from pure_agent_loop.subagents import (
    TASK_STATES,
    TRANSITIONS,
    TaskNotFoundError,
    TaskRecord,
    TaskStore,
    TaskTransitionError,
)

ENDED = ("completed", "failed", "cancelled", "killed")


def test_the_table_speaks_of_every_state():
    assert set(TRANSITIONS) == set(TASK_STATES)
    assert set().union(*TRANSITIONS.values()) == set(TASK_STATES)


@given(st.lists(st.sampled_from(TASK_STATES), max_size=12))
def test_only_transitions_of_the_table_happen(wanted):
    record = TaskRecord("helper-1", "helper", "go")
    for state in wanted:
        before = record.state
        if state in TRANSITIONS[before]:
            record.to(state)
            assert record.state == state
        else:
            with pytest.raises(TaskTransitionError, match="cannot change from"):
                record.to(state)
            assert record.state == before
        assert record.is_over == (record.state in ENDED) == bool(record.ended)
        assert TaskRecord.from_dict(record.to_dict()) == record


def test_ended_task_can_only_be_continued():
    assert {state: set(TRANSITIONS[state]) for state in ENDED} == {state: {"pending"} for state in ENDED}


@pytest.mark.parametrize("data", [{}, {"id": "a"}, {"id": "a", "agent": "b", "prompt": "c", "state": "odd"}])
def test_invalid_record_is_rejected(data):
    with pytest.raises(ConfigError, match="Invalid task record"):
        TaskRecord.from_dict(data)


def test_records_are_kept_and_listed_newest_first(tmp_path):
    store = TaskStore(tmp_path / "agents")
    assert store.list() == []
    old = TaskRecord("a-1", "a", "x", state="completed", parent="s", created=1.0, ended=1.0)
    new = TaskRecord("a-2", "a", "y", state="failed", parent="t", created=2.0, ended=2.0)
    store.save(old)
    store.save(new)
    odd = [{"state": []}, {"created": None}, {"id": 7}, {"prompt": {}}, {"tokens": "many"}, {"id": "a-1"}]
    whole = [{**old.to_dict(), "id": f"a-{number}", **each} for number, each in enumerate(odd, 3)]
    for number, text in enumerate([*map(json.dumps, whole), "{ torn", "[" * 100_000, "7"], 3):
        (store.folder / f"a-{number}.json").write_text(text)
    assert store.list() == [new, old]
    assert store.list("s") == [old]
    assert store.get("a-1") == old
    assert (store.folder.stat().st_mode & 0o077, (store.folder / "a-1.json").stat().st_mode & 0o077) == (0, 0)


@pytest.mark.parametrize("task_id", ["nothing-1", "a-3", "../a-1", "", "A", "a/b"])
def test_a_task_that_is_not_there_is_said_so(tmp_path, task_id):
    store = TaskStore(tmp_path)
    (tmp_path / "a-3.json").write_text("[]")
    with pytest.raises(TaskNotFoundError, match="not found"):
        store.get(task_id)


@pytest.mark.parametrize("state", ["pending", "running", "backgrounded"])
def test_a_task_whose_process_is_gone_is_killed(tmp_path, state):
    store = TaskStore(tmp_path)
    lock = store.claim("a-1")
    store.save(TaskRecord("a-1", "a", "x", state=state))
    assert store.get("a-1").state == state
    with pytest.raises(SessionLockedError):
        store.claim("a-1")
    lock.release()
    found = store.get("a-1")
    assert (found.state, found.error) == ("killed", "its process ended")


def test_task_waiting_for_permission_stays_until_killed(tmp_path):
    store = TaskStore(tmp_path)
    store.save(TaskRecord("a-1", "a", "x", state="waiting_permission"))
    assert store.get("a-1").state == "waiting_permission"
    assert store.kill("a-1").state == "killed"
    assert store.get("a-1").state == "killed"


def test_one_at_work_is_asked_to_stop(tmp_path):
    store = TaskStore(tmp_path)
    lock = store.claim("a-1")
    store.save(TaskRecord("a-1", "a", "x", state="running"))
    assert store.kill("a-1", patience=0).state == "running"
    assert store.is_to_be_killed("a-1")
    lock.release()
    store.claim("a-1").release()  # whoever takes it up again has not been asked
    assert not store.is_to_be_killed("a-1")


def test_a_killed_record_is_not_changed_by_another_kill(tmp_path):
    store = TaskStore(tmp_path)
    store.save(TaskRecord("a-1", "a", "x", state="completed", ended=1.0))
    assert store.kill("a-1").state == "completed"
