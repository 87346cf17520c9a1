"""``pal agents``: what was given to subagents, seen and stopped from another process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.subagents.family import family, parent

from pure_agent_loop.subagents import TaskRecord, TaskStore
from pure_agent_loop.testing import ScriptedServer, call


@pytest.fixture
def given(pal, monkeypatch):
    """A session with one task that is done."""
    monkeypatch.setenv("PAL_HOME", pal.env["PAL_HOME"])
    script = [call("task", agent="helper", prompt="count the files"), "done"]
    parent(family(parent=script, helper=["there are 7"])).run("go", session_id="trip")
    (record,) = TaskStore().list()
    return record


def test_tasks_are_listed_and_shown(pal, given):
    listed = pal("agents", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert given.id in listed.stdout
    assert "completed" in listed.stdout
    shown = pal("agents", "show", given.id)
    assert "count the files" in shown.stdout
    assert "there are 7" in shown.stdout
    assert json.loads(pal("agents", "list", "--json").stdout)["tasks"] == [given.to_dict()]


def test_sessions_of_subagents_are_listed_only_when_asked_for(pal, given):
    listed = pal("sessions", "list")
    assert given.session_id not in listed.stdout
    assert "1 more from subagents" in listed.stderr
    assert given.session_id in pal("sessions", "list", "--all").stdout


def test_killing(pal, given):
    store = TaskStore(Path(pal.env["PAL_HOME"]) / "sessions" / "agents")
    over = pal("agents", "kill", given.id)
    assert (over.returncode, over.stderr.strip()) == (0, f"pal: {given.id} had already ended: completed")
    store.save(TaskRecord("helper-1", "helper", "x", state="waiting_permission"))
    assert "ended: killed" in pal("agents", "kill", "helper-1").stderr


def test_missing_agent_is_reported(pal):
    assert "no subagent tasks" in pal("agents", "list").stderr
    missing = pal("agents", "show", "helper-1")
    assert missing.returncode == 2
    assert "pal agents list" in missing.stderr


def test_the_model_gives_tasks_to_others_where_the_user_said_so(pal):
    folder = pal.workspace / "mine"
    folder.mkdir()
    (folder / "reviewer.md").write_text(
        "---\nname: reviewer\ndescription: Reads.\ntools: [read_file]\nworkspace: read-only\n---\nRead."
    )
    (pal.workspace / "a.txt").write_text("text of a")
    script = [
        call("task", agent="reviewer", prompt="Check a.txt"),
        call("read_file", path="a.txt"),
        "It is fine.",
        "All is well.",
    ]
    with ScriptedServer(script) as server:
        pal.use(server)
        done = pal("run", "--subagents-from", str(folder), "--session", "trip", "go")
    assert (done.returncode, done.stdout) == (0, "All is well.\n")
    offered = {each["function"]["name"]: str(each) for each in server.requests[0].tools}
    assert all(name in offered["task"] for name in ("explore", "verify", "reviewer"))
    assert [each["function"]["name"] for each in server.requests[1].tools] == ["read_file"]
    assert "It is fine." in server.requests[-1].messages[-1]["content"]
    shown = [line for line in done.stderr.splitlines() if line.startswith(">> reviewer-")]
    assert [line.split(maxsplit=2)[2].partition(",")[0] for line in shown] == [
        "running",
        "read_file (1 call",
        "completed (1 call",
    ]
    assert "completed" in pal("agents", "list").stdout
    with ScriptedServer(["Yes."]) as server:
        pal.use(server)
        assert pal("run", "hi").returncode == 0
    assert "task" not in [each["function"]["name"] for each in server.requests[0].tools]


def test_a_folder_of_subagents_that_is_not_there_is_said_before_a_model_starts(pal):
    done = pal("run", "--subagents-from", "nowhere", "hi")
    assert (done.returncode, done.stderr) == (2, "pal: error: --subagents-from=nowhere is not a folder.\n")
    toolless = pal("run", "--subagents", "--no-tools", "hi")
    assert (toolless.returncode, "cannot be combined with --no-tools or --tools none" in toolless.stderr) == (
        2,
        True,
    )
