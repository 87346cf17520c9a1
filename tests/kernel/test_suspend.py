"""A run that waits for a person: saved at the question, answered anywhere, finished once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import E, check_result, of_type, tool_texts, types

import pure_agent_loop
from pure_agent_loop import Agent, ConfigError, LoopLimits, Permission, PermissionRules, QueryState, tool
from pure_agent_loop.hooks import BeforeTool, Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM, call, check_history

ROOT = Path(__file__).parents[2]
SUSPENDED = "waiting_permission"


class Office:
    """Agents around one tool, and what it did."""

    def __init__(self):
        self.done = []

    def agent(self, script, **options):
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.done.append(amount)
            return f"paid {amount}"

        @tool(read_only=True)
        async def look(what: str = "") -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        return Agent(llm=ScriptedLLM(script), tools=[pay, look], permission_mode="ask", **options)

    def to_the_question(self, calls, **options):
        result = check_result(self.agent([calls], **options).run("Pay the bills."))
        assert result.stop_reason == SUSPENDED
        return result


def same(state):
    return state


def plain(state):
    return state.to_dict()


def through_json(state):
    return json.loads(json.dumps(state.to_dict(), allow_nan=False))


WAYS = [same, plain, through_json]
TWO = [call("pay", amount=1), call("look"), call("pay", amount=2)]


@pytest.fixture
def office():
    return Office()


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_suspended_answered_and_finished(office, way):
    first = office.to_the_question(TWO)
    assert office.done == []
    assert [(q.call_id, q.tool, q.args, q.step) for q in first.questions] == [
        ("call_1", "pay", {"amount": 1}, 1),
        ("call_3", "pay", {"amount": 2}, 1),
    ]
    first.state.answer_permission("call_1", "allow")
    first.state.answer_permission("call_3", Permission("deny", "Too much."))
    assert first.questions == []
    second = check_result(office.agent(["Paid 1."]).run(None, state=way(first.state)))
    assert sorted(map(str, office.done)) == ["1", "look"]
    texts = tool_texts(second.messages)
    assert texts[:2] == ["paid 1", "seen"]
    assert "Too much." in texts[2]
    assert (second.content, second.stop_reason, second.steps) == ("Paid 1.", "completed", 2)
    assert second.state.permissions.denied
    assert types(second.events)[:4] == ["loop_start", "action", "action", "action"]


def test_the_history_is_valid_while_it_waits(office):
    first = office.to_the_question(TWO)
    assert check_history(first.messages) == []
    assert tool_texts(first.messages) == [ENGLISH.tool_waiting] * 3
    assert first.messages == first.events[-1].data["messages"]
    assert first.content == ""
    assert "step_end" not in types(first.events)


def test_the_state_that_is_handed_over_is_not_changed(office):
    first = office.to_the_question(TWO)
    before = through_json(first.state)
    office.agent([]).run(None, state=first.state)
    assert through_json(first.state) == before


def test_updated_arguments_of_an_answer_are_used(office):
    first = office.to_the_question([call("pay", amount=100)])
    first.state.answer_permission("call_1", Permission("allow", updated_args={"amount": 10}))
    second = check_result(office.agent(["ok"]).run(None, state=through_json(first.state)))
    assert office.done == [10]
    assert of_type(second.events, E.ACTION)[0].data["args"] == {"amount": 10}


def test_updated_arguments_of_an_answer_do_not_pass_a_deny_rule(office):
    rules = PermissionRules(deny=["pay(amount=10)"])
    first = office.to_the_question([call("pay", amount=100)], permission_rules=rules)
    first.state.answer_permission("call_1", Permission("allow", updated_args={"amount": 10}))
    second = check_result(office.agent(["ok"], permission_rules=rules).run(None, state=first.state))
    assert office.done == []
    assert "PermissionDenied" in tool_texts(second.messages)[0]


def test_an_answer_with_interrupt_ends_the_resumed_run(office):
    first = office.to_the_question([call("pay", amount=1)])
    first.state.answer_permission("call_1", Permission("deny", "Stop.", interrupt=True))
    second = check_result(office.agent(["I stop."]).run(None, state=through_json(first.state)))
    assert (second.stop_reason, office.done) == ("permission_denied", [])
    assert second.content.startswith("I stop.\n\n[Stopped:")


def test_always_holds_for_the_other_question_and_after_the_resume(office):
    first = office.to_the_question(TWO)
    first.state.answer_permission("call_1", Permission("allow", always=True))
    script = [call("pay", amount=3), "ok"]
    second = check_result(office.agent(script).run(None, state=through_json(first.state)))
    assert [paid for paid in office.done if paid != "look"] == [1, 2, 3]
    assert second.stop_reason == "completed"


def test_partly_answered_it_waits_on_and_runs_nothing(office):
    first = office.to_the_question(TWO)
    first.state.answer_permission("call_3", "allow")
    second = office.agent([]).run(None, state=through_json(first.state))
    check_result(second)
    assert (second.stop_reason, office.done) == (SUSPENDED, [])
    assert [q.call_id for q in second.questions] == ["call_1"]
    second.state.answer_permission("call_1", "allow")
    third = check_result(office.agent(["ok"]).run(None, state=second.state))
    assert sorted(map(str, office.done)) == ["1", "2", "look"]
    assert third.stop_reason == "completed"


def test_open_question_may_be_repeated_in_the_resumed_run(office):
    asked = []

    def ask(request):
        asked.append(request.call_id)
        return "allow"

    first = office.to_the_question(TWO)
    first.state.answer_permission("call_1", "allow")
    second = check_result(office.agent(["ok"], on_ask=ask).run(None, state=first.state))
    assert (asked, second.stop_reason) == (["call_3"], "completed")


@pytest.mark.parametrize("call_id", ["call_2", "call_9", "", None])
def test_answers_to_nothing_are_refused(office, call_id):
    first = office.to_the_question(TWO)
    with pytest.raises(ConfigError, match=r"has no pending question.*Pending: call_1, call_3"):
        first.state.answer_permission(call_id, "allow")
    assert len(first.questions) == 2


@pytest.mark.parametrize(
    "verdict",
    ["ask", Permission("ask"), "yes", None, 1, Permission("yes"), Permission("allow", updated_args=5)],
)
def test_invalid_answer_is_rejected(office, verdict):
    first = office.to_the_question([call("pay", amount=1)])
    with pytest.raises(ConfigError):
        first.state.answer_permission("call_1", verdict)
    assert len(first.questions) == 1


def test_an_answer_is_given_once(office):
    first = office.to_the_question([call("pay", amount=1)])
    first.state.answer_permission("call_1", "deny")
    with pytest.raises(ConfigError, match="Pending: none"):
        first.state.answer_permission("call_1", "allow")


@pytest.mark.parametrize("answered", [False, True])
def test_a_new_task_instead_leaves_the_calls_undone(office, answered):
    first = office.to_the_question([call("pay", amount=1)])
    if answered:
        first.state.answer_permission("call_1", "allow")
    saved = through_json(first.state)
    second = check_result(office.agent(["Hello."]).run("Say hello instead.", state=saved), first_step=2)
    assert (office.done, second.content) == ([], "Hello.")
    assert tool_texts(second.messages) == [ENGLISH.tool_not_started]
    assert second.messages[-2] == {"role": "user", "content": "Say hello instead."}


def test_messages_that_had_come_in_are_held(office):
    inbox = Inbox()

    def before(name, args, context):
        inbox.steer("hurry up")
        inbox.follow_up("then rest")
        return BeforeTool(context="the bank is open")

    agent = office.agent([[call("pay", amount=1)]], hooks=Hooks(before))
    first = check_result(agent.run("Pay.", inbox=inbox))
    assert inbox.take(at_end=True) == []
    first.state.answer_permission("call_1", "allow")
    llm = ScriptedLLM(["Paid.", "Resting."])
    agent = Agent(llm=llm, tools=office.agent([]).tools)
    second = check_result(agent.run(None, state=through_json(first.state)))
    said = [[m["content"] for m in request.messages if m["role"] == "user"] for request in llm.requests]
    assert said[0] == ["Pay.", "the bank is open", "hurry up"]
    assert said[1] == ["Pay.", "the bank is open", "hurry up", "then rest"]
    assert (second.content, second.state.held) == ("Resting.", [])


def test_parts_go_on_where_they_stood(office):
    first = office.to_the_question([call("pay", amount=1), call("pay", amount=2)])
    first.state.answer_permission("call_1", "allow")
    first.state.answer_permission("call_2", "deny")
    second = office.agent(["ok"]).run(None, state=through_json(first.state))
    steps = {}
    for event in of_type([*first.events, *second.events], E.PART):
        part = event.data["part"]
        if part["type"] == "tool":
            steps.setdefault((part["id"], part["message_id"], part["call_id"]), []).append(part["state"])
    assert list(steps.values()) == [["pending", "running", "completed"], ["pending", "error"]]
    assert len({message_id for _, message_id, _ in steps}) == 1


def test_limits_are_not_forgotten_over_a_question(office):
    limits = LoopLimits(max_turns=2, max_steps=1)
    first = office.to_the_question([call("pay", amount=1)], limits=limits)
    first.state.answer_permission("call_1", "allow")
    script = [call("look"), "enough"]
    second = check_result(office.agent(script, limits=limits).run(None, state=through_json(first.state)))
    assert second.stop_reason == "max_steps"
    assert [event.step for event in of_type(second.events, E.SOFT_LIMIT)] == [2]


# -- another process --------------------------------------------------------------------------------


PROGRAM = '''
import json, os, sys
from pathlib import Path
from pure_agent_loop import Agent, tool
from pure_agent_loop.testing import ScriptedLLM, call

part, folder = sys.argv[1], Path(sys.argv[2])

@tool
def pay(amount: int) -> str:
    """Pay."""
    with open(folder / "paid.txt", "a") as file:
        file.write(f"{amount} in {os.getpid()}\\n")
    return f"paid {amount}"

@tool(read_only=True)
def look() -> str:
    """Look."""
    with open(folder / "paid.txt", "a") as file:
        file.write(f"look in {os.getpid()}\\n")
    return "seen"

question = [call("pay", amount=1), call("look"), call("pay", amount=2), call("pay", amount=3)]
script = [[call("look")], question] if part == "ask" else ["Paid 1 and 3."]
agent = Agent(llm=ScriptedLLM(script), tools=[pay, look], permission_mode="ask")
if part == "ask":
    result = agent.run("Pay the bills.")
    (folder / "state.json").write_text(json.dumps(result.state.to_dict(), allow_nan=False))
else:
    saved = json.loads((folder / "state.json").read_text())
    from pure_agent_loop import QueryState
    state = QueryState.from_dict(saved)
    for request in state.questions:
        state.answer_permission(request.call_id, "deny" if request.args == {"amount": 2} else "allow")
    result = agent.run(None, state=state)
print(json.dumps([os.getpid(), result.stop_reason, result.content, result.messages, result.steps]))
'''


def in_a_process(part, folder):
    source = str(Path(pure_agent_loop.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, part, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_stopped_at_a_question_in_one_process_is_answered_and_finished_in_another(tmp_path):
    asker, reason, _, messages, _ = in_a_process("ask", tmp_path)
    assert reason == SUSPENDED
    assert check_history(messages) == []
    paid = tmp_path / "paid.txt"
    assert paid.read_text().splitlines() == [f"look in {asker}"]
    saved = QueryState.from_dict(json.loads((tmp_path / "state.json").read_text()))
    assert [question.args for question in saved.questions] == [{"amount": n} for n in (1, 2, 3)]

    finisher, reason, content, messages, steps = in_a_process("finish", tmp_path)
    assert asker != finisher
    assert (reason, content, steps) == ("completed", "Paid 1 and 3.", 3)
    assert check_history(messages) == []
    texts = tool_texts(messages)
    assert [*texts[:3], texts[4]] == ["seen", "paid 1", "seen", "paid 3"]
    assert "not allowed" in texts[3]
    assert sorted(paid.read_text().splitlines()) == sorted(
        [f"look in {asker}", f"1 in {finisher}", f"look in {finisher}", f"3 in {finisher}"]
    )
