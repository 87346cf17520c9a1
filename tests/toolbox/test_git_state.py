"""What a command leaves in a git folder: git's data stays, and nothing else can run later."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop.toolbox.shell.tool import Shell


def git(folder, *words, check=True):
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


@pytest.fixture(params=["bubblewrap", "landlock"])
def work(request, tmp_path, monkeypatch):
    require_tools()
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@b\n")
    folder = tmp_path / "work"
    git(folder, "init", "-q", "-b", "main", ".")
    for name in ("1", "2", "3"):
        (folder / "a").write_text(name)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", name)
    git(folder, "checkout", "-qb", "other", "HEAD~1")
    (folder / "a").write_text("4")
    git(folder, "commit", "-qam", "4")
    return folder, Shell(folder, sandbox=request.param)


def run(shell, command):
    return asyncio.run(shell.shell(command))


PLANTED = {
    "a rebase": "mkdir .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD | tee onto orig-head;"
    " echo refs/heads/other > head-name; echo 'exec touch @/ran' > git-rebase-todo; touch done interactive",
    "a strategy": "mkdir .git/sequencer; echo '[options] strategy = x/../evil' > .git/sequencer/opts",
    "a submodule": "mkdir -p .git/modules/x; cp -r .git/HEAD .git/objects .git/refs .git/modules/x;"
    " echo '[core] fsmonitor = touch @/ran' > .git/modules/x/config",
    "a worktree": "mkdir -p .git/worktrees/x; cp .git/HEAD .git/worktrees/x;"
    " echo /evil > .git/worktrees/x/commondir",
    "a tool of tomorrow": "echo evil > .git/tool.toml",
}


@pytest.mark.parametrize("what", PLANTED)
def test_executable_git_state_is_set_aside_and_named(work, tmp_path, what):
    folder, shell = work
    before = {path for path in (folder / ".git").rglob("*") if "objects" not in path.parts}
    said = run(shell, PLANTED[what].replace("@", str(tmp_path)))
    assert ".of-a-command" in said
    made = {path for path in (folder / ".git").rglob("*") if "objects" not in path.parts} - before
    kept = {path for path in made if ".of-a-command" not in str(path) and path.is_file()}
    assert {path.name for path in kept} <= {"HEAD", "main", "other"}
    git(folder, "rebase", "--continue", check=False)
    assert not (tmp_path / "ran").exists()


def test_rebase_with_a_conflict_continues_in_the_next_command(work):
    folder, shell = work
    said = run(shell, "git rebase -q main")
    assert ".git/rebase-merge.of-a-command" in said
    assert not (folder / ".git" / "rebase-merge").exists()
    said = run(shell, "git status && echo 5 > a && git add a && git rebase --continue")
    assert "rebase in progress" in said
    assert "[exit code 0]" in said
    assert git(folder, "log", "--format=%s") == "4\n3\n2\n1"
    assert git(folder, "branch", "--show-current") == "other"
    assert not list((folder / ".git").glob("*.of-a-command"))


@pytest.mark.parametrize(
    "command",
    [
        "git merge main; echo 5 > a; git add a; git commit -qm merged",
        "echo 5 > a; git stash -q; git stash pop -q; git commit -qam 5",
        "git cherry-pick main; echo 5 > a; git add a; git cherry-pick --continue",
        "git tag x; git gc -q; git checkout -q main; git reset -q --hard HEAD~1",
    ],
)
def test_work_that_is_finished_leaves_nothing_aside(work, command):
    folder, shell = work
    said = run(shell, command)
    assert "[exit code 0]" in said
    assert "of-a-command" not in said
    assert git(folder, "fsck", "--no-dangling") == ""


def test_state_of_a_person_stays_where_it_was(work):
    folder, shell = work
    git(folder, "rebase", "main", check=False)
    (folder / ".git" / "tool.toml").write_text("mine")
    assert "of-a-command" not in run(shell, "git add a")
    assert (folder / ".git" / "rebase-merge").is_dir()
    assert "tool.toml.of-a-command" in run(shell, "echo evil > .git/tool.toml")
    assert (folder / ".git" / "tool.toml").read_text() == "mine"


def test_concurrent_commands_share_restored_git_state(work):
    folder, shell = work
    run(shell, "git rebase -q main")

    async def both():
        wait = "until [ -e b ]; do :; done"
        await asyncio.gather(shell.shell(f"{wait}; git rebase --abort"), shell.shell("touch b"))

    asyncio.run(both())
    assert git(folder, "branch", "--show-current") == "other"
    assert not list((folder / ".git").glob("rebase-merge*"))
