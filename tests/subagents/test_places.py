"""Copies and checkouts: what is changed there never reaches the workspace, and is not lost unsaid."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers import check_result, nothing_left, tool_texts
from tests.subagents.family import HELPER, family, parent

from pure_agent_loop import CancelToken, tool
from pure_agent_loop.subagents.places import Scratch
from pure_agent_loop.subagents.words import words_for
from pure_agent_loop.testing import Gate, call, deltas
from pure_agent_loop.toolbox import workspace_tools

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


def git(folder, *words):
    return subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def work(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def run(work, mode, helper, **more):
    llm = family(parent=[call("task", agent="helper", prompt="do it"), "done"], helper=helper)
    options = {"tools": workspace_tools(work), "_workspace": work, **more}
    return check_result(parent(llm, replace(HELPER, workspace=mode), **options).run("go")), llm


CHANGE = call("write_file", path="b.txt", content="two\n")


def test_a_copy_is_thrown_away_and_its_changes_are_told(work):
    result, _ = run(work, "scratch", [CHANGE, "changed it"])
    said = tool_texts(result.messages)[0]
    assert "+++ b/b.txt" in said
    assert "+two" in said
    assert not (work / "b.txt").exists()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_a_copy_that_was_not_changed(work):
    result, llm = run(work, "scratch", [call("read_file", path="a.txt"), "read it"])
    assert "changed nothing" in tool_texts(result.messages)[0]
    assert "one" in tool_texts(llm.requests[2].messages)[0]


def test_a_checkout_with_changes_is_kept_on_its_branch(work, tmp_path):
    before = (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain"))
    result, _ = run(work, "worktree", [CHANGE, "changed it"])
    said = tool_texts(result.messages)[0]
    (kept,) = (tmp_path / "home" / "worktrees").iterdir()
    assert (kept / "b.txt").read_text() == "two\n"
    assert str(kept) in said
    assert f"pal/{kept.name}" in said
    assert "?? b.txt" in said
    assert not (work / "b.txt").exists()
    assert (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain")) == before


def test_a_checkout_without_changes_is_removed_with_its_branch(work, tmp_path):
    result, _ = run(work, "worktree", ["nothing to do"])
    assert "changed no file" in tool_texts(result.messages)[0]
    assert list((tmp_path / "home" / "worktrees").iterdir()) == []
    assert git(work, "branch", "--list", "pal/*") == ""
    assert len(git(work, "worktree", "list").splitlines()) == 1


def test_hooks_of_the_repository_do_not_run(work, tmp_path):
    hook = work / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    run(work, "worktree", ["nothing to do"])
    assert not (tmp_path / "ran").exists()


def test_checkout_never_reads_the_configuration_of_the_repository(work, tmp_path):
    (work / ".git" / "config").write_text("[[[ not a configuration")  # git itself refuses this repository
    result, llm = run(work, "worktree", [call("read_file", path="a.txt"), CHANGE, "changed it"])
    (kept,) = (tmp_path / "home" / "worktrees").iterdir()
    assert "one" in tool_texts(llm.requests[2].messages)[0]
    assert "?? b.txt" in tool_texts(result.messages)[0]
    (work / ".git" / "config").write_text("[core]\n")
    assert git(kept, "branch", "--show-current").strip() == f"pal/{kept.name}"
    assert len(git(work, "worktree", "list").splitlines()) == 2


@pytest.mark.parametrize("url", ["/nowhere", "ssh://h/x", "ext::touch @/ran"])
def test_checkout_with_a_missing_object_fails_and_fetches_nothing(work, tmp_path, url):
    lost = git(work, "rev-parse", "HEAD:a.txt").strip()
    (work / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "o",
        "remote.o.promisor": "true",
        "remote.o.url": url.replace("@", str(tmp_path)),
        "remote.o.uploadpack": f"touch {tmp_path}/ran;",
        "core.sshCommand": f"touch {tmp_path}/ran;",
        "protocol.allow": "always",
    }.items():
        git(work, "config", name, value)
    result, _ = run(work, "worktree", [])
    assert "git reset failed" in tool_texts(result.messages)[0]
    assert not (tmp_path / "ran").exists()
    assert list((tmp_path / "home" / "worktrees").iterdir()) == []
    assert git(work, "for-each-ref", "refs/heads/pal") == ""


@pytest.mark.parametrize("kind", ["sha256", "linked", "subfolder"])
def test_checkout_works_from_any_kind_of_working_tree(work, tmp_path, kind):
    source = tmp_path / "other"
    if kind == "linked":
        git(work, "worktree", "add", "-q", str(source))
    else:
        source.mkdir()
        git(source, "init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []))
    if kind == "subfolder":
        source /= "sub"
        source.mkdir()
    (source / "a.txt").write_text("mine\n")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "mine")
    result, llm = run(source, "worktree", [call("read_file", path="a.txt"), "read it"])
    assert "mine" in tool_texts(llm.requests[2].messages)[0]
    assert "changed no file" in tool_texts(result.messages)[0]
    assert list((tmp_path / "home" / "worktrees").iterdir()) == []


def test_outside_of_a_repository_a_checkout_fails_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    plain = tmp_path / "plain"
    plain.mkdir()
    result, _ = run(plain, "worktree", [])
    assert "git rev-parse failed" in tool_texts(result.messages)[0]


@pytest.mark.parametrize("mode", ["scratch", "worktree"])
def test_cancelling_leaves_no_folder(work, tmp_path, mode):
    async def main():
        gate, token = Gate(), CancelToken()
        script = {"parent": [call("task", agent="helper", prompt="x")], "helper": [deltas("a", gate, "b")]}
        tools = workspace_tools(work)
        agent = parent(family(**script), replace(HELPER, workspace=mode), tools=tools, _workspace=work)
        async with nothing_left():
            going = asyncio.create_task(agent.arun("go", cancel_token=token))
            await gate.reached.wait_async()
            token.cancel()
            return check_result(await going)

    assert asyncio.run(main()).stop_reason == "cancelled"
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert not any((tmp_path / "home").glob("worktrees/*"))
    assert len(git(work, "worktree", "list").splitlines()) == 1


def test_only_tools_that_the_agent_above_has(work):
    @tool
    def deploy() -> str:
        """Change the world."""
        return "done"

    tools = [each for each in workspace_tools(work) if each.name != "write_file"]
    _, llm = run(work, "scratch", ["x"], tools=[*tools, deploy])
    names = {each["function"]["name"] for each in llm.requests[1].tools}
    assert "edit_file" in names
    assert names.isdisjoint({"write_file", "deploy", "task"})


def test_links_that_lead_out_are_left_out(work, tmp_path):
    (tmp_path / "secret").write_text("s")
    (work / "out").symlink_to(tmp_path / "secret")
    (work / "in").symlink_to("a.txt")
    (work / "folder").symlink_to(tmp_path)
    copy = Scratch(work, words_for("en"))
    asyncio.run(copy.fill())
    assert sorted(path.name for path in copy.root.iterdir()) == ["a.txt", "in"]
    (copy.root / "a.txt").unlink()
    (copy.root / "c.bin").write_bytes(b"\0\1")
    said = asyncio.run(copy.report())
    assert "-one" in said
    assert "c.bin: changed, not shown" in said
    assert copy.close() == ""
    assert not copy.root.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["logs", "logs/refs/heads", "refs/heads/pal", "packed-refs", "worktrees"])
def test_checkout_writes_nothing_through_a_link(work, tmp_path, name):
    (tmp_path / "victim").mkdir()
    path = work / ".git" / name
    if path.exists():
        path.rename(tmp_path / "old")
    path.symlink_to(tmp_path / "victim")
    said = tool_texts(run(work, "worktree", [CHANGE, "made b"])[0].messages)[0]
    assert not list((tmp_path / "victim").iterdir())
    assert "is not a plain file" in said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["HEAD", "packed-refs", "objects/info/alternates", "info/exclude"])
def test_checkout_does_not_wait_for_a_pipe(work, name):
    path = work / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    said = tool_texts(run(work, "worktree", [CHANGE, "made b"])[0].messages)[0]
    assert "is not a plain file" in said or "not a git repository" in said
