"""What belongs to a workspace and lies around it: git's own folder, the top of a repository or of a build."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop.toolbox import Shell
from pure_agent_loop.toolbox.sandbox.project import outer_of
from pure_agent_loop.toolbox.sandbox.roots import is_too_much

COMMIT = (
    "echo 3 > new; git add new && git -c user.name=n -c user.email=e commit -qm second && git log --format=%s"
)


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


def git(folder, *words):
    who = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
    )
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def repository(folder):
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "sub").mkdir()
    (folder / "sub" / "f").write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture(params=["worktree", "submodule", "below the top", "below the top of a worktree"])
def places(request, tmp_path):
    """A workspace, and the folders of git that belong to it."""
    main = repository(tmp_path / "main")
    if request.param == "below the top":
        return main / "sub", main / ".git", main / ".git"
    if request.param == "submodule":
        repository(tmp_path / "other")
        git(main, "submodule", "add", "-q", str(tmp_path / "other"), "s")
        return main / "s", main / ".git" / "modules" / "s", main / ".git" / "modules" / "s"
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "feature")
    below = tmp_path / "tree" / ("sub" if "top" in request.param else "")
    return below, main / ".git" / "worktrees" / "tree", main / ".git"


def run(folder, command, mode="bubblewrap", *, read_only=False):
    shell = Shell(folder, sandbox=mode)
    if read_only:
        return asyncio.run(shell._run(command, 30, read_only=True)).output
    return asyncio.run(shell.shell(command))


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
def test_git_looks(places, mode):
    said = run(places[0], "git status --short && git log --format=%s", mode, read_only=True)
    assert said == "first\n"


def test_approved_commit_works_and_leaves_no_file(places):
    folder, own, common = places
    before = {path for top in (own, common, folder) for path in top.iterdir()}
    assert run(folder, COMMIT) == "second\nfirst\n[exit code 0]"
    made = {path.name for top in (own, common, folder) for path in top.iterdir()} - {
        path.name for path in before
    }
    assert made <= {"new", "COMMIT_EDITMSG", "logs"}


def test_files_that_git_executes_are_not_writable(places):
    folder, own, common = places
    kept = {path: path.read_bytes() for top in (own, common) for path in top.rglob("*") if path.is_file()}
    names = (
        "config",
        "config.worktree",
        "commondir",
        "hooks/pre-commit",
        "info/attributes",
        "modules/x/config",
    )
    for top in {own, common}:
        for name in names:
            run(folder, f"mkdir -p {(top / name).parent}; echo evil >> {top / name}; mv {top / name} {top}/x")
            run(folder, f"rm -rf {top / name}; git config core.fsmonitor evil; mv {top} {top}2")
    for top in (own, common):
        for name in names:
            path = top / name
            assert (path.read_bytes() if path.exists() else None) == kept.get(path), path


def test_unapproved_command_writes_nothing(places):
    folder, own, common = places
    run(folder, f"touch {own}/x {common}/x {common}/refs/x; git branch y", read_only=True)
    assert not any((top / name).exists() for top in (own, common) for name in ("x", "refs/x", "refs/heads/y"))


class TestWhatIsNotBelieved:
    def test_a_stranger_names_somebody_elses_folder(self, tmp_path):
        other = repository(tmp_path / "other")
        work = tmp_path / "work"
        work.mkdir()
        for target in (other / ".git", tmp_path, Path("/etc")):
            (work / ".git").write_text(f"gitdir: {target}\n")
            outer = outer_of(work, is_too_much)
            assert (outer.readable, outer.own, outer.shared) == ([], [], [])
        (work / ".git").write_text(f"gitdir: {other / '.git'}\n")
        assert "does not point back" in run(work, "git status")

    def test_git_folder_with_foreign_commondir_is_rejected(self, tmp_path):
        main = repository(tmp_path / "main")
        git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
        (main / ".git" / "worktrees" / "tree" / "commondir").write_text(str(tmp_path))
        assert outer_of(tmp_path / "tree", is_too_much).readable == []

    def test_a_home_is_not_shown_for_its_repository(self, tmp_path, monkeypatch):
        home = repository(tmp_path / "home")
        monkeypatch.setenv("HOME", str(home))
        (home / "secret").write_text("secret")
        assert "No such file" in run(home / "sub", f"cat {home}/secret")
        assert "never shown" in run(home / "sub", "git status")

    def test_hooks_that_are_a_link_make_it_readable_only(self, tmp_path):
        main = repository(tmp_path / "main")
        (main / ".git" / "hooks").rename(main / ".git" / "real")
        (main / ".git" / "hooks").symlink_to("real")
        assert "first" in run(main / "sub", "git log --format=%s")
        assert "is read-only here" in run(main / "sub", COMMIT)

    def test_landlock_explains_why_commits_fail(self, places):
        said = run(places[0], COMMIT, "landlock")
        assert "second" not in said
        assert "is read-only here" in said


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there is a parser of TOML from Python 3.11 on")
@pytest.mark.parametrize(
    ("name", "text", "is_top"),
    [
        ("Cargo.toml", '[ workspace ]\nmembers = ["a"]\n', True),
        ("Cargo.toml", 'workspace.members = ["a"]\n', True),
        ("Cargo.toml", '[workspace.package]\nversion = "1"\n', True),
        ("Cargo.toml", 'workspace = { members = ["a"] }\n', True),
        ("pyproject.toml", '[tool.uv]\nworkspace = { members = ["a"] }\n', True),
        ("pyproject.toml", '[tool]\nuv.workspace.members = ["a"]\n', True),
        ("pyproject.toml", '[tool."uv"."workspace"]\n', True),
        ("Cargo.toml", 'text = """\n[workspace]\n"""\n', False),
        ("Cargo.toml", '[package]\nworkspace = ".."\n', False),
        ("Cargo.toml", "workspace = 5\n[package", False),
        ("pyproject.toml", "tool = 5\n", False),
    ],
)
def test_a_workspace_is_one_however_its_file_is_written(tmp_path, name, text, is_top):
    (tmp_path / "packages" / "a").mkdir(parents=True)
    (tmp_path / name).write_text(text)
    outer = outer_of(tmp_path / "packages" / "a", is_too_much)
    assert outer.readable == ([str(tmp_path)] if is_top else [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{"workspaces": ["a"]}'),
        ("Cargo.toml", '[workspace]\nmembers = ["a"]\n'),
        ("pyproject.toml", '[tool.uv.workspace]\nmembers = ["a"]\n'),
        *(("pnpm-workspace.yaml", "packages: [a]\n"), ("go.work", "use ./a\n")),
    ],
)
@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
def test_a_member_of_a_workspace_reads_its_root(tmp_path, name, text, mode):
    (tmp_path / "top" / "packages" / "a").mkdir(parents=True)
    (tmp_path / "top" / name).write_text(text)
    member = tmp_path / "top" / "packages" / "a"
    said = run(member, f"cat ../../{name}; touch ../../made", mode)
    assert text.splitlines()[0] in said
    assert not (tmp_path / "top" / "made").exists()


def test_parent_folder_that_is_not_a_root_is_hidden(tmp_path):
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "top" / "package.json").write_text('{"name": "top"}')
    (tmp_path / "top" / "pyproject.toml").write_text("[project]\nname = 'top'\n")
    assert "No such file" in run(tmp_path / "top" / "a", "cat ../package.json")
