"""A rule speaks of what a call does, however the model writes it."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from tests.helpers import tool_texts

from pure_agent_loop import Agent, PermissionRules, tool
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools


def pay_tool(done):
    @tool
    def pay(
        amount: float,
        count: int = 1,
        now: bool = False,
        to: Literal["ann", "bob"] = "ann",
        tags: list[str] | None = None,
    ) -> str:
        """Pay."""
        done.append((amount, count, now, to, tags))
        return "paid"

    return pay


@pytest.mark.parametrize(
    ("rule", "args"),
    [
        ("pay(amount=100)", {"amount": 100}),
        ("pay(amount=100)", {"amount": 100.0}),
        ("pay(amount=100)", {"amount": "100"}),
        ("pay(amount=100)", {"amount": " 1e2 "}),
        ("pay(amount=100.0)", {"amount": 100}),
        ("pay(amount=10?)", {"amount": "1_00"}),
        ("pay(count=1)", {"amount": 5}),
        ("pay(count=1)", {"amount": 5, "count": None}),
        ("pay(to=ann)", {"amount": 5}),
        ("pay(now=False)", {"amount": 5}),
        ("pay(now=True)", {"amount": 5, "now": True}),
        ("pay(now=true)", {"amount": 5, "now": "on"}),
        ("pay(now=true)", {"amount": 5, "now": 1}),
        ("pay(tags=*secret*)", {"amount": 5, "tags": '["secret"]'}),
        ('pay(tags=["a", "b"])', {"amount": 5, "tags": '["a","b"]'}),
        ("pay(tags=null)", {"amount": 5}),
        ("pay(amount=5, to=ann)", {"amount": "5"}),
    ],
)
def test_a_call_that_a_rule_forbids_is_found_in_each_of_its_forms(rule, args):
    done, script = [], [call("pay", **args), "x"]
    Agent(llm=ScriptedLLM(script), tools=[pay_tool(done)], permission_rules=PermissionRules(deny=[rule])).run(
        "go"
    )
    assert done == []
    Agent(
        llm=ScriptedLLM(script),
        tools=[pay_tool(done)],
        permission_mode="ask",
        permission_rules=PermissionRules(allow=[rule]),
    ).run("go")
    assert len(done) == 1


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work" / "secret").mkdir(parents=True)
    (tmp_path / "work" / "docs").mkdir()
    (tmp_path / "work" / "secret" / "x").write_text("hush")
    (tmp_path / "work" / "docs" / "x").write_text("hello")
    (tmp_path / "work" / "docs" / "way").symlink_to("../secret")
    (tmp_path / "other").symlink_to("work")
    return tmp_path


PATHS = [
    "secret/x",
    "./secret//x",
    "docs/../secret/x",
    "docs/way/x",
    "{folder}/work/secret/x",
    "{folder}/work/docs/way/x",
    "{folder}/work/../work/secret/x",
    "//{folder}/work/secret/x",
    "{folder}/other/secret/x",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("given", ["work", "other"])
@pytest.mark.parametrize(
    "rule",
    [
        "read_file(secret/*)",
        "read_file(path=secret/*)",
        "read_file(path=./secret/*)",
        "read_file({folder}/work/secret/*)",
    ],
)
def test_path_is_resolved_before_it_is_matched(folder, path, given, rule):
    deny = [rule.format(folder=folder)]
    script = [call("read_file", path=path.format(folder=folder)), "x"]
    tools = workspace_tools(folder / given, shell=False)
    result = Agent(llm=ScriptedLLM(script), tools=tools, permission_rules=PermissionRules(deny=deny)).run(
        "go"
    )
    assert "hush" not in str(result.messages)


def test_allowed_path_cannot_lead_elsewhere(folder):
    def asked(path):
        made = Agent(
            llm=ScriptedLLM([call("write_file", path=path.format(folder=folder), content="y"), "x"]),
            tools=workspace_tools(folder / "other", shell=False),
            permission_mode="ask",
            permission_rules=PermissionRules(allow=["write_file(path=docs/*)"]),
        )
        result = made.run("go")  # a path through a link cannot be written, so nobody is asked
        return result.stop_reason == "waiting_permission" or "WorkspaceError" in str(result.messages)

    assert [asked(path) for path in PATHS] == [True] * len(PATHS)
    assert not asked("docs/y")
    assert not asked("{folder}/work/docs/y")
    assert not asked("{folder}/other/docs/y")


def test_resolved_path_is_recorded(folder, tmp_path):
    store = JsonlStore(tmp_path / "sessions")
    Agent(
        llm=ScriptedLLM([call("read_file", path="docs/way/x"), "x"]),
        tools=workspace_tools(folder / "work", shell=False),
        permission_rules=PermissionRules(deny=["read_file(secret/*)"]),
        sessions=store,
    ).run("go", session_id="s")
    (folder / "work" / "docs" / "way").unlink()
    report = replay_session(store.read("s").records)
    assert report.difference is None
    assert json.dumps("secret/x") in json.dumps([each.data for each in store.read("s").records])


def test_the_reason_names_the_rule(folder):
    result = Agent(
        llm=ScriptedLLM([call("read_file", path=str(folder / "work" / "secret" / "x")), "x"]),
        tools=workspace_tools(folder / "work", shell=False),
        permission_rules=PermissionRules(deny=["read_file(secret/*)"]),
    ).run("go")
    assert "read_file(secret/*)" in tool_texts(result.messages)[0]
