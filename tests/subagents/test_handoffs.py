"""Handing a conversation over: two loops in one run, in memory and in sessions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.helpers import check_events

from pure_agent_loop import (
    Agent,
    Budget,
    ConfigError,
    EventType,
    Handoff,
    Hooks,
    LoopLimits,
    PermissionRules,
    QueryState,
    Retry,
    tool,
)
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, assert_replays, call

ROOT = Path(__file__).parents[2]


@tool
def refund(order: int) -> str:
    """Give the money back."""
    return f"{order} is refunded"


def pair(first=("transfer",), second=("It is done.",), reads="all", billing=None, **options):
    """A triage agent that hands over to billing."""
    script = [call("transfer_to_billing") if each == "transfer" else each for each in first]
    other = Agent(
        llm=ScriptedLLM(second), name="billing", system_prompt="You bill.", tools=[refund], **(billing or {})
    )
    return Agent(
        llm=ScriptedLLM(script),
        name="triage",
        system_prompt="You sort.",
        handoffs=[Handoff(other, "For money.", reads)],
        **options,
    )


def other_of(agent):
    return agent.handoffs["billing"].agent


def loops(events):
    """The events of each loop."""
    found = []
    for event in events:
        if event.type is EventType.LOOP_START:
            found.append([])
        found[-1].append(event)
    return found


def test_one_loop_ends_and_the_next_one_begins():
    agent = pair(second=[call("refund", order=7), "It is done."])
    result = agent.run("I want my money.")
    assert (result.content, result.stop_reason, result.agent) == ("It is done.", "completed", "billing")
    assert (result.previous.stop_reason, result.previous.agent, result.previous.previous) == (
        "handed_off",
        "billing",
        None,
    )
    first, second = loops(result.events)
    check_events(first)
    check_events(second, first_step=2)
    assert first == result.previous.events
    assert (first[0].data["agent"], second[0].data) == (
        "triage",
        {"task": "I want my money.", "agent": "billing"},
    )
    assert first[-1].data["stop_reason"] == "handed_off"
    assert "handed over to the agent 'billing'" in second[1].content
    assert result.steps == 3
    assert result.usage.total_tokens == 45
    request = other_of(agent).llm.requests[0]
    assert request.messages[0]["content"] == "You bill."
    assert [each["role"] for each in request.messages] == ["system", "user", "assistant", "tool"]
    assert [each["function"]["name"] for each in request.tools] == ["refund"]
    offered = agent.llm.requests[0].tools[0]["function"]
    assert offered["name"] == "transfer_to_billing"
    assert "For money." in offered["description"]


@pytest.mark.parametrize(
    ("reads", "roles"),
    [
        ("all", ["user", "assistant", "tool"]),
        ("no_tools", ["user"]),
        ("task", ["user"]),
        (lambda messages: [{"role": "user", "content": "short"}], ["user"]),
        (lambda messages: messages[-1:], ["user"]),  # a result without its call is repaired
    ],
)
def test_the_history_is_filtered_as_said(reads, roles, tmp_path):
    agent = pair(reads=reads, sessions=JsonlStore(tmp_path))
    result = agent.run("Hi.", session_id="s")
    seen = other_of(agent).llm.requests[0].messages[1:]
    assert len(seen) <= len(roles) or [each["role"] for each in seen] == roles
    assert result.content == "It is done."
    assert_replays(tmp_path / "s.jsonl")


def test_filter_gets_a_copy_and_its_failure_is_reported(tmp_path):
    def spoil(messages):
        messages[0]["content"] = "spoilt"
        raise ValueError("no")

    result = pair(reads=spoil).run("Hi.")
    assert result.stop_reason == "error"
    assert "ValueError" in next(each for each in result.events if each.type is EventType.ERROR).content
    assert result.messages[0]["content"] == "Hi."
    assert result.events[-1].type is EventType.LOOP_END
    assert "Handoff.filter must return a list" in pair(reads=lambda messages: "junk").run("Hi.").error


def test_tools_of_a_run_leave_its_handoffs():
    assert pair().run("Refund 7.", tools=[]).content == "It is done."


def test_streams_show_both():
    types = [event.type for event in pair().run_stream("Hi.")]
    assert types.count(EventType.LOOP_START) == types.count(EventType.LOOP_END) == 2


def test_the_words_are_those_of_the_language():
    agent = pair(language="zh")
    agent.run("你好")
    assert agent.llm.requests[0].tools[0]["function"]["description"].startswith("把对话移交给代理 'billing'")
    assert "对话已移交" in other_of(agent).llm.requests[0].messages[-1]["content"]


# -- what holds for both -------------------------------------------------------------------------------


def test_rules_hooks_functions_and_audit_of_the_first_hold_in_the_second(tmp_path):
    seen = []
    mine, theirs = AuditLog(tmp_path / "a"), AuditLog(tmp_path / "b")
    agent = pair(
        second=[call("refund", order=1), call("refund", order=2), "It is done."],
        permission_rules=PermissionRules(deny=["refund(order=1)"], shared=True),
        can_use_tool=lambda name, args, context: seen.append(("may", name)) or "allow",
        hooks=Hooks(before_tool=[lambda name, args, context: seen.append(("hook", name))]),
        audit=mine,
        billing={
            "audit": theirs,
            "can_use_tool": lambda name, args, context: seen.append(("own", name)) or "allow",
        },
    )
    result = agent.run("Go.")
    texts = [each["content"] for each in result.messages if each["role"] == "tool"]
    assert "refund(order=1)" in texts[1]
    assert texts[2] == "2 is refunded"
    assert seen[2:] == [("hook", "refund"), ("hook", "refund"), ("may", "refund"), ("own", "refund")]
    for log in (mine, theirs):
        assert "refund" in "".join(path.read_text() for path in Path(log.path).rglob("*.jsonl"))


def test_the_narrower_mode_and_the_refusal_of_either_hold():
    for options, billing in (
        ({"permission_mode": "plan"}, {}),
        ({}, {"permission_mode": "plan"}),
        ({"can_use_tool": lambda name, args, context: name != "refund"}, {"can_use_tool": lambda *_: True}),
        ({"can_use_tool": lambda *_: True}, {"can_use_tool": lambda *_: False}),
    ):
        result = pair(second=[call("refund", order=1), "No."], billing=billing, **options).run("Go.")
        assert "is refunded" not in str(result.messages), (options, billing)


def test_limits_and_budgets_are_shared():
    agent = pair(second=[call("refund", order=n) for n in range(9)], limits=LoopLimits(max_turns=3))
    result = agent.run("Go.")
    assert (result.stop_reason, result.steps) == ("max_steps", 3)
    mine, theirs = Budget(max_tool_calls=2), Budget(max_tokens=1000)
    agent = pair(
        second=[call("refund", order=n) for n in (1, 2)] + ["x"], budget=mine, billing={"budget": theirs}
    )
    result = agent.run("Go.")
    assert result.stop_reason == "budget"
    assert mine.tool_calls == 2
    assert (mine.tokens, theirs.tokens) == (result.usage.total_tokens, result.usage.total_tokens - 15)


def ring(llm, **options):
    """Two agents that hand over to each other."""
    one = Agent(llm=llm, name="one", system_prompt="one", **options)
    two = Agent(llm=llm, name="two", system_prompt="two", handoffs=[one])
    one.add_handoff(two)
    return one


def test_ping_pong_ends():
    def always(messages, tools, options):
        names = [each["function"]["name"] for each in tools or () if "transfer" in each["function"]["name"]]
        may = names and options.get("tool_choice") != "none"
        return call(names[0]) if may else "Enough."

    result = ring(ScriptedLLM(always)).run("Go.")
    assert (result.content, result.stop_reason, result.steps) == ("Enough.", "completed", 9)
    assert result.state.handed_to == ["two", "one"] * 4


def test_of_two_handoffs_in_one_answer_the_first_counts():
    a, b = (Agent(llm=ScriptedLLM([name]), name=name) for name in "ab")
    llm = ScriptedLLM([[call("transfer_to_a"), call("transfer_to_b")]])
    result = Agent(llm=llm, handoffs=[a, b]).run("Go.")
    assert (result.content, result.agent) == ("a", "a")


@pytest.mark.parametrize(
    ("handoffs", "words"),
    [
        ([lambda: Agent(llm=ScriptedLLM([]))], "needs a name"),
        ([lambda: "billing"], "must be an Agent or a Handoff"),
        ([lambda: Agent(llm=ScriptedLLM([]), name="me")], "two agents have the name 'me'"),
        ([lambda: Agent(llm=ScriptedLLM([]), name="x")] * 2, "two agents have the name 'x'"),
    ],
)
def test_invalid_handoff_target_is_rejected(handoffs, words):
    with pytest.raises(ConfigError, match=words):
        Agent(llm=ScriptedLLM([]), name="me", handoffs=[make() for make in handoffs])
    with pytest.raises(ConfigError, match=r"Handoff.filter='some'"):
        Handoff(Agent(llm=ScriptedLLM([]), name="x"), filter="some")


# -- going on ------------------------------------------------------------------------------------------


def test_state_resumes_with_the_agent_in_charge():
    agent = pair(
        second=[call("refund", order=1), "It is done.", "And more."],
        billing={"permission_rules": PermissionRules(ask=["refund"])},
    )
    result = agent.run("Go.")
    assert result.stop_reason == "waiting_permission"
    state = QueryState.from_dict(json.loads(json.dumps(result.state.to_dict())))
    state.answer_permission(result.questions[0].call_id, "allow")
    result = agent.run(None, state=state)
    assert (result.content, result.agent) == ("It is done.", "billing")
    more = agent.run("More?", state=result.state)
    assert (more.content, more.agent) == ("And more.", "billing")
    assert other_of(agent).llm.requests[-1].messages[0]["content"] == "You bill."
    stranger = Agent(llm=ScriptedLLM([]), name="other")
    with pytest.raises(ConfigError, match="handed over to 'billing'"):
        stranger.run(None, state=result.state)


def test_session_resumes_with_the_agent_in_charge_and_is_replayed(tmp_path):
    store = JsonlStore(tmp_path)
    agent = pair(second=[call("refund", order=1), "Done.", "Again."], sessions=store)
    agent.run("Go.", session_id="s")
    assert agent.run("More.", session_id="s").content == "Again."
    records = store.read("s").records
    runs = [each.data for each in records if each.type == "run"]
    assert [each.get("handoff") for each in runs] == [None, "billing", None]
    assert [each["system_prompt"] for each in runs] == ["You sort.", "You bill.", "You bill."]
    assert str(replay_session(records)) == "3 runs, 4 steps: identical"
    assert str(replay_session(records, agent=agent)) == "3 runs, 4 steps: identical"
    changed = pair(billing={"temperature": 0.1})
    assert replay_session(records, agent=changed).difference.run == 2


def test_handoff_killed_anywhere_resumes_and_repeats_nothing(tmp_path):
    done = []

    @tool
    def act(n: int) -> str:
        """Do something once."""
        done.append(n)
        return f"did {n}"

    def agent(folder, reads):
        def first(messages, tools, options):
            return call("transfer_to_two") if "did 1" in str(messages) else call("act", n=1)

        def second(messages, tools, options):
            return "end" if "did 2" in str(messages) else call("act", n=2)

        two = Agent(llm=ScriptedLLM(second), name="two", system_prompt="two", tools=[act])
        return Agent(
            llm=ScriptedLLM(first),
            name="one",
            system_prompt="one",
            tools=[act],
            handoffs=[Handoff(two, filter=reads)],
            sessions=JsonlStore(folder),
        )

    for reads in ("all", "no_tools"):
        whole = tmp_path / reads
        agent(whole, reads).run("Go.", session_id="s")
        assert done == [1, 2]
        lines = (whole / "s.jsonl").read_text().splitlines(keepends=True)
        for number in range(2, len(lines) + 1):
            folder = tmp_path / f"{reads}{number}"
            folder.mkdir()
            (folder / "s.jsonl").write_text("".join(lines[:number]))
            outcomes = "".join(lines[:number]).count('"text":"did')
            done.clear()
            result = agent(folder, reads).run(None, session_id="s")
            assert result.content == "end", (reads, number)
            assert done in ([1, 2], [2], [])[outcomes:], (reads, number, done)
            assert_replays(folder / "s.jsonl")
        done.clear()


PROGRAM = """
import os, sys
from pure_agent_loop import Agent, OpenAIClient, tool

