"""Rounds with special calls: alone, corrected, or made elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import E, check_result, of_type, tool_texts

import pure_agent_loop
from pure_agent_loop import Agent, AIClient, ConfigError, Hooks, Retry, SessionManager, Tool, tool
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call

ROOT = Path(__file__).parents[2]
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def run(tools, script, **options):
    return check_result(Agent(llm=ScriptedLLM(script), tools=tools, **options).run("go"))


# -- alone -------------------------------------------------------------------------------------------


def test_an_exclusive_call_runs_alone_in_its_place():
    running, seen = set(), []

    async def work(name, others):
        running.add(name)
        while not others <= running:
            await asyncio.sleep(0)
        seen.append((name, sorted(running)))
        await asyncio.sleep(0)
        running.discard(name)

    @tool
    async def free(n: int) -> str:
        """Free."""
        await work(f"free {n}", {"free 1", "free 2"} if n < 3 else {"free 3"})
        return str(n)

    @tool(exclusive=True)
    async def alone(n: int) -> str:
        """Alone."""
        await work(f"alone {n}", set())
        return str(n)

    calls = [call("free", n=1), call("free", n=2), call("alone", n=3), call("alone", n=4), call("free", n=3)]
    result = run([free, alone], [calls, "done"])
    assert tool_texts(result.messages) == ["1", "2", "3", "4", "3"]
    assert [each for each in seen if each[0].startswith("alone")] == [
        ("alone 3", ["alone 3"]),
        ("alone 4", ["alone 4"]),
    ]
    assert seen[-1] == ("free 3", ["free 3"])
    assert sorted(seen[0][1]) == ["free 1", "free 2"]


# -- corrected ---------------------------------------------------------------------------------------


def picky(**options):
    tried = []

    @tool(**options)
    def pick(n: int) -> str:
        """Pick."""
        tried.append(n)
        if n < 10:
            raise Retry(f"{n} is too small.")
        return f"picked {n}"

    return pick, tried


def test_the_model_is_sent_back_and_corrects_itself():
    pick, tried = picky()
    result = run([pick], [call("pick", n=1), call("pick", n=2), call("pick", n=10), call("pick", n=3), "ok"])
    texts = tool_texts(result.messages)
    assert "Error type: Retry\nError: 1 is too small." in texts[0]
    assert [text.splitlines()[-1] for text in texts] == [
        "Corrections left: 2.",
        "Corrections left: 1.",
        "picked 10",
        "Corrections left: 2.",
    ]
    assert tried == [1, 2, 10, 3]


def test_corrections_have_an_end():
    pick, tried = picky(retries=1)
    script = [call("pick", n=1), call("pick", n=2), call("pick", n=10), "I cannot."]
    result = run([pick], script)
    texts = tool_texts(result.messages)
    assert "refused from now on" in texts[1]
    assert "RetriesUsedUp" in texts[2]
    assert tried == [1, 2]
    again = Agent(llm=ScriptedLLM([call("pick", n=11), "ok"]), tools=[pick]).run("anew", state=result.state)
    assert tool_texts(again.messages)[-1] == "picked 11"


def test_a_tool_may_take_no_correction():
    pick, tried = picky(retries=0)
    run([pick], [call("pick", n=1), call("pick", n=10), "I cannot."])
    assert tried == [1]


def test_idempotent_tool_is_not_retried_with_rejected_arguments():
    pick, tried = picky(idempotent=True)
    run([pick], [call("pick", n=1), "no"], tool_attempts=3, tool_retry_delay=0.0)
    assert tried == [1]


def test_corrections_in_chinese_are_replayed(tmp_path):
    pick, _ = picky(retries=1)
    script = [call("pick", n=1), call("pick", n=2), call("pick", n=3), "ok"]
    sessions = SessionManager(tmp_path)
    agent = Agent(llm=ScriptedLLM(script), tools=[pick], language="zh", sessions=sessions.store)
    texts = tool_texts(agent.run("go", session_id="s").messages)
    assert texts[0].endswith("剩余更正次数：1。")
    assert "更正次数已用完" in texts[1]
    assert replay_session(sessions.load("s").records).difference is None


@pytest.mark.parametrize("wrong", [-1, True, "2", None])
def test_a_number_of_corrections_is_a_whole_number(wrong):
    with pytest.raises(ConfigError, match="retries="):
        Tool(note.function, retries=wrong)


# -- made elsewhere ----------------------------------------------------------------------------------


@tool(external=True)
def locate(city: str, exact: bool = False) -> str:
    """Where the user's phone is."""
    raise AssertionError("It is never called here.")


