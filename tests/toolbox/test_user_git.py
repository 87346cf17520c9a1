"""The user's git settings in the shell: what decides what a commit holds, and nothing else."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop.toolbox.shell.tool import Shell

IDENTITY = "[user]\n\tname = Ann Example\n\temail = ann@example.com\n"


@pytest.fixture(params=["bubblewrap", "landlock"])
def shell(request, tmp_path, monkeypatch):
    require_tools()
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    subprocess.run(["git", "init", "-q", "-b", "main", "."], cwd=work, check=True)
    (work / "a").write_text("a\n")
    return Shell(work, sandbox=request.param)


def run(shell, command):
    return asyncio.run(shell.shell(command))


@pytest.fixture
def settings(tmp_path):
    return lambda text, name=".gitconfig": _written(tmp_path / "home" / name, text)


def _written(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("where", ["plain", "xdg", "included", "for this folder"])
def test_commit_carries_the_user_wherever_git_finds_them(shell, settings, tmp_path, where):
    other = str(settings(IDENTITY, "other"))
    heads = {"included": "[include]", "for this folder": f'[includeIf "gitdir:{tmp_path}/work/"]'}
    named = f"{heads.get(where)}\n\tpath = {other}\n" if where in heads else IDENTITY
    settings(named, ".config/git/config" if where == "xdg" else ".gitconfig")
    said = run(shell, "git add -A && git commit -qm 1 && git log --format='%an <%ae>'")
    assert said == "Ann Example <ann@example.com>\n[exit code 0]"


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"])
@pytest.mark.parametrize("where", ["home", "work"])
def test_file_that_the_user_names_counts_outside_the_working_folder(
    shell, settings, tmp_path, monkeypatch, variable, where
):
    file = _written(tmp_path / where / "mine" / "git" / "config", IDENTITY)
    monkeypatch.setenv(variable, str(file if variable.startswith("GIT") else file.parents[1]))
    monkeypatch.chdir(tmp_path / "work")
    _written(tmp_path / where / "mine" / "git" / "ignore", "a\n")
    said = run(shell, "git config --global user.name; cat ~/.config/git/ignore; true")
    assert ("Ann Example" in said) == (where == "home")
    assert ("\na\n" in said) == (where == "home" and variable.startswith("XDG"))


def test_author_of_the_variables_counts_as_for_git_outside(shell, settings, monkeypatch):
    settings(IDENTITY)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Bo Other")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "bo@example.com")
    monkeypatch.setenv("GIT_SSH_COMMAND", "evil")
    said = run(shell, "git add -A && git commit -qm 1 && git log --format='%an <%ae> %cn <%ce>'; env")
    assert said.startswith("Bo Other <ann@example.com> Ann Example <bo@example.com>\n")
    assert "evil" not in said


@pytest.mark.parametrize("named", [True, False])
def test_files_that_the_user_ignores_stay_out(shell, settings, named):
    settings(IDENTITY + ("[core]\n\texcludesFile = ~/mine\n" if named else ""))
    settings("*.log\n", "mine" if named else ".config/git/ignore")
    assert run(shell, "touch x.log && git status --porcelain") == "?? a\n[exit code 0]"


def test_only_git_settings_that_shape_a_commit_are_passed_on(shell, settings):
    settings(
        IDENTITY + '[alias]\n\tst = status --short \\"a b\\"\n\tsh = !touch ran\n\tp = push https://key@h/x\n'
        "\tf = -c http.extraHeader=key fetch\n"
        "[core]\n\tautocrlf = input\n\teditor = evil\n\tsshCommand = evil\n[diff]\n\texternal = evil\n"
        '[credential]\n\thelper = evil\n[url "https://key@h"]\n\tinsteadOf = h:\n'
        '[filter "f"]\n\tclean = evil\n\trequired\n[rebase]\n\tautosquash\n'
        "[github]\n\ttoken = key\n[commit]\n\ttemplate = evil\n"
    )
    said = run(shell, "git config --global --list")
    assert said.splitlines() == [
        "user.name=Ann Example",
        "user.email=ann@example.com",
        'alias.st=status --short "a b"',
        "core.autocrlf=input",
        "filter.f.required",
        "rebase.autosquash",
        "safe.directory=*",
        "[exit code 0]",
    ]


def test_settings_in_the_workspace_choose_no_file_to_read(shell, settings, tmp_path):
    settings("private\n", ".ssh/key")
    settings(f"[include]\n\tpath = {tmp_path}/work/dotfiles\n")
    (tmp_path / "work" / "dotfiles").write_text(
        f"{IDENTITY}[core]\n\texcludesFile = {tmp_path}/home/.ssh/key\n"
    )
    said = run(shell, "cat ~/.config/git/ignore; git config user.name")
    assert "private" not in said
    assert "Ann Example" in said


def test_setting_that_a_command_makes_for_the_user_is_refused(shell, settings):
    settings(IDENTITY)
    assert "[exit code 0]" not in run(shell, "git config --global user.name Eve")


def test_commit_that_cannot_be_signed_is_not_made_and_says_so(shell, settings, tmp_path):
    settings(IDENTITY + "[commit]\n\tgpgsign = true\n")
    said = run(shell, "git add -A && git commit -qm 1")
    assert "the keys are never in the sandbox" in said
    heads = tmp_path / "work" / ".git" / "refs" / "heads"
    assert list(heads.iterdir()) == []


def test_editor_accepts_the_text_proposed_by_git(shell, settings):
    settings(IDENTITY)
    commit = "git add -A && git commit -qm one && echo > b && git add b && git commit -qm two"
    said = run(shell, f"{commit} && git commit -q --amend && git rebase -q -i HEAD~1 && git log --format=%s")
    assert said == "two\none\n[exit code 0]"
