"""Snapshots in a run, in what people see, and on the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tests.helpers import E, check_events, of_type

from pure_agent_loop import Agent, Event, Renderer, RichRenderer, tool
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.view import ProgressPrinter
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.testing import ScriptedLLM, assert_replays, call

CHANGE = Event.file_change(
    1,
    {
        "path": "notes\x1b[2J.txt",
        "kind": "modified",
        "diff": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-old\n+new\x1b[31m\x07\n",
        "added": 1,
        "removed": 1,
        "is_binary": False,
    },
)


def agent_for(lab, script, **options):
    @tool
    def write(name: str, text: str) -> str:
        """Write."""
        lab.write(name, text)
        return "ok"

    return Agent(llm=ScriptedLLM(script), tools=[write], snapshots=lab.shots, **options)


def test_run_reports_changes_and_undo_reverts_them(lab, tmp_path):
    lab.write("a.txt", "one\n")
    sessions = JsonlStore(tmp_path / "sessions")
    script = [
        [call("write", name="a.txt", text="two\n"), call("write", name="b.txt", text="b\n")],
        call("write", name="a.txt", text="three\n"),
        "done",
    ]
    result = agent_for(lab, script, sessions=sessions).run("go", session_id="trip")
    check_events(result.events)
    changes = of_type(result.events, E.FILE_CHANGE)
    assert [(each.step, each.data["path"], each.data["kind"]) for each in changes] == [
        (1, "a.txt", "modified"),
        (1, "b.txt", "created"),
        (2, "a.txt", "modified"),
    ]
    assert "-one\n+two\n" in changes[0].data["diff"]
    assert lab.undo("trip").steps == (2,)
    assert lab.read("a.txt") == "two\n"
    assert lab.undo("trip").steps == (1,)
    assert sorted(path.name for path in lab.root.iterdir()) == ["a.txt"]
    assert lab.read("a.txt") == "one\n"
    assert_replays(sessions.read("trip").records)


def test_run_without_snapshots_continues_with_a_notice(lab):
    lab.write("a.txt")
    lab.write("b.txt")
    lab.shots = lab.fresh(max_files=1)
    result = agent_for(lab, [call("write", name="a.txt", text="x"), "done"]).run("go")
    assert result.content == "done"
    notices = [event.content for event in of_type(result.events, E.NOTICE)]
    assert len(notices) == 1
    assert "cannot be undone" in notices[0]
    assert "more than 1 files" in notices[0]


def test_a_change_is_shown_as_a_diff():
    text = Renderer().render(CHANGE)
    assert text == "~ notes\\x1b[2J.txt +1 -1\n   @@ -1 +1 @@\n   -old\n   +new\\x07"
    coloured = RichRenderer().render(CHANGE)
    assert "\x1b[32m" in coloured
    assert "\x1b[31m" in coloured
    assert "\x07" not in coloured


def test_a_long_diff_is_shown_in_part():
    diff = "".join(f"+{n}\n" for n in range(1_000))
    event = Event.file_change(1, {"path": "a", "kind": "created", "diff": diff, "added": 1_000, "removed": 0})
    text = Renderer().render(event)
    assert text.startswith("+ a +1000 -0\n")
    assert len(text.split("\n")) < 20
    assert "left out" in text
    binary = Event.file_change(1, {"path": "b", "kind": "deleted", "is_binary": True})
    assert Renderer().render(binary) == "- b (not text)"


def test_the_command_line_shows_changes_on_standard_error(tmp_path):
    with (tmp_path / "err").open("w+") as err, (tmp_path / "out").open("w+") as out:
        ProgressPrinter(CommandOutput(out, err)).show(CHANGE)
        err.seek(0)
        assert "~ notes\\x1b[2J.txt +1 -1\n   @@ -1 +1 @@\n   -old\n" in err.read()
        assert out.tell() == 0


class TestCommand:
    @pytest.fixture
    def pal(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
        folder = tmp_path / "work"
        folder.mkdir()
        (folder / "a.txt").write_text("one\n")
        shots = WorkspaceSnapshots(folder)

        async def steps():
            for number, text in enumerate(["two\n", "three\n"], 1):
                await shots.before("trip", number)
                (folder / "a.txt").write_text(text)
                await shots.after("trip", number)

        asyncio.run(steps())

        def run(*words: str):
            command = [sys.executable, "-m", "pure_agent_loop", "undo", *words]
            done = subprocess.run(
                command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False
            )
            assert "Traceback" not in done.stderr, done.stderr
            return done

        run.folder = folder
        return run

    def test_list_undo_and_redo(self, pal):
        listed = pal("--list").stdout.splitlines()
        assert ["1 file +1 -1" in line and "trip" in line for line in listed] == [True, True]
        done = pal("--to", "1", "--dry-run")
        assert (done.returncode, done.stdout) == (0, "restored a.txt\n")
        assert (pal.folder / "a.txt").read_text() == "three\n"
        done = pal("--json")
        assert json.loads(done.stdout)["steps"] == [2]
        assert (pal.folder / "a.txt").read_text() == "two\n"
        assert pal("--redo").returncode == 0
        assert (pal.folder / "a.txt").read_text() == "three\n"

    def test_conflicts_and_mistakes(self, pal):
        (pal.folder / "a.txt").write_text("mine\n")
        done = pal("--session", "trip")
        assert done.returncode == 1
        assert "skipped a.txt: changed since" in done.stderr
        assert pal("--force").returncode == 0
        assert (pal.folder / "a.txt").read_text() == "two\n"
        done = pal("--session", "other")
        assert done.returncode == 2
        assert "trip" in done.stderr
        done = pal("--workspace", str(pal.folder.parent))
        assert (done.returncode, done.stdout) == (0, "")
        assert "nothing to undo in" in done.stderr