@tool
def act(n: int) -> str:
    "Do something."
    with open(sys.argv[2], "a") as file:
        file.write(f"{n}\\n")
    if n == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
    return f"did {n}"

def client(name):
    return OpenAIClient(name, api_key="k", base_url=sys.argv[1])

two = Agent(llm=client("two"), name="two", system_prompt="two", tools=[act])
one = Agent(llm=client("one"), name="one", system_prompt="one", tools=[act], handoffs=[two])
found = one.run(sys.argv[4] or None, session_id="s")
print(found.agent, found.content, found.stop_reason)
"""


@pytest.mark.parametrize("kill_at", [1, 2])
def test_run_killed_in_either_loop_resumes(tmp_path, kill_at):
    def serve(request):
        results = sum(each["role"] == "tool" for each in request.messages)
        if request.body["model"] == "one":
            return [call("act", n=1), call("transfer_to_two")][min(results, 1)]
        return call("act", n=2) if results < 3 else "end"

    marks = tmp_path / "marks"
    with ScriptedServer(handler=serve) as server:

        def run(kill, task):
            words = [sys.executable, "-c", PROGRAM, server.base_url, str(marks), str(kill), task]
            env = {**os.environ, "PAL_HOME": str(tmp_path / "home")}
            return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)

        assert run(kill_at, "Go.").returncode == -signal.SIGKILL
        done = run(0, "")
    assert done.stdout == "two end completed\n", done.stderr
    assert marks.read_text().split() == ["1", "2"]
    assert_replays(tmp_path / "home" / "sessions" / "s.jsonl")


@dataclass
class Bill:
    amount: int


def check_three(bill: Bill) -> None:
    if bill.amount != 3:
        raise Retry("it is three")


def test_last_agent_determines_the_output():
    """Its own output type and its own checks hold, those of the first one do not."""
    agent = pair(
        second=['{"amount": 4}', '{"amount": 3}'], billing={"output_type": Bill}, output_type=list[str]
    )
    other_of(agent).output_check(check_three)
    assert agent.run("x").output == Bill(3)
    assert pair(output_type=Bill).run("x").output == "It is done."
    failed = pair(second=["no"], billing={"output_type": Bill, "output_retries": 0}).run("x")
    assert (failed.output, failed.stop_reason, failed.agent) == (None, "invalid_output", "billing")


def test_an_output_type_of_the_run_holds_for_whoever_ends_it():
    agent = pair(second=['{"amount": 3}', '{"amount": 4}'], billing={"output_type": int})
    first = agent.run("x", output_type=Bill)
    assert first.output == Bill(3)
    assert agent.run("y", state=first.state, output_type=Bill).output == Bill(4)  # billing is in charge


def test_an_override_of_the_other_agent_holds_in_the_run_of_the_first():
    agent = pair()
    with other_of(agent).override(llm=ScriptedLLM(["From a test."]), deps="mine"):
        assert agent.run("x", deps="theirs").content == "From a test."
    assert pair().run("x").content == "It is done."
