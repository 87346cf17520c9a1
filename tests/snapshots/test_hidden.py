"""What rules hide or show while a step changes it, and files with several names."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess

import pytest
from tests.snapshots.conftest import posix_only, tree


def kinds(changes):
    return {change.path: change.kind for change in changes.changes}


def git(folder, *words):
    settings = ["-c", "user.name=n", "-c", "user.email=e@localhost", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, check=True)


def hidden(lab):
    lab.write(".gitignore", "data/\n*.log\n")
    lab.write("data/table.csv", "precious\n")
    lab.write("data/deep/more.csv", "precious\n")
    lab.write("notes.log", "mine\n")
    lab.write("a.txt", "one\n")
    return tree(lab.root)


class TestShownByTheStep:
    @pytest.mark.parametrize("rules", [None, "", "!data/\n!*.log\n", "data\n!data/\n"])
    def test_hidden_files_are_not_changes_of_the_step(self, lab, rules):
        there = hidden(lab)
        path = lab.root / ".gitignore"
        act = path.unlink if rules is None else lambda: path.write_text(rules)
        found = lab.step(1, act)
        assert list(kinds(found)) == [".gitignore"]
        assert "precious" not in repr(found)
        assert asyncio.run(lab.fresh().steps("s"))[0].files == 1
        report = lab.undo()
        assert report.conflicts == ()
        assert tree(lab.root) == there
        assert lab.redo().conflicts == ()
        assert (lab.root / "data/table.csv").read_text() == "precious\n"

    def test_nested_rules_that_hide_themselves(self, lab):
        lab.write("private/.gitignore", "*\n")
        lab.write("private/key.txt", "precious\n")
        there = tree(lab.root)
        found = lab.step(1, (lab.root / "private/.gitignore").unlink)
        assert kinds(found) == {"private/.gitignore": "deleted"}
        lab.undo()
        assert tree(lab.root) == there

    def test_a_branch_without_the_rules(self, lab):
        lab.write("a.txt", "one\n")
        git(lab.root, "init", "-q")
        git(lab.root, "add", ".")
        git(lab.root, "commit", "-qm", "bare")
        git(lab.root, "checkout", "-qb", "rules")
        lab.write(".gitignore", "data/\n")
        git(lab.root, "add", ".")
        git(lab.root, "commit", "-qm", "rules")
        lab.write("data/table.csv", "precious\n")
        found = lab.step(1, lambda: git(lab.root, "checkout", "-q", "main"))
        assert kinds(found) == {".gitignore": "deleted"}
        lab.undo()
        assert lab.read("data/table.csv") == "precious\n"

    def test_rules_of_the_repository_alone_hide_nothing(self, lab):
        git(lab.root, "init", "-q")
        (lab.root / ".git/info/exclude").write_text("kept.txt\n")
        lab.write("kept.txt", "one\n")

        def act():
            lab.write("kept.txt", "two\n")
            (lab.root / ".git/info/exclude").unlink()

        assert kinds(lab.step(1, act)) == {"kept.txt": "modified"}
        lab.undo()
        assert lab.read("kept.txt") == "one\n"

    def test_interrupted_step_uses_the_rules_of_its_start(self, lab):
        there = hidden(lab)
        asyncio.run(lab.shots.before("s", 1))
        (lab.root / ".gitignore").unlink()
        lab.write("a.txt", "two\n")
        lab.shots = lab.fresh()
        report = lab.undo()
        assert (report.restored, report.removed, report.conflicts) == ((".gitignore", "a.txt"), (), ())
        assert tree(lab.root) == there

    @pytest.mark.parametrize("options", [{"exclude": ["a.txt"]}, {"max_file_bytes": 3}, {"max_files": 4}])
    def test_options_that_are_others_after_a_restart(self, lab, options):
        there = hidden(lab)
        asyncio.run(lab.shots.before("s", 1))
        lab.write("a.txt", "two\n")
        lab.write("b.txt", "new\n")
        lab.shots = lab.fresh(**options)
        report = lab.undo()
        assert (report.restored, report.removed, report.conflicts) == (("a.txt",), ("b.txt",), ())
        assert tree(lab.root) == there


class TestHiddenByTheStep:
    def test_changed_created_and_deleted_files_are_restored(self, lab):
        there = hidden(lab)

        def act():
            lab.write("a.txt", "two\n")
            lab.write("new/b.txt", "new\n")
            lab.write(".gitignore", "*\n")

        found = lab.step(1, act)
        assert kinds(found) == {".gitignore": "modified", "a.txt": "modified", "new/b.txt": "created"}
        lab.shots = lab.fresh()
        report = lab.undo()
        assert (report.restored, report.removed) == ((".gitignore", "a.txt"), ("new/b.txt",))
        assert tree(lab.root) == there
        assert lab.redo().conflicts == ()
        assert (lab.read("a.txt"), lab.read("new/b.txt")) == ("two\n", "new\n")

    def test_a_folder_becomes_hidden_with_a_changed_file_in_it(self, lab):
        lab.write("src/x.txt", "one\n")
        lab.step(1, lambda: (lab.write("src/x.txt", "two\n"), lab.write("src/.gitignore", "*\n")))
        lab.undo()
        assert {name: row[-1] for name, row in tree(lab.root).items()} == {
            "src": "folder",
            "src/x.txt": b"one\n",
        }

    def test_rules_that_the_user_writes_after_the_step(self, lab):
        lab.write("a.txt", "one\n")
        lab.step(1, lambda: (lab.write("a.txt", "two\n"), lab.write("b.txt", "new\n")))
        lab.write(".gitignore", "a.txt\nb.txt\n")
        report = lab.undo()
        assert (report.restored, report.removed, report.conflicts) == (("a.txt",), ("b.txt",), ())
        assert lab.read("a.txt") == "one\n"

    def test_hidden_file_changed_by_the_user_is_left(self, lab):
        lab.write("a.txt", "one\n")
        lab.step(1, lambda: (lab.write("a.txt", "two\n"), lab.write(".gitignore", "a.txt\n")))
        lab.write("a.txt", "mine\n")
        assert [conflict.path for conflict in lab.undo().conflicts] == ["a.txt"]
        assert lab.read("a.txt") == "mine\n"


def test_two_steps_with_different_rules(lab):
    there = hidden(lab)
    lab.step(1, lambda: lab.write(".gitignore", "a.txt\n"))  # shows data, hides a.txt
    middle = tree(lab.root)
    found = lab.step(
        2, lambda: (lab.write("data/table.csv", "changed\n"), lab.write(".gitignore", "data/\n*.log\n"))
    )
    assert kinds(found) == {".gitignore": "modified", "data/table.csv": "modified"}
    lab.undo()
    assert tree(lab.root) == middle
    lab.redo()
    assert lab.undo(to_step=1).conflicts == ()
    assert tree(lab.root) == there


class TestMovedAcrossTheBorder:
    @pytest.mark.parametrize("force", [False, True])
    def test_a_hidden_folder_under_a_name_that_is_not_hidden(self, lab, force):
        hidden(lab)
        found = lab.step(1, lambda: ((lab.root / "data").rename(lab.root / "shown"), lab.write("b.txt", "x")))
        assert "precious" not in repr(found)
        assert "undo leaves it: shown/deep/more.csv, shown/table.csv." in found.notice
        report = lab.undo(force=force)
        assert report.removed == ("b.txt",)
        assert {conflict.path for conflict in report.conflicts} == {"shown/deep/more.csv", "shown/table.csv"}
        assert lab.read("shown/table.csv") == "precious\n"

    def test_a_hidden_file_over_one_that_is_not(self, lab):
        hidden(lab)
        (lab.root / "data/table.csv").rename(lab.root / "data/x")
        lab.step(1, lambda: (lab.root / "data/x").replace(lab.root / "a.txt"))
        assert [conflict.path for conflict in lab.undo(force=True).conflicts] == ["a.txt"]
        assert lab.read("a.txt") == "precious\n"

    def test_a_file_under_a_hidden_name(self, lab):
        hidden(lab)
        lab.step(1, lambda: (lab.root / "a.txt").rename(lab.root / "data/a.txt"))
        assert lab.undo().restored == ("a.txt",)
        assert (lab.read("a.txt"), lab.read("data/table.csv")) == ("one\n", "precious\n")

    def test_other_names_are_taken_back(self, lab):
        lab.write("old/a.txt", "one\n")
        lab.write("b.txt", "two\n")
        os.utime(lab.root / "b.txt", (1, 1))
        there = tree(lab.root)

        def act():
            (lab.root / "old").rename(lab.root / "new")
            shutil.copy2(lab.root / "b.txt", lab.root / "copy.txt")
            (lab.root / "b.txt").rename(lab.root / "c.txt")
            with (lab.root / "c.txt").open("a") as file:
                file.write("more\n")

        lab.step(1, act)
        assert lab.undo().conflicts == ()
        assert tree(lab.root) == there


def test_too_many_new_files_leave_the_rest_of_the_step(lab):
    lab.shots = lab.fresh(max_files=3)
    lab.write("a.txt", "one\n")
    lab.write("b.txt", "one\n")

    def act():
        lab.write("a.txt", "two\n")
        (lab.root / "b.txt").unlink()
        for number in range(5):
            lab.write(f"many/{number}")

    found = lab.step(1, act)
    assert kinds(found) == {"a.txt": "modified", "b.txt": "deleted"}
    assert "Too many new files" in found.notice
    report = lab.undo()
    assert (report.restored, report.removed, report.conflicts) == (("a.txt", "b.txt"), (), ())
    assert (lab.root / "many/0").exists()


@posix_only
class TestSeveralNames:
    def names(self, lab, *more):
        lab.write("a", "one\n")
        for name in more:
            (lab.root / name).parent.mkdir(exist_ok=True)
            os.link(lab.root / "a", lab.root / name)

    def inode(self, lab, name):
        return (lab.root / name).stat().st_ino

    @pytest.mark.parametrize("mode", [0o644, 0o444])
    def test_all_names_are_restored_and_stay_one_file(self, lab, tmp_path, mode):
        lab.write(".gitignore", "data/\n")
        self.names(lab, "b", "sub/c", "data/hidden", "../outside")
        (lab.root / "a").chmod(mode)

        def act():
            (lab.root / "a").chmod(0o600)
            (lab.root / "a").write_text("two\n")

        assert set(kinds(lab.step(1, act))) == {"a", "b", "sub/c"}
        lab.shots = lab.fresh()
        assert lab.undo().conflicts == ()
        for name in ("a", "b", "sub/c", "data/hidden", "../outside"):
            assert lab.read(name) == "one\n"
            assert self.inode(lab, name) == self.inode(lab, "a")
            assert (lab.root / name).stat().st_mode & 0o777 == mode
        assert lab.redo().conflicts == ()
        assert lab.read("sub/c") == lab.read("data/hidden") == "two\n"

    def test_a_name_that_was_replaced_or_deleted_is_linked_again(self, lab):
        self.names(lab, "b", "c")

        def act():
            (lab.root / "b").unlink()
            lab.write("new", "two\n").replace(lab.root / "a")

        lab.step(1, act)
        assert lab.undo().conflicts == ()
        assert lab.read("a") == "one\n"
        assert self.inode(lab, "a") == self.inode(lab, "b") == self.inode(lab, "c")

    def test_all_names_are_gone(self, lab):
        self.names(lab, "b")
        lab.step(1, lambda: ((lab.root / "a").unlink(), (lab.root / "b").unlink()))
        assert lab.undo().conflicts == ()
        assert lab.read("b") == "one\n"
        assert self.inode(lab, "a") == self.inode(lab, "b")

    def test_names_that_the_step_made_are_taken_away(self, lab):
        def act():
            lab.write("a", "one\n")
            os.link(lab.root / "a", lab.root / "b")

        lab.step(1, act)
        report = lab.undo()
        assert (report.removed, report.conflicts) == (("b", "a"), ())

    def test_a_file_elsewhere_that_was_linked_in_is_not_written(self, lab, tmp_path):
        lab.write("a", "one\n")
        (tmp_path / "theirs").write_text("theirs\n")

        def act():
            (lab.root / "a").unlink()
            os.link(tmp_path / "theirs", lab.root / "a")

        lab.step(1, act)
        assert lab.undo().conflicts == ()
        assert lab.read("a") == "one\n"
        assert (tmp_path / "theirs").read_text() == "theirs\n"

    def test_a_name_that_the_user_gave_another_content_is_left(self, lab):
        self.names(lab, "b")
        lab.step(1, lambda: lab.write("a", "two\n"))
        (lab.root / "b").unlink()
        lab.write("b", "mine\n")
        report = lab.undo()
        assert [conflict.path for conflict in report.conflicts] == ["b"]
        assert (lab.read("a"), lab.read("b")) == ("one\n", "mine\n")
