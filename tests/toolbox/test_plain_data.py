"""What a command leaves in git's data is plain, and what it made hard to undo is undone or refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.toolbox.sandbox_ground import IS_ROOT, NOBODY, require_tools

MODES = ["bubblewrap", "landlock"]
EVIL = "echo evil > .git/hooks/post-commit; chmod +x .git/hooks/post-commit"
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if IS_ROOT else []
CODE = """
import asyncio, os, sys
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.toolbox.shell.tool import Shell
os.umask(0o022)
for command in sys.argv[3:]:
    try:
        said = asyncio.run(Shell(sys.argv[1], sandbox=sys.argv[2]).shell(command))
    except PureAgentLoopError as error:
        said = f"refused: {error}"
    print(said, end="\\0")
"""
HIDES = "mkdir -p {0}/d/x; chmod 000 {0}/d"  # cannot be deleted


def git(folder, *words, check=True):
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=check, capture_output=True, text=True
    ).stdout


def repository(folder):
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "1")
    return folder


@pytest.fixture
def top(monkeypatch):
    """A folder that is deleted whatever its rights are."""
    require_tools()
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("PAL_HOME", str(folder / "home"))
    (folder / "home").mkdir()
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)
    shutil.rmtree(folder)


def run(folder, mode, *commands):
    """Run commands without the power of root to pass over rights; return their results, also of a refusal."""
    words = [sys.executable, "-c", CODE, str(folder), mode, *commands]
    done = subprocess.run([*POWERLESS, *words], check=True, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


PLANTED = {
    "COMMIT_EDITMSG": "ln -sf ../../out .git/COMMIT_EDITMSG",
    "logs/HEAD": "ln -sf ../../../out .git/logs/HEAD",
    "logs/refs/heads/objects": "ln -s /etc .git/logs/refs/heads/objects",
    "refs/heads/pal": "ln -s /etc .git/refs/heads/pal",
    "objects/pack/x": "ln -s ../config .git/objects/pack/x",
    "objects/info/alternates": "mkfifo .git/objects/info/alternates",
    "packed-refs": "mkfifo .git/packed-refs",
    "MERGE_MSG": "echo 1 > .git/A; ln .git/A .git/MERGE_MSG",
    "logs/objects": "ln .git/A .git/logs/objects",
}


@pytest.mark.parametrize("mode", MODES)
def test_data_that_is_not_plain_is_moved_aside_and_named(top, mode):
    work = repository(top / "work")
    said = run(work, mode, "; ".join(PLANTED.values()), "true")
    for name in PLANTED:
        assert not os.path.lexists(work / ".git" / name), name
        assert f".git/{Path(name).name}." in said[0], name
    assert "[exit code 0]" in said[1]
    assert git(work, "log", "--format=%s") == "1\n"


@pytest.mark.parametrize("mode", MODES)
def test_links_of_a_person_and_copied_objects_stay(top, mode):
    work = repository(top / "work")
    (work / ".git" / "info").mkdir(exist_ok=True)
    (work / ".git" / "info" / "attributes").symlink_to("../../a")
    (work / ".git" / "lfs").mkdir()
    said = run(work, mode, "git clone -q . b && rm -rf b; cp -rl .git/objects .git/lfs; git gc -q; echo done")
    assert said == ["done\n[exit code 0]"]
    assert (work / ".git" / "info" / "attributes").is_symlink()


@pytest.mark.parametrize("kind", ["worktree", "submodule"])
def test_data_shared_with_other_worktrees_is_plain(top, kind):
    main = repository(top / "main")
    work, common = top / "work", main / ".git"
    if kind == "worktree":
        git(main, "worktree", "add", "-q", str(work))
    else:
        repository(top / "other")
        git(main, "submodule", "add", "-q", str(top / "other"), "s")
        work, common = main / "s", common / "modules" / "s"
    said = run(
        work,
        "bubblewrap",
        "C=$(git rev-parse --git-common-dir); ln -s /etc $C/refs/heads/x; ls $C/refs/heads",
    )
    assert "x\n" in said[0]
    assert not (common / "refs" / "heads" / "x").is_symlink()


HARD = {
    "a folder without rights": ("mkdir .git/new; chmod 300 .git", "new"),
    "a folder that is read-only": ("mkdir .git/new; chmod 555 .git", "new"),
    "a file without rights": ("touch .git/new; chmod 000 .git/new", "new"),
    "the name is taken": (f"mkdir .git/new; {HIDES.format('.git/new.of-a-command')}", "new"),
    "the name is long": (f"mkdir .git/{'n' * 250}", "n" * 250),
    "a submodule": (
        "mkdir -p .git/modules/s; cd .git/modules/s; touch HEAD config; chmod 300 .",
        "modules/s/config",
    ),
    "a deep link": (
        "cd .git/refs; for i in $(seq 60); do mkdir " + "d" * 100 + "; cd " + "d" * 100 + "; done; ln -s / x",
        "/".join(["refs", *["d" * 100] * 45]),
    ),
    "hooks in a read-only folder": (
        f"rm -r .git/hooks; mkdir .git/hooks; {EVIL}; chmod 555 .git",
        "hooks/post-commit",
    ),
    "hooks aside is taken": (
        f"{HIDES.format('.git/hooks.changed-during-a-command')}; {EVIL}",
        "hooks/post-commit",
    ),
    "hooks out of sight": (f"{EVIL}; chmod 600 .git", "hooks/post-commit"),
    "an editor": (f"{HIDES.format('.vscode.changed-during-a-command')}; mkdir .vscode", "../.vscode"),
    "an editor below, out of sight": ("mkdir -p sub/.vscode; chmod 300 sub", "../sub/.vscode"),
    "a clone below, out of sight": ("mkdir sub; git init -q sub/n; chmod 000 sub", "../sub/n/.git"),
    "an editor in a read-only folder": ("mkdir .vscode; chmod 555 .", "../.vscode"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", HARD)
def test_obstacle_to_setting_aside_does_not_keep_the_file_in_place(top, mode, what):
    work = repository(top / "work")
    command, name = HARD[what]
    said = run(work, mode, command, "echo next")
    assert not os.path.lexists(work / ".git" / name)
    assert "next\n[exit code 0]" in said[1]


@pytest.mark.skipif(not IS_ROOT, reason="needs a folder of another user")
@pytest.mark.parametrize("name", ["config", "modules/s/config"])
def test_file_left_in_place_is_reported_and_stops_the_next_command(top, name):
    work = repository(top / "work")
    file = work / ".git" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    (file.parent / "HEAD").touch()
    for path in (file, file.parent):
        os.lchown(path, NOBODY, NOBODY)
    file.parent.chmod(0o1777)
    file.chmod(0o666)
    said = run(work, "landlock", f"echo evil > .git/{name}", "echo next")
    assert f".git/{name} (Operation not permitted)" in said[0]
    assert "NOT undone" in said[0]
    assert "restored: " not in said[0]
    assert said[1].startswith("refused: ")
    assert str(file) in said[1]
    file.unlink()
    assert "next" in run(work, "landlock", "echo next")[0]


@pytest.mark.parametrize("mode", ["landlock"])
def test_git_file_of_a_worktree_is_restored(top, mode):
    main = repository(top / "main")
    git(main, "worktree", "add", "-q", str(top / "work"))
    before = (top / "work" / ".git").read_text()
    for command in ("echo gitdir: evil > .git", "rm .git; mkdir .git", "ln -sf evil .git"):
        assert "were restored: .git]" in run(top / "work", mode, command)[0]
        assert (top / "work" / ".git").read_text() == before


def test_large_protected_folder_that_changed_is_said(top):
    work = repository(top / "work")
    (work / ".idea").mkdir()
    for number in range(1_001):
        (work / ".idea" / str(number)).touch()
    said = run(work, "landlock", "true", "echo evil > .idea/1000; echo evil > .idea/0", "echo next")
    assert said[0] == "(no output)\n[exit code 0]"
    assert "NOT undone: .idea (" in said[1]
    assert "next" in said[2]
