"""Clones and hidden names in folders below the top of a workspace, and what a killed process left."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.processes import running
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop.toolbox import Shell
from pure_agent_loop.toolbox.sandbox.launch import Start
from pure_agent_loop.toolbox.sandbox.places import Places

ASIDE = ".changed-during-a-command"


@pytest.fixture(params=["bubblewrap", "landlock"])
def work(request, tmp_path, monkeypatch):
    require_tools()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    clone = tmp_path / "work" / "a" / "clone"
    subprocess.run(["git", "init", "-q", "-b", "main", str(clone)], check=True)
    hook = clone / ".git" / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (clone / ".vscode").mkdir()
    (clone / ".vscode" / "tasks.json").write_text("mine")
    return clone, lambda: Shell(tmp_path / "work", sandbox=request.param)


def run(shell, command):
    return asyncio.run(shell.shell(command))


WHO = "git -c user.name=n -c user.email=e"
CHANGED = [".git/hooks/post-commit", ".git/config", ".vscode/tasks.json"]
NEW = [".git/hooks/pre-commit", ".git/config.worktree", "b/.vscode/tasks.json", "b/.envrc", ".vscode/x.json"]


@pytest.mark.parametrize("name", CHANGED)
def test_changed_name_below_the_top_is_restored_and_named(work, name):
    clone, shell = work
    before, mode = (clone / name).read_text(), (clone / name).stat().st_mode
    said = run(shell(), f"echo evil > a/clone/{name}")
    assert ((clone / name).read_text(), (clone / name).stat().st_mode) == (before, mode)
    assert (clone / (name + ASIDE)).read_text() == "evil\n"
    assert f"were restored: a/clone/{name}]" in said


@pytest.mark.parametrize("name", NEW)
def test_new_name_below_the_top_is_moved_aside_for_good(work, name):
    clone, shell = work
    for said in (run(shell(), f"cd a/clone; mkdir -p b/.vscode; echo evil > {name}"), ""):
        assert not (clone / name).exists()
        assert "a/clone/" in said or not said
        assert run(shell(), f"cat a/clone/{name}").endswith("[exit code 1]")


def test_git_folder_that_a_command_makes_comes_back_for_commands_only(work):
    clone, shell = work
    own = shell()
    assert "a/new/.git.of-a-command" in run(own, "git init -q -b main a/new")
    new = clone.with_name("new")
    assert not (new / ".git").exists()
    said = run(own, f"cd a/new && touch x && git add x && {WHO} commit -qm 1 && git log --format=%s")
    assert said.startswith("1\n[exit code 0]")
    assert not (new / ".git").exists()


def test_commit_in_a_clone_leaves_nothing_aside(work):
    clone, shell = work
    said = run(shell(), f"cd a/clone && git add -A && {WHO} commit -qm 1 && git log --format=%s")
    assert said == "1\n[exit code 0]"
    assert [*clone.glob(".git/*.of-a-command"), *clone.glob(".git/*.changed*")] == []


def test_state_of_git_in_a_clone_is_set_aside(work):
    clone, shell = work
    said = run(shell(), "mkdir a/clone/.git/rebase-merge; echo x > a/clone/.git/rebase-merge/git-rebase-todo")
    assert "a/clone/.git/rebase-merge.of-a-command" in said
    assert not (clone / ".git" / "rebase-merge").exists()


def test_link_to_a_git_folder_outside_is_not_followed(work, tmp_path):
    clone, shell = work
    other = tmp_path / "other"
    (other / "x.of-a-command").mkdir(parents=True)
    (clone.parent / ".git").symlink_to(other)
    assert "set aside" not in run(shell(), "true")
    run(shell(), "ln -s ../../../other a/clone/b")
    assert [path.name for path in other.iterdir()] == ["x.of-a-command"]


def test_person_in_a_folder_that_a_read_only_command_reads_changes_it(work):
    clone, shell = work
    sandbox = shell().sandbox
    with sandbox.prepared(Start(["true"], "/", read_only=True)) as restored:
        (clone / ".vscode" / "tasks.json").write_text("new")
    assert restored == []
    assert (clone / ".vscode" / "tasks.json").read_text() == "new"


def test_folder_that_changed_is_found_again(tmp_path):
    places = Places(str(tmp_path), [".x"])
    for depth in range(3):
        folder = tmp_path.joinpath(*"abc"[:depth])
        folder.mkdir(exist_ok=True)
        (folder / ".x").touch()
        assert places.find()[-1] == str(folder / ".x")
    (folder / ".x").unlink()
    assert len(places.find()) == 2


KILLED = """import asyncio, sys
from pure_agent_loop.toolbox import Shell
asyncio.run(Shell(sys.argv[1], sandbox=sys.argv[2]).shell(sys.argv[3]))
"""


@pytest.mark.parametrize("name", [*CHANGED, ".git/rebase-merge", "b/.envrc", "../../.git/evil"])
def test_files_of_a_killed_process_are_set_aside_at_the_next_start(work, name):
    clone, shell = work
    subprocess.run(["git", "init", "-q", str(clone.parents[1])], check=True)
    before = (clone / name).read_text() if name in CHANGED else None
    (clone / "b").mkdir()
    command = f"cd a/clone; echo evil > {name}; touch ready; while :; do :; done"
    words = [sys.executable, "-c", KILLED, str(clone.parents[1]), shell().sandbox.name, command]
    with running(words) as other:
        while not (clone / "ready").exists():
            assert other.poll() is None
        other.kill()
    assert (clone / name).read_text() == "evil\n"
    own = shell()
    assert ((clone / name).read_text() if name in CHANGED else (clone / name).exists() or None) == before
    assert name.rpartition("/")[2] in run(own, "true")
    assert "aside" not in run(own, "true") or name == ".git/rebase-merge"
