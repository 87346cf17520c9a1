"""What nobody approved runs so that it can change nothing; a person is asked only if that was not enough."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
from pathlib import Path

import pytest
from tests.toolbox.sandbox_ground import require_tools, system_python

from pure_agent_loop import Agent, Permission, PermissionRules
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import Shell, ShellPolicy
from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.launch import Unconfined
from pure_agent_loop.toolbox.sandbox.process import run_process

MODES = ["bubblewrap", "landlock"]


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


@pytest.fixture(params=MODES)
def shell(request, tmp_path):
    return Shell(tmp_path, sandbox=request.param)


def judged(shell, command, context=None, **args):
    found = shell.judge({"command": command, **args}, context or JudgeContext(attended=True))
    return asyncio.run(found) if inspect.iscoroutine(found) else found


def agent(shell, *commands, answer=None, **options):
    script = [call("shell", **({"command": each} if isinstance(each, str) else each)) for each in commands]
    asked = []

    def on_ask(request):
        asked.append(request)
        return answer

    options = {"permission_mode": "ask", **({"on_ask": on_ask} if answer else {}), **options}
    return Agent(llm=ScriptedLLM([*script, "done"]), tools=[shell.tool()], **options), asked


def results(result):
    return [each["content"] for each in result.messages if each["role"] == "tool"]


class TestTheFlow:
    def test_what_looks_needs_no_question(self, shell, tmp_path):
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        made, asked = agent(shell, "awk '{ print NR, $0 }' a.txt | sort -r", answer="deny")
        result = made.run("go")
        assert results(result) == ["2 two\n1 one\n[exit code 0]"]
        assert asked == []

    def test_what_changes_is_tried_asked_about_and_then_done_once(self, shell, tmp_path):
        made, asked = agent(shell, "echo x >> log; echo done", answer="allow")
        result = made.run("go")
        assert results(result) == ["done\n[exit code 0]"]
        assert (tmp_path / "log").read_text() == "x\n"
        assert [each.tool for each in asked] == ["shell"]
        assert "tried read-only" in asked[0].reason
        assert "log: " in asked[0].reason

    def test_a_refusal_leaves_everything_as_it_was(self, shell, tmp_path):
        made, _ = agent(shell, "touch made", answer="deny")
        made.run("go")
        assert list(tmp_path.iterdir()) == []

    def test_without_a_person_the_run_waits_and_nothing_has_happened(self, shell, tmp_path):
        made, _ = agent(shell, "touch made")
        assert made.run("go").stop_reason == "waiting_permission"
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_that_nobody_recognises_can_be_asked_about(self, shell, tmp_path):
        hidden = "touch made 2>/dev/null"
        made, asked = agent(shell, hidden, {"command": hidden, "changes": True}, answer="allow")
        first, second = results(made.run("go"))
        assert "changes=true" in first
        assert second == "(no output)\n[exit code 0]"
        assert (tmp_path / "made").exists()
        assert len(asked) == 1
        assert "the model says" in asked[0].reason

    def test_what_failed_for_another_reason_is_no_question(self, shell):
        made, asked = agent(shell, "ls nowhere", "false", answer="allow")
        assert len(results(made.run("go"))) == 2
        assert asked == []

    def test_a_function_that_agrees_agrees_to_no_more_than_was_suggested(self, shell, tmp_path):
        seen = []

        def can_use_tool(name, args, context):
            seen.append((context.suggestion, context.read_only))
            return "allow"

        hidden = "touch made 2>/dev/null; true"
        made, _ = agent(shell, hidden, "touch made", can_use_tool=can_use_tool)
        first, second = results(made.run("go"))
        assert seen == [("allow", True), ("ask", False)]
        assert first == "(no output)\n[exit code 0]"
        assert second == "(no output)\n[exit code 0]"
        assert (tmp_path / "made").exists()

    def test_arguments_of_the_function_are_its_own_decision(self, shell, tmp_path):
        args = {"command": "touch other"}
        made, _ = agent(shell, "ls", can_use_tool=lambda *_: Permission("allow", updated_args=args))
        made.run("go")
        assert (tmp_path / "other").exists()

    def test_always_means_that_the_tool_is_approved(self, shell, tmp_path):
        answer = Permission("allow", always=True)
        made, asked = agent(shell, "touch a", "touch b 2>/dev/null", answer=answer)
        made.run("go")
        assert len(asked) == 1
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]

    @pytest.mark.parametrize("mode", ["auto", "bypass"])
    def test_these_modes_approve(self, shell, tmp_path, mode):
        made, _ = agent(shell, "touch made", permission_mode=mode)
        made.run("go")
        assert (tmp_path / "made").exists()

    def test_a_rule_for_the_whole_tool_approves(self, shell, tmp_path):
        made, _ = agent(shell, "touch made", permission_rules=PermissionRules(allow=["shell"]))
        made.run("go")
        assert (tmp_path / "made").exists()

    def test_plan_mode_looks_and_changes_nothing(self, shell, tmp_path):
        rules = PermissionRules(allow=["shell(touch *)"])
        made, asked = agent(
            shell, "pwd", "touch made", answer="allow", permission_mode="plan", permission_rules=rules
        )
        first, second = results(made.run("go"))
        assert first == f"{tmp_path.resolve()}\n[exit code 0]"
        assert "[plan mode" in second
        assert asked == []
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("mode", ["ask", "auto", "plan", "bypass"])
    def test_what_is_denied_is_denied_in_every_mode(self, shell, tmp_path, mode):
        rules = PermissionRules(deny=["shell(touch *)"])
        made, _ = agent(shell, "env touch made", permission_mode=mode, permission_rules=rules)
        assert "deny rule" in results(made.run("go"))[0]
        assert list(tmp_path.iterdir()) == []

    def test_an_ask_rule_asks_without_a_try(self, shell, tmp_path):
        made, asked = agent(shell, "pwd", answer="deny", permission_rules=PermissionRules(ask=["shell(pwd)"]))
        made.run("go")
        assert len(asked) == 1

    def test_a_try_takes_no_longer_than_the_run_may(self, shell):
        found = judged(shell, "sleep 100", JudgeContext(attended=True, seconds=0.2))
        assert found == Permission("allow", "read-only", read_only=True)

    def test_what_was_tried_is_not_run_again(self, shell, tmp_path):
        made, _ = agent(shell, "date +%N; cat /proc/sys/kernel/random/uuid", answer="deny")
        tool = shell.tool()
        found = asyncio.run(shell.judge({"command": "echo $RANDOM"}, JudgeContext(call_id="c1")))
        assert found.read_only
        assert shell._tried_before("echo $RANDOM", "c1") is not None
        assert shell._tried_before("echo $RANDOM", "c1") is None
        assert tool.name == "shell"