@tool
def note(text: str) -> str:
    """Note."""
    return f"noted {text}"


CALLS = [call("locate", city="Oslo"), call("note", text="a"), call("locate", city="Rome", exact=True)]


def agent(script, **options):
    return Agent(llm=ScriptedLLM(script), tools=[locate, note], **options)


def test_a_run_waits_for_results_made_elsewhere():
    first = check_result(agent([CALLS]).run("go"))
    assert (first.stop_reason, first.content) == ("waiting_tool", "")
    assert [(each.name, each.arguments) for each in first.open_calls] == [
        ("locate", {"city": "Oslo"}),
        ("locate", {"city": "Rome", "exact": True}),
    ]
    awaited = "The result is made elsewhere and has not come yet."
    assert tool_texts(first.messages) == [awaited, "noted a", awaited]
    assert [each.data["call_id"] for each in of_type(first.events, E.ACTION)] == [
        "call_2",
        "call_1",
        "call_3",
    ]
    state = json.loads(json.dumps(first.state.to_dict()))
    part = agent([]).run(None, state=state)
    assert (part.stop_reason, len(part.open_calls)) == ("waiting_tool", 2)
    part.state.give_result("call_1", {"x": 1})
    half = check_result(agent([]).run(None, state=part.state))
    assert (half.stop_reason, [each.id for each in half.open_calls]) == ("waiting_tool", ["call_3"])
    half.state.give_result("call_3", "no signal", is_error=True)
    last = check_result(agent(["There."]).run(None, state=half.state))
    assert (last.stop_reason, last.content) == ("completed", "There.")
    assert tool_texts(last.messages) == ['{"x": 1}', "noted a", "no signal"]
    (seen,) = of_type(last.events, E.OBSERVATION)
    assert (seen.data["tool"], seen.data["is_error"]) == ("locate", True)


def test_result_without_open_call_is_rejected():
    first = agent([CALLS]).run("go")
    with pytest.raises(ConfigError, match=r"Call 'call_2' has no pending result\. Pending: call_1, call_3\."):
        first.state.give_result("call_2", "x")
    with pytest.raises(ConfigError, match="is_error must be True or False"):
        first.state.give_result("call_1", "x", is_error="yes")
    first.state.give_result("call_1", "x")
    with pytest.raises(ConfigError, match="Pending: call_3"):
        first.state.give_result("call_1", "y")


def test_it_can_be_declared_by_its_schema():
    declared = {"name": "locate", "description": "Where.", "parameters": PLACE, "external": True}
    for tools in ([declared], [Tool(None, name="locate", parameters=PLACE, external=True)]):
        assert run(tools, [call("locate", city="Oslo")]).stop_reason == "waiting_tool"
    with pytest.raises(ConfigError, match="external=True"):
        Agent(llm=ScriptedLLM([]), tools=[{"name": "locate", "parameters": PLACE}])


def test_wrong_arguments_are_reported_at_once():
    result = run([locate], [call("locate", town="Oslo"), "sorry"])
    assert "city: field required" in tool_texts(result.messages)[0]
    assert result.stop_reason == "completed"


def test_permissions_come_first():
    first = agent([CALLS], permission_mode="ask").run("go")
    assert (first.stop_reason, first.open_calls) == ("waiting_permission", [])
    for question in first.questions:
        first.state.answer_permission(question.call_id, "deny" if question.call_id == "call_1" else "allow")
    second = check_result(agent([], permission_mode="ask").run(None, state=first.state))
    assert [each.id for each in second.open_calls] == ["call_3"]
    assert run([locate], [call("locate", city="x"), "ok"], permission_mode="plan").stop_reason == "completed"


