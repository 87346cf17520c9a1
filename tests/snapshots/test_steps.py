"""Steps, what they changed, and taking them back, in both stores."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.snapshots.conftest import digest, tree

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.snapshots import SnapshotError, WorkspaceSnapshots


def kinds(found):
    return {change.path: change.kind for change in found.changes}


def test_step_reports_its_changes(lab):
    lab.write("a.txt", "one\ntwo\nthree\n")
    lab.write("gone.txt")

    def act():
        lab.write("a.txt", "one\n2\nthree\n")
        lab.write("sub/new.txt", "new\n")
        (lab.root / "gone.txt").unlink()

    found = lab.step(1, act)
    assert kinds(found) == {"a.txt": "modified", "gone.txt": "deleted", "sub/new.txt": "created"}
    change = found.changes[0]
    assert change.diff == "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert (change.added, change.removed, change.is_binary) == (1, 1, False)
    assert found.notice == ""
    steps = asyncio.run(lab.fresh().steps("s"))
    assert [(s.step, s.run, s.files, s.added, s.removed, s.is_undone) for s in steps] == [
        (1, 1, 3, 2, 2, False)
    ]
    assert asyncio.run(lab.fresh().diff("s", 1)) == list(found.changes)


def test_undo_and_redo(lab):
    lab.write("a.txt", "1")
    lab.write("run.sh", "#!").chmod(0o755)
    first = digest(lab.root)
    lab.step(1, lambda: lab.write("a.txt", "2"))
    second = digest(lab.root)

    def act():
        lab.write("deep/er/b.txt", "b")
        (lab.root / "a.txt").unlink()
        (lab.root / "run.sh").chmod(0o600)

    lab.step(2, act)
    third = digest(lab.root)
    report = lab.undo()
    assert (report.steps, report.restored, report.removed) == ((2,), ("a.txt", "run.sh"), ("deep/er/b.txt",))
    assert digest(lab.root) == second
    assert lab.undo().steps == (1,)
    assert digest(lab.root) == first
    assert lab.undo().steps == ()
    lab.shots = lab.fresh()
    assert lab.redo().steps == (1,)
    assert digest(lab.root) == second
    assert lab.redo().steps == (2,)
    assert digest(lab.root) == third
    assert lab.redo().steps == ()
    assert lab.undo(to_step=1).steps == (2, 1)
    assert digest(lab.root) == first


def test_no_redo_after_another_step(lab):
    lab.step(1, lambda: lab.write("a"))
    lab.undo()
    lab.step(2, lambda: lab.write("b"))
    assert lab.redo().steps == ()
    assert lab.undo().steps == (2,)
    assert lab.undo().steps == ()


def test_a_dry_run_changes_nothing(lab):
    lab.step(1, lambda: lab.write("a"))
    there = digest(lab.root)
    report = lab.undo(dry_run=True)
    assert (report.removed, report.is_dry) == (("a",), True)
    assert digest(lab.root) == there
    assert lab.undo().removed == ("a",)


def test_steps_of_several_runs_do_not_collide(lab):
    lab.step(1, lambda: lab.write("a", "1"))
    lab.step(3, lambda: lab.write("a", "2"))
    lab.shots = lab.fresh()
    lab.step(1, lambda: lab.write("a", "3"))
    lab.step(1, lambda: lab.write("other", "x"), session="t")
    assert [(s.run, s.step) for s in asyncio.run(lab.shots.steps("s"))] == [(1, 1), (1, 3), (2, 1)]
    assert asyncio.run(lab.shots.sessions()) == ["s", "t"]
    assert "-2\n" in asyncio.run(lab.shots.diff("s", 1))[0].diff
    assert "+1\n" in asyncio.run(lab.shots.diff("s", 1, run=1))[0].diff
    assert lab.undo(to_step=1).steps == (1,)
    assert lab.read("a") == "2"
    assert lab.undo(to_step=3, run=1).steps == (3,)
    assert lab.read("a") == "1"
    assert (lab.root / "other").exists()


def test_a_step_that_was_cut_off_keeps_its_first_beginning(lab):
    lab.write("a", "old")
    asyncio.run(lab.shots.before("s", 2))
    lab.write("a", "half")
    lab.shots = lab.fresh()
    found = lab.step(2, lambda: lab.write("a", "whole"))
    assert "-old\n" in found.changes[0].diff
    assert lab.undo().steps == (2,)
    assert lab.read("a") == "old"


def test_a_step_that_was_cut_off_can_be_undone(lab):
    lab.write("a", "old")
    asyncio.run(lab.shots.before("s", 2))
    lab.write("a", "half")
    lab.shots = lab.fresh()
    assert lab.undo().steps == (2,)
    assert lab.read("a") == "old"
    assert not asyncio.run(lab.shots.steps("s"))[0].is_whole


def test_runs_without_a_session_are_those_of_the_object(lab):
    lab.step(1, lambda: lab.write("a"), session="")
    assert asyncio.run(lab.fresh().undo()).steps == ()
    session = asyncio.run(lab.fresh().sessions())[0]
    assert session.startswith("run-")
    assert lab.undo("").removed == ("a",)


class TestConflicts:
    def test_file_changed_by_hand_is_left(self, lab):
        lab.write("a", "1")
        lab.write("b", "1")
        lab.step(1, lambda: (lab.write("a", "2"), lab.write("b", "2"), lab.write("c", "2")))
        lab.write("a", "mine")
        lab.write("c", "mine")
        report = lab.undo()
        assert [c.path for c in report.conflicts] == ["a", "c"]
        assert report.restored == ("b",)
        assert (lab.read("a"), lab.read("b"), lab.read("c")) == ("mine", "1", "mine")
        report = lab.undo(force=True)
        assert (report.restored, report.removed, report.conflicts) == (("a",), ("c",), ())
        assert lab.read("a") == "1"
        assert lab.redo().conflicts == ()
        assert lab.read("a") == "mine"

    def test_file_changed_between_steps_is_left(self, lab):
        lab.write("a", "1")
        lab.step(1, lambda: lab.write("a", "2"))
        lab.write("a", "mine")
        lab.step(2, lambda: lab.write("a", "3"))
        report = lab.undo(to_step=1)
        assert "between" in report.conflicts[0].reason
        assert lab.read("a") == "3"
        assert lab.undo().conflicts == ()
        assert lab.read("a") == "mine"

    def test_file_changed_by_another_session_is_left(self, lab):
        lab.step(1, lambda: lab.write("a", "1"))
        lab.step(1, lambda: lab.write("a", "2"), session="t")
        assert lab.undo().conflicts[0].path == "a"
        assert lab.undo("t").conflicts == ()
        assert lab.undo("s").removed == ("a",)

    def test_a_link_in_the_way_is_not_followed(self, lab, tmp_path):
        lab.write("d/a", "1")
        lab.step(1, lambda: lab.write("d/a", "2"))
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "a").write_text("2")
        (lab.root / "d").rename(lab.root / "e")
        (lab.root / "d").symlink_to(outside)
        for force in (False, True):
            report = lab.undo(force=force)
            assert [c.path for c in report.conflicts] == ["d/a"]
            assert (outside / "a").read_text() == "2"


class TestContents:
    def test_large_files_are_watched_but_not_kept(self, lab):
        lab.shots = lab.fresh(max_file_bytes=100)
        lab.write("big", "x" * 200)
        found = lab.step(1, lambda: (lab.write("big", "y" * 300), lab.write("small", "1")))
        assert kinds(found) == {"big": "modified", "small": "created"}
        assert found.changes[0].is_binary
        assert "cannot be undone: big." in found.notice
        report = lab.undo()
        assert [c.path for c in report.conflicts] == ["big"]
        assert report.removed == ("small",)
        assert lab.read("big")[0] == "y"

    def test_a_large_new_file_is_not_taken_away_unasked(self, lab):
        lab.shots = lab.fresh(max_file_bytes=100)
        lab.step(1, lambda: lab.write("big", "y" * 300))
        assert lab.undo().conflicts[0].path == "big"
        assert lab.undo(force=True).removed == ("big",)

    def test_binary_files_and_long_files(self, lab):
        lab.write("long", "".join(f"{n}\n" for n in range(50_000)))
        found = lab.step(
            1,
            lambda: (
                lab.write("bin", b"\0\1\2"),
                lab.write("long", "".join(f"{n + (n == 777) * 90_000}\n" for n in range(50_000))),
                lab.write("other", "x\n" * 40_000),
            ),
        )
        binary, long, other = found.changes
        assert (binary.is_binary, binary.diff) == (True, "")
        assert (long.added, long.removed) == (1, 1)
        assert "@@ -775,7 +775,7 @@" in long.diff
        assert other.added == 40_000
        assert len(other.diff) < 21_000
        assert "left out" in other.diff

    def test_secrets_are_kept_but_not_shown_even_when_ignored(self, lab):
        lab.write(".gitignore", ".env\nbuild/\n*.log\n")
        lab.write(".env", "KEY=old-secret\n")
        lab.write("build/x", "1")
        found = lab.step(
            1, lambda: (lab.write(".env", "KEY=new-secret\n"), lab.write("build/x", "2"), lab.write("a.log"))
        )
        assert kinds(found) == {".env": "modified"}
        assert "secret" not in repr(found)
        assert lab.undo().restored == (".env",)
        assert lab.read(".env") == "KEY=old-secret\n"
        assert lab.read("build/x") == "2"

    def test_names_of_all_kinds(self, lab):
        names = [
            b"new\nline",
            b"\xff\xfe",
            "ünï中".encode(),
            b'"quoted"',
            b"back\\slash",
            b" space ",
            b"git~1",
            b"-rf",
        ]
        paths = [lab.root / os.fsdecode(name) for name in names]
        for path in paths:
            path.write_bytes(bytes(path))
        there = tree(lab.root)

        def act():
            for path in paths:
                path.unlink()

        found = lab.step(1, act)
        assert len(found.changes) == len(names)
        for change in found.changes:
            change.path.encode()
        lab.shots = lab.fresh()
        assert lab.undo().conflicts == ()
        assert tree(lab.root) == there

    def test_links_kinds_and_folders(self, lab):
        lab.write("was-file", "1")
        lab.write("was-folder/a", "1")
        (lab.root / "empty").mkdir()
        (lab.root / "link").symlink_to("was-file")
        (lab.root / "broken").symlink_to("/nowhere/at/all")
        there = tree(lab.root)

        def act():
            (lab.root / "was-file").unlink()
            lab.write("was-file/inner/b", "2")
            (lab.root / "was-folder/a").unlink()
            (lab.root / "was-folder").rmdir()
            lab.write("was-folder", "2")
            (lab.root / "empty").rmdir()
            (lab.root / "link").unlink()
            lab.write("link", "now a file")
            (lab.root / "broken").unlink()
            (lab.root / "made").mkdir()

        found = lab.step(1, act)
        assert {change.path for change in found.changes} == {
            *("broken", "link", "was-file", "was-file/inner/b", "was-folder", "was-folder/a")
        }
        after = tree(lab.root)
        assert lab.undo().conflicts == ()
        assert tree(lab.root) == there
        assert lab.redo().conflicts == ()
        assert tree(lab.root) == after

    def test_a_pipe_is_left_alone(self, lab):
        os.mkfifo(lab.root / "pipe")
        assert lab.step(1, lambda: lab.write("a")).changes[0].path == "a"

    def test_the_data_folder_inside_the_workspace_is_left_out(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
        shots = WorkspaceSnapshots(tmp_path)

        async def run():
            await shots.before("s", 1)
            (tmp_path / "a").touch()
            return await shots.after("s", 1)

        assert kinds(asyncio.run(run())) == {"a": "created"}
        assert (tmp_path / "home" / "snapshots").stat().st_mode & 0o777 == 0o700


def test_too_many_files_are_reported(lab):
    lab.shots = lab.fresh(max_files=3)
    for number in range(4):
        lab.write(str(number))
    with pytest.raises(SnapshotError, match="more than 3 files"):
        asyncio.run(lab.shots.before("s", 1))
    assert asyncio.run(lab.shots.after("s", 1)).changes == ()


def test_invalid_argument_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match="root="):
        WorkspaceSnapshots(tmp_path / "missing")
    with pytest.raises(ConfigError, match="max_files"):
        WorkspaceSnapshots(tmp_path, store=tmp_path, max_files=0)
    with pytest.raises(SnapshotError, match="Step 7"):
        asyncio.run(WorkspaceSnapshots(tmp_path, store=tmp_path / "s").diff("s", 7))


def test_without_git_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="Snapshots need git"):
        WorkspaceSnapshots(tmp_path, store=tmp_path / "s")


def test_files_of_a_moment_are_compared_with_now_and_restored(lab):
    lab.write("a.txt", "1\n")
    lab.step(1, lambda: lab.write("a.txt", "2\n"))
    lab.step(2, lambda: lab.write("b.txt", "b\n"))
    first, second = (step.time for step in asyncio.run(lab.shots.steps("s")))
    between = (first + second) / 2

    def now(moment):
        return {
            change.path: (change.kind, change.added, change.removed)
            for change in asyncio.run(lab.shots.changes_since("s", moment=moment))
        }

    assert now(second) == {}
    assert now(between) == {"b.txt": ("created", 1, 0)}
    assert now(first - 1) == {"a.txt": ("modified", 1, 1), "b.txt": ("created", 1, 0)}
    assert lab.undo().steps == (2,)  # a later undo is part of the way back
    assert now(between) == {}
    lab.undo()
    assert now(between) == {"a.txt": ("modified", 1, 1)}
    assert lab.undo(since=between).restored == ("a.txt",)
    assert lab.read("a.txt") == "2\n"
    lab.write("a.txt", "a person\n")
    assert lab.undo(since=first - 1).conflicts[0].path == "a.txt"
    assert lab.read("a.txt") == "a person\n"
