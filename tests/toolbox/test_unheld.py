"""Where no sandbox holds commands back, the folder decides whether the short list is harmless."""

from __future__ import annotations

import subprocess

import pytest

from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.toolbox import Shell

GIT = ("git status", "git diff", "git log", "git branch", "git remote -v")
HARMLESS = (
    *("ls -la", "cat a.txt | head -5", "grep -rn --include='*.py' x src", "cat src/*.txt", "cd src && ls"),
    *("wc -l < a.txt", "diff a.txt src/b.txt", "cut -d: -f1,3 a.txt", "head -20 a.txt", "cat /dev/null"),
    *("for f in a b; do cat a.txt; done", "echo 'any text'", "cat -", "pwd", "du -sh src"),
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("secret")
    (folder / "a.txt").write_text("one\n")
    (folder / "src" / "b.txt").write_text("two\n")
    git(folder, "init", "-q", ".")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "1")
    return folder


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def behavior(folder, command, **options):
    shell = Shell(folder, sandbox="none", any_folder=True, **options)
    return shell.judge({"command": command}, JudgeContext(attended=True)).behavior


@pytest.mark.parametrize("command", [*GIT, *HARMLESS])
def test_a_plain_folder_is_looked_at_unasked(folder, command):
    git(folder, "config", "remote.origin.url", "https://example.org/x.git")
    git(folder, "config", "branch.main.remote", "origin")
    assert behavior(folder, command) == "allow"


@pytest.mark.parametrize(
    "setting",
    [
        *("filter.f.clean", "filter.f.process", "diff.external", "diff.x.textconv", "diff.x.command"),
        *("gpg.program", "gpg.ssh.program", "log.showSignature", "core.fsmonitor", "core.pager"),
        *("pager.log", "core.hooksPath", "core.sshCommand", "alias.status", "credential.helper"),
        *("include.path", "includeIf.gitdir:/.path", "core.worktree", "core.attributesFile"),
        *("submodule.x.update", "status.submoduleSummary", "extensions.worktreeConfig"),
        *("remote.origin.promisor", "remote.origin.vcs", "remote.origin.uploadpack", "what.comes.next"),
    ],
)
def test_unknown_git_key_is_asked_about(folder, setting):
    git(folder, "config", setting, "x")
    assert {behavior(folder, command) for command in GIT} == {"ask"}


@pytest.mark.parametrize(
    "text",
    [
        '[core] hooksPath = "x"\n',
        "[core]\n\tbare = false\\\n\thooksPath = x\n",
        '[filter "a\\"b"]\n\tclean = x\n',
        "[FILTER.f]\nclean = x\n",
        "\ufeff[gpg]\nprogram = x\n",
        '[user]\n\tname = x\n[core]\n\tfsMonitor = "touch x"\n',
    ],
)
def test_a_configuration_is_read_as_git_reads_it(folder, text):
    (folder / ".git" / "config").write_text(text)
    assert behavior(folder, "git status") == "ask"


class TestOtherThingsThatGitObeys:
    def test_a_hook(self, folder):
        (folder / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\n")
        assert behavior(folder, "git diff") == "ask"

    def test_submodule_has_its_own_configuration(self, folder, tmp_path):
        git(tmp_path, "clone", "-q", str(folder), "other")
        git(folder, "submodule", "add", "-q", str(tmp_path / "other"), "sub")
        (folder / ".git" / "config").write_text("[core]\n\tbare = false\n")
        (folder / ".gitmodules").unlink()
        assert behavior(folder, "git status") == "ask"

    def test_a_repository_that_lies_elsewhere(self, folder, tmp_path):
        git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
        assert behavior(tmp_path / "tree", "git status") == "ask"

    def test_common_files_elsewhere(self, folder):
        (folder / ".git" / "commondir").write_text("../../out")
        assert behavior(folder, "git status") == "ask"

    def test_a_repository_above(self, folder):
        assert behavior(folder / "src", "git log") == "allow"
        git(folder, "config", "gpg.program", "x")
        assert behavior(folder / "src", "git log") == "ask"

    def test_a_bare_repository(self, folder):
        for name in ("objects", "refs"):
            (folder / "src" / name).mkdir()
        (folder / "src" / "HEAD").write_text("ref: refs/heads/main\n")
        assert behavior(folder / "src", "git log") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("cat src/l", "cat src/*", "cat link/secret", "ls link", "cd link && cat secret", "wc -c < src/l"),
        *(
            "cd src && cat l",
            "diff src src",
            "head src/[a-z]",
            "ls -lL",
            "du -L",
            "grep -R s .",
            "tail -n1 link/*",
        ),
        *("md5sum -c a.txt", "md5sum -bc a.txt", "wc --files0-from=a.txt", "grep -f src/l a.txt", "cat s*/l"),
        *("ls --dereference", "cat a.txt src/../src/l", "stat -c %n src/l"),
    ],
)
def test_link_out_of_the_folder_is_asked_about(folder, tmp_path, command):
    (folder / "link").symlink_to(tmp_path / "out")
    (folder / "src" / "l").symlink_to(tmp_path / "out" / "secret")
    assert behavior(folder, command) == "ask"


def test_a_link_within_the_folder_is_none(folder):
    (folder / "here").symlink_to("src")
    assert behavior(folder, "cat here/b.txt") == "allow"


def test_a_program_of_the_folder_itself_is_asked_about(folder, monkeypatch):
    (folder / "bin").mkdir()
    (folder / "bin" / "ls").write_text("#!/bin/sh\n")
    (folder / "bin" / "ls").chmod(0o755)
    assert behavior(folder, "ls") == "allow"
    assert behavior(folder, "ls", path=[str(folder / "bin")]) == "ask"
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    assert behavior(folder, "ls") == "ask"


def test_git_that_would_start_programs_is_asked_about(folder, tmp_path):
    """The whole way, with real git: each program would leave a mark."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (folder / ".gitattributes").write_text("*.txt filter=f diff=d\n")
    for key, name in (
        ("filter.f.clean", "clean"),
        ("diff.d.textconv", "text"),
        ("core.fsmonitor", "monitor"),
    ):
        git(folder, "config", key, f"touch {marks}/{name}; cat")
    (folder / "a.txt").write_text("changed\n")
    for command in GIT:
        assert behavior(folder, command) == "ask"
    assert list(marks.iterdir()) == []