def test_hooks_and_limits_see_the_result():
    first = agent([call("locate", city="Oslo")]).run("go")
    first.state.give_result("call_1", "x" * 5000)
    hooks = Hooks(after_tool=[lambda name, args, result, context: f"{name}:{result}"])
    second = agent(["ok"], hooks=hooks, max_result_chars=500).run(None, state=first.state)
    text = tool_texts(second.messages)[0]
    assert text.startswith("locate:xxx")
    assert len(text) <= 500


def test_another_task_ends_the_waiting():
    first = agent([CALLS]).run("go")
    first.state.give_result("call_1", "here")
    second = check_result(agent(["ok"]).run("Something else.", state=first.state), 2)
    assert tool_texts(second.messages)[0] == "here"
    assert "has not come yet" in tool_texts(second.messages)[2]
    assert second.state.tools.outside == {}


def test_old_states_are_read():
    old = agent(["ok"]).run("go").state.to_dict()
    del old["tools"]
    assert agent(["again"]).run("more", state=old).content == "again"


def test_a_wrong_state_is_refused():
    state = agent([CALLS]).run("go").state.to_dict()
    state["tools"] = {**state["tools"], "outside": {"call_1": 5}}
    with pytest.raises(ConfigError, match="not a saved state"):
        agent([]).run(None, state=state)


def test_single_round_with_open_calls_is_rejected():
    client = AIClient(llm=ScriptedLLM([call("locate", city="x")]), tools=[locate])
    with pytest.raises(ConfigError, match="open_calls"):
        client.chat("go")


def test_a_subagent_has_none_of_them():
    llm = ScriptedLLM([call("task", agent="poet", prompt="Go."), "sub", "done"])
    manager = SubagentManager([AgentDefinition("poet", "Writes.", "Write.")])
    check_result(Agent(llm=llm, tools=[locate, note], subagents=manager).run("go"))
    names = [[each["function"]["name"] for each in request.tools or ()] for request in llm.requests]
    assert "locate" in names[0]
    assert [each for each in names if "note" in each and "locate" not in each]


GIVE = """
import sys
from pure_agent_loop import SessionManager
sessions = SessionManager(sys.argv[1])
(info,) = sessions.waiting()
for each in sessions.open_calls(info.id):
    sessions.give_result(info.id, each.id, f"in {each.arguments['city']}")
"""


def test_results_come_from_another_process(tmp_path):
    sessions = SessionManager(tmp_path)
    first = check_result(agent([CALLS], sessions=sessions.store).run("go", session_id="s"))
    assert first.stop_reason == "waiting_tool"
    assert [each.id for each in sessions.waiting()] == ["s"]
    environment = {**os.environ, "PYTHONPATH": str(Path(pure_agent_loop.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", GIVE, str(tmp_path)], check=True, env=environment, timeout=60)
    assert (list(sessions.waiting()), list(sessions.open_calls("s"))) == ([], [])
    with pytest.raises(ConfigError, match="has no pending result"):
        sessions.give_result("s", "call_1", "late")
    last = check_result(agent(["There."], sessions=sessions.store).run(None, session_id="s"))
    assert tool_texts(last.messages) == ["in Oslo", "noted a", "in Rome"]
    assert last.stop_reason == "completed"
    report = replay_session(sessions.load("s").records)
    assert str(report) == "2 runs, 2 steps: identical"


def test_results_come_one_by_one(tmp_path):
    sessions = SessionManager(tmp_path)
    agent([CALLS], sessions=sessions.store).run("go", session_id="s")
    sessions.give_result("s", "call_3", {"key": "sk-" + "a1B2" * 12})
    half = agent([], sessions=sessions.store).run(None, session_id="s")
    assert [each.id for each in half.open_calls] == ["call_1"]
    sessions.give_result("s", "call_1", "gone", is_error=True)
    last = agent(["ok"], sessions=sessions.store).run(None, session_id="s")
    assert tool_texts(last.messages)[0] == "gone"
    assert "a1B2" not in json.dumps([each.data for each in sessions.load("s").records])
    assert replay_session(sessions.load("s").records).difference is None
    assert ENGLISH.tool_waiting not in sessions.export("s")
