"""Names that are not UTF-8 or hold control characters: one form in every listing, which every tool reads."""

from __future__ import annotations

import os
import subprocess

import pytest

from pure_agent_loop import Agent, PermissionRules
from pure_agent_loop.cli.chat.completion import InputCompletions
from pure_agent_loop.cli.task import media_named
from pure_agent_loop.support.quoted_paths import quoted_path, unquoted_path
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools

ODD = {
    "new\nline.txt": r'"new\nline.txt"',
    os.fsdecode(b"caf\xe9.txt"): r'"caf\351.txt"',
    'tab\t"and\\quote".txt': r'"tab\t\"and\\quote\".txt"',
    '"quoted".txt': r'"\"quoted\".txt"',
    "bell\a\x85.txt": r'"bell\a\302\205.txt"',
}
PLAIN = ["a.txt", "my file.txt", "进度.txt", "it's.txt", 'mid"dle.txt', "back\\slash.txt", "src/é/x y.py", ""]


@pytest.fixture
def work(tmp_path):
    for name in ODD:
        (tmp_path / "sub").mkdir(exist_ok=True)
        (tmp_path / "sub" / name).write_text("needle\n")
    return tmp_path


def results(work, *calls, **options):
    agent = Agent(llm=ScriptedLLM([*calls, "Done."]), tools=workspace_tools(work, shell=False), **options)
    messages = agent.run("Go.").messages
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_name_stays_as_it_is(name):
    assert quoted_path(name) == name
    assert unquoted_path(name) == name


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_odd_name_is_quoted_and_read_back(name):
    assert quoted_path(name) == ODD[name]
    for quoted in (ODD[name], quoted_path(f"a/{name}"), f"a/{ODD[name]}"):
        assert unquoted_path(quoted).removeprefix("a/") == name


def test_name_as_git_lists_it_is_read_back(work):
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    (work / "sub" / "进度.txt").touch()
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=work, check=True, capture_output=True, text=True
    )
    listed = {unquoted_path(line[3:]) for line in status.stdout.splitlines()}
    assert listed == {f"sub/{name}" for name in (*ODD, "进度.txt")}


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_every_tool_lists_the_name_and_reads_it_back(work, name):
    quoted = quoted_path(f"sub/{name}")
    calls = [
        call("list_dir", path="sub"),
        call("glob", pattern="**/*.txt"),
        call("grep", pattern="needle"),
        call("read_file", path=quoted),
        call("edit_file", path=f"sub/{ODD[name]}", old_text="needle", new_text="thread"),
        call("write_file", path=quoted_path(f"new/{name}"), content="made"),
        call("read_file", path=quoted_path(f"sub/{name}x")),
    ]
    listed, globbed, found, read, edited, written, missing = results(work, *calls)
    assert f"{ODD[name]} " in listed
    assert quoted in globbed.splitlines()
    assert f"{quoted}:1:needle" in found.splitlines()
    assert "needle" in read
    assert quoted in edited
    assert quoted_path(f"new/{name}") in written
    assert quoted in missing
    assert (work / "sub" / name).read_text() == "thread\n"
    assert (work / "new" / name).read_text() == "made"


def test_rule_about_a_name_holds_for_its_quoted_form(work):
    rules = PermissionRules(deny=["read_file(path=sub/new*)"])
    refused, other = results(
        work,
        call("read_file", path=r'"sub/new\nline.txt"'),
        call("read_file", path=r'"sub/caf\351.txt"'),
        permission_rules=rules,
    )
    assert "needle" not in refused
    assert "needle" in other


def test_list_behind_at_offers_odd_names_that_attach_the_file(work):
    (work / "my shot\n1.png").touch()
    (work / "my shot.png").touch()
    offered = [candidate.name for candidate in InputCompletions(work, list, None).of("@shot")]
    assert offered == ['"my shot.png"', r'"my shot\n1.png"']
    attached = media_named("see " + " ".join(f"@{name}" for name in offered), work)
    assert {path.name for path in attached} == {"my shot.png", "my shot\n1.png"}
