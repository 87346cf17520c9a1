"""Tasks in the foreground and beside a run: what is told, what is inherited, what is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import E, check_result, nothing_left, of_type, tool_texts, until
from tests.subagents.family import HELPER, OTHER, family, notices, parent

from pure_agent_loop import (
    Agent,
    Budget,
    CancelToken,
    Hooks,
    LoopLimits,
    Permission,
    PermissionRules,
    RunContext,
    tool,
)
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.permissions import PERMISSION_MODES, PermissionPolicy
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.subagents import EXPLORE, VERIFY, AgentDefinition, SubagentManager, TaskNotFoundError
from pure_agent_loop.subagents.child import narrower, policy_of
from pure_agent_loop.testing import Gate, ScriptedLLM, call, deltas
from pure_agent_loop.testing.script import DEFAULT_USAGE
from pure_agent_loop.tool_context import current_call


@tool
def write(text: str) -> str:
    """Write something."""
    return f"wrote {text}"


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def give(agent="helper", prompt="do it", **more):
    return call("task", agent=agent, prompt=prompt, **more)


def states(events):
    return [event.data["task"]["state"] for event in of_type(events, E.TASK) if not event.part]


def task_id(text):
    return text.split()[1]


def test_a_task_gives_its_answer_and_its_tokens_count():
    llm = family(parent=[give(), "done"], helper=[call("look", at="a"), "found it"])
    result = check_result(parent(llm, tools=[look]).run("go"))
    assert result.content == "done"
    said = tool_texts(result.messages)[0]
    assert said.splitlines()[0].endswith("completed]")
    assert said.splitlines()[1] == "found it"
    assert result.usage.total_tokens == 4 * DEFAULT_USAGE.total_tokens
    assert states(result.events) == ["running", "running", "running", "completed"]
    last = of_type(result.events, E.TASK)[-1].data["task"]
    assert (last["calls"], last["last_tool"], last["tokens"]) == (1, "look", 30)
    parts = [event.part for event in of_type(result.events, E.TASK) if event.part]
    assert [(each["tool"], each["input"], each["state"]) for each in parts] == [
        ("look", {"at": "a"}, "running"),
        ("look", {"at": "a"}, "completed"),
    ]
    assert {each["call_id"].partition(":")[0] for each in parts} == {last["id"]}
    seen = next(event for event in of_type(result.events, E.TASK) if event.part).public()["data"]["part"]
    assert "input" not in seen  # only of tools that may be looked into


def test_two_tasks_in_the_background_bring_both_results():
    async def main():
        async with nothing_left():
            return check_result(await parent(llm).arun("go"))

    both = [give(background=True), give("other", background=True)]
    llm = family(parent=[both, "waiting", "half", "all"], helper=["answer A"], other=["answer B"])
    result = asyncio.run(main())
    told = "\n".join(notices(result.messages))
    assert "answer A" in told
    assert "answer B" in told
    assert all("backgrounded]" in text for text in tool_texts(result.messages))
    assert result.stop_reason == "completed"
    assert result.usage.total_tokens == (len(llm.requests)) * 15


def test_killed_subagent_is_reported_and_the_other_finishes():
    gate = Gate()

    async def main():
        async with nothing_left():
            return check_result(await parent(llm).arun("go"))

    def kill(messages, tools, options):
        return call("task_kill", task_id=task_id(tool_texts(messages)[0]))

    script = [[give(background=True), give("other", background=True)], kill, "so", "on", "end"]
    llm = family(parent=script, helper=[deltas("slow", gate, "never")], other=["answer B"])
    result = asyncio.run(main())
    told = notices(result.messages)
    assert sum("killed]" in text for text in told) == 1
    assert sum("completed]" in text and "answer B" in text for text in told) == 1
    assert "has ended: killed" in tool_texts(result.messages)[2]


@pytest.mark.parametrize("background", [False, True])
def test_cancelling_the_parent_leaves_nothing(background):
    async def main():
        gate, token = Gate(), CancelToken()
        llm = family(parent=[give(background=background), "hm"], helper=[deltas("slow", gate, "never")])
        async with nothing_left():
            run = asyncio.create_task(parent(llm).arun("go", cancel_token=token))
            await gate.reached.wait_async()
            token.cancel()
            return check_result(await run)

    result = asyncio.run(main())
    assert result.stop_reason == "cancelled"
    assert states(result.events)[-1] == "cancelled"


def test_cancelling_while_the_child_runs_a_tool():
    async def main():
        begun, token = asyncio.Event(), CancelToken()

        @tool
        async def hang() -> str:
            """Never return."""
            begun.set()
            await asyncio.Event().wait()
            return ""

        llm = family(parent=[give()], helper=[call("hang")])
        async with nothing_left():
            run = asyncio.create_task(parent(llm, tools=[hang]).arun("go", cancel_token=token))
            await begun.wait()
            token.cancel()
            return check_result(await run)

    assert asyncio.run(main()).stop_reason == "cancelled"


def test_the_task_of_the_caller_is_cancelled():
    async def main():
        gate = Gate()
        llm = family(parent=[give(background=True), "hm"], helper=[deltas("slow", gate, "never")])
        async with nothing_left():
            run = asyncio.create_task(parent(llm).arun("go"))
            await gate.reached.wait_async()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    asyncio.run(main())


def test_the_time_for_a_task_reaches_it():
    async def main():
        async with nothing_left():
            agent = parent(llm, _timeout=0.05)
            return check_result(await agent.arun("go"))

    llm = family(parent=[give(), "late"], helper=[deltas("slow", Gate(), "never")])
    result = asyncio.run(main())
    assert "timed out" in tool_texts(result.messages)[0].lower() or "0.05" in tool_texts(result.messages)[0]
    assert states(result.events)[-1] == "cancelled"


def test_the_deadline_of_the_parent_reaches_a_task():
    llm = family(parent=[give(), "late"], helper=[deltas("slow", Gate(), "never")])
    result = check_result(parent(llm, limits=LoopLimits(max_seconds=0.3)).run("go"))
    assert result.stop_reason == "budget"


def test_the_deadline_of_the_parent_reaches_the_background():
    llm = family(parent=[give(background=True), "hm", "late"], helper=[deltas("slow", Gate(), "never")])
    result = check_result(parent(llm, limits=LoopLimits(max_seconds=0.3)).run("go"))
    assert result.stop_reason == "budget"
    assert "cancelled]" in notices(result.messages)[0]


def test_remaining_tokens_limit_a_task():
    llm = family(parent=[give()], helper=[call("look", at="a")])
    result = check_result(parent(llm, tools=[look], limits=LoopLimits(max_tokens=60)).run("go"))
    assert result.stop_reason == "token_limit"
    assert of_type(result.events, E.TASK)[-1].data["task"]["tokens"] == 15
    assert of_type(result.events, E.TASK)[-1].data["task"]["stop_reason"] == "token_limit"


@pytest.mark.parametrize("background", [False, True])
def test_calls_of_a_task_that_is_over_still_count(background):
    looks = [call("look", at="a"), call("look", at="b"), "found"]
    llm = family(parent=[give(background=background), "hm", "hm"], helper=looks)
    result = check_result(parent(llm, tools=[look], limits=LoopLimits(max_tool_calls=4)).run("go"))
    assert result.state.ledger.tool_calls == 3
    llm = family(parent=[give(), "all I have"], helper=looks)
    result = check_result(parent(llm, tools=[look], limits=LoopLimits(max_tool_calls=3)).run("go"))
    assert result.stop_reason == "max_tool_calls"


def test_a_shared_budget_counts_once():
    budget = Budget(max_tokens=1000)
    llm = family(parent=[give(), "done"], helper=["x"])
    parent(llm, budget=budget).run("go")
    assert (budget.tokens, budget.tool_calls) == (45, 1)


def test_no_task_begins_when_nothing_is_left():
    llm = family(parent=[give(), "done"], helper=[])
    result = parent(llm, limits=LoopLimits(max_tokens=15)).run("go")
    assert "has used up its limit" in tool_texts(result.messages)[0]


def test_failure_is_reported():
    llm = family(parent=[give(), "done"], helper=[LLMError("no such model", kind="not_found")])
    result = check_result(parent(llm).run("go"))
    assert "failed]" in tool_texts(result.messages)[0]
    assert "no such model" in tool_texts(result.messages)[0]
    assert states(result.events)[-1] == "failed"


def test_a_subagent_has_no_tools_for_tasks():
    llm = family(parent=[give(), "done"], helper=[give("other"), "could not"])
    result = check_result(parent(llm).run("go"))
    child = next(request for request in llm.requests if "You are helper." in request.messages[0]["content"])
    assert child.tools is None
    assert "could not" in tool_texts(result.messages)[0]


def test_the_depth_is_bounded():
    llm = family(
        parent=[give(), "done"], helper=[give("other"), "passed on"], other=[give("helper"), "I do it"]
    )
    result = check_result(parent(llm, _max_depth=2).run("go"))
    assert "passed on" in tool_texts(result.messages)[0]
    third = next(request for request in llm.requests if "You are other." in request.messages[0]["content"])
    assert third.tools is None
    assert result.usage.total_tokens == len(llm.requests) * 15


def test_no_more_than_allowed_are_at_work_at_once():
    gates = [Gate() for _ in range(3)]

    async def main():
        run = asyncio.create_task(parent(llm, _max_concurrent=2).arun("go"))
        await gates[0].reached.wait_async()
        await gates[1].reached.wait_async()
        assert not gates[2].reached.is_set
        for gate in gates:
            gate.open()
        return check_result(await run)

    tasks = [give(background=True, prompt=str(number)) for number in range(3)]
    llm = family(parent=[tasks, "a", "b", "c", "d"], helper=[deltas("x", gate, "y") for gate in gates])
    result = asyncio.run(main())
    assert "pending]" in tool_texts(result.messages)[2]
    assert len(notices(result.messages)) == 3


def test_a_long_answer_is_cut_and_can_be_read():
    def read(messages, tools, options):
        return call("task_output", task_id=task_id(tool_texts(messages)[0]))

    long = "a" * 500 + "b" * 500
    llm = family(parent=[give(), read, "done"], helper=[long])
    result = check_result(parent(llm, replace(HELPER, max_result_chars=100)).run("go"))
    cut, whole = tool_texts(result.messages)
    assert "900 characters are left out" in cut
    assert long not in cut
    assert long in whole


def test_a_task_is_taken_up_again_with_its_history():
    def again(messages, tools, options):
        return give(prompt="and now?", resume=task_id(tool_texts(messages)[0]))

    llm = family(parent=[give(), again, "done"], helper=["first", "second"])
    result = check_result(parent(llm).run("go"))
    assert "second" in tool_texts(result.messages)[1]
    second = [request for request in llm.requests if "You are helper." in request.messages[0]["content"]][1]
    assert [each["content"] for each in second.messages[1:]] == ["do it", "first", "and now?"]
    assert task_id(tool_texts(result.messages)[0]) == task_id(tool_texts(result.messages)[1])


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (give("nobody"), "agent: should be 'helper', 'other', got 'nobody'"),
        (give(prompt=" "), "empty"),
        (give(resume="helper-000000"), "No task 'helper-000000'"),
        (call("task_kill", task_id="x"), "No task 'x'"),
        (call("task_output", task_id="x"), "No task 'x'"),
        (call("task_list"), "no tasks"),
    ],
)
def test_impossible_value_is_reported(made, words):
    result = check_result(parent(family(parent=[made, "ok"])).run("go"))
    assert words in tool_texts(result.messages)[0]


def test_a_question_goes_up_to_the_person():
    asked = []

    def ask(request):
        asked.append((request.tool, request.reason))
        return "allow"

    llm = family(parent=[give(), "done"], helper=[call("write", text="x"), "wrote it"])
    result = check_result(parent(llm, tools=[write], permission_mode="ask", on_ask=ask).run("go"))
    assert [name for name, _ in asked] == ["write"]
    assert "helper" in asked[0][1]
    assert "waiting_permission" in states(result.events)
    assert "wrote it" in tool_texts(result.messages)[0]


def test_a_question_of_its_tool_takes_a_text():
    @tool
    async def colour(ctx: RunContext) -> str:
        """Ask for a colour."""
        return await ctx.ask("Which colour?")

    asked = []

    def ask(request):
        asked.append(request)
        return Permission("allow", "blue" if request.question else "")

    llm = family(parent=[give(), "done"], helper=[call("colour"), "it is blue"])
    check_result(parent(llm, tools=[colour], on_ask=ask).run("go"))
    (request,) = asked
    assert request.question == "Which colour? (asked by the subagent 'helper')"
    assert request.args == {"question": request.question}
    told = [each["content"] for each in llm.requests[2].messages if each["role"] == "tool"]
    assert "blue" in told[0]


@pytest.mark.parametrize("background", [False, True])
def test_unanswerable_question_is_reported(background):
    llm = family(parent=[give(background=background), "hm", "ok"], helper=[call("write", text="x")])
    result = check_result(parent(llm, tools=[write], permission_mode="ask").run("go"))
    told = notices(result.messages)[0] if background else tool_texts(result.messages)[0]
    assert "waiting_permission]" in told
    assert "write(text)" in told


@given(st.sampled_from(PERMISSION_MODES), st.sampled_from([None, *PERMISSION_MODES]), st.booleans())
def test_no_mode_is_wider_than_that_above(above, wanted, read_only):
    order = ("plan", "ask", "guard", "auto", "bypass")
    definition = replace(HELPER, permission_mode=wanted, workspace="read-only" if read_only else "shared")
    mode = policy_of(definition, PermissionPolicy(above)).mode
    assert order.index(mode) <= order.index(above)
    assert order.index(mode) <= order.index(wanted or above)
    assert narrower(above, wanted) == narrower(wanted or above, above)


@pytest.mark.parametrize("above", PERMISSION_MODES)
@pytest.mark.parametrize("wanted", PERMISSION_MODES)
def test_parent_denials_apply_to_subagents(above, wanted):
    """With the same call by the parent and by its subagent: the child gets no further."""
    done = []

    @tool
    def change() -> str:
        """Change something."""
        done.append(1)
        return "changed"

    child = replace(HELPER, permission_mode=wanted)
    options = {"tools": [change], "permission_mode": above}
    parent(family(parent=[call("change"), "x"]), **options).run("go")
    alone, done[:] = len(done), []
    parent(family(parent=[give(), "x"], helper=[call("change"), "y"]), child, **options).run("go")
    assert len(done) <= alone


def test_rules_functions_and_hooks_above_hold_below():
    seen = []

    def hook(name, args, context):
        seen.append(name)

    llm = family(parent=[give(), "done"], helper=[[call("write", text="x"), call("look", at="y")], "tried"])
    rules = PermissionRules(deny=["write"])
    options = {"permission_rules": rules, "hooks": Hooks(before_tool=[hook], on_stop=[lambda a, c: None])}
    check_result(parent(llm, tools=[write, look], **options).run("go"))
    results = tool_texts(llm.requests[2].messages)
    assert "forbids" in results[0]
    assert results[1] == "saw y"
    assert seen == ["task", "write", "look"]


def test_a_read_only_subagent_has_only_tools_that_change_nothing():
    llm = ScriptedLLM([give("explore"), "found", "done"])
    parent(llm, EXPLORE, VERIFY, tools=[write, look]).run("go")
    assert [each["function"]["name"] for each in llm.requests[1].tools] == ["look"]


def test_named_tools_must_be_there():
    llm = family(parent=[give(), "done"], helper=[])
    result = parent(llm, replace(HELPER, tools=["look", "shell"]), tools=[look]).run("go")
    assert "tools you do not have: shell" in tool_texts(result.messages)[0]


def test_a_plan_may_ask_an_explorer():
    llm = ScriptedLLM([give("explore"), call("look", at="x"), "found", "done"])
    result = check_result(parent(llm, EXPLORE, tools=[look], permission_mode="plan").run("go"))
    assert "found" in tool_texts(result.messages)[0]


def test_subagent_uses_its_own_client():
    own = ScriptedLLM(["from another model"])
    llm = family(parent=[give(), "done"])
    result = check_result(parent(llm, replace(HELPER, llm=own)).run("go"))
    assert "from another model" in tool_texts(result.messages)[0]


def test_the_words_exist_in_chinese():
    llm = ScriptedLLM([give("explore"), "找到了", "完成"])
    agent = Agent(llm=llm, subagents=SubagentManager(language="zh"), language="zh")
    result = check_result(agent.run("做"))
    assert tool_texts(result.messages)[0].startswith("【task explore-")
    assert "子代理" in llm.requests[0].tools[0]["function"]["description"]
    assert "你为另一个代理" in llm.requests[1].messages[0]["content"]


def test_the_registry_that_was_given_is_left_alone():
    from pure_agent_loop import ToolRegistry

    registry = ToolRegistry([look])
    agent = parent(family(parent=[]), tools=registry)
    assert [each.name for each in registry] == ["look"]
    assert "task" in agent.tools


@pytest.mark.parametrize(
    "make",
    [
        lambda: SubagentManager([]),
        lambda: SubagentManager([HELPER, HELPER]),
        lambda: SubagentManager(["helper"]),
        lambda: SubagentManager(max_depth=0),
        lambda: SubagentManager(max_concurrent=True),
        lambda: SubagentManager([replace(HELPER, workspace="scratch")]),
        lambda: SubagentManager(workspace="nowhere/at/all"),
        lambda: SubagentManager(language="xx"),
        lambda: Agent(llm=ScriptedLLM([]), subagents=object()),
        lambda: AgentDefinition("No Name", "d", "p"),
        lambda: AgentDefinition("a", "", "p"),
        lambda: AgentDefinition("a", "d", {}),
        lambda: AgentDefinition("a", "d", "p", tools="look"),
        lambda: AgentDefinition("a", "d", "p", workspace="moon"),
        lambda: AgentDefinition("a", "d", "p", permission_mode="all"),
        lambda: AgentDefinition("a", "d", "p", max_result_chars=0),
        lambda: AgentDefinition("a", "d", "p", model="m", llm=ScriptedLLM([])),
    ],
)
def test_impossible_setting_is_rejected_at_once(make):
    with pytest.raises(ConfigError):
        make()


def test_unawaited_child_continues():
    async def main():
        gate = Gate()
        llm = family(parent=[give(background=True), "bye"], helper=[deltas("slow", gate, "end")])
        agent = parent(llm, OTHER, HELPER, _wait=False)
        async with nothing_left():
            result = check_result(await agent.arun("go"))
            await gate.reached.wait_async()
            gate.open()
            await until(lambda: len(asyncio.all_tasks()) == 1)
        return result

    assert asyncio.run(main()).content == "bye"


def test_secrets_and_the_audit_log_hold_below():
    from pure_agent_loop.support.secrets.redaction import Redactor

    class Log:
        calls: ClassVar[list[tuple[str, str, str]]] = []

        def begin(self, record):
            self.calls.append((record.agent, record.tool, record.behavior))

        def end(self, record, text, status, seconds):
            assert "hunter22hunter22" not in text

    llm = family(parent=[give(), "done"], helper=[call("look", at="x"), "it is hunter22hunter22"])
    options = {"name": "boss", "audit": Log(), "redact": Redactor(["hunter22hunter22"])}
    result = check_result(parent(llm, tools=[look], **options).run("go"))
    assert Log.calls == [("boss", "task", "allow"), ("boss/helper", "look", "allow")]
    assert "hunter22hunter22" not in str([event.to_dict() for event in result.events])


def test_suspended_run_keeps_the_results_of_its_tasks():
    both = [give(background=True), call("look", at="x")]
    llm = family(parent=[both, call("write", text="y"), "end"], helper=["the answer"])
    agent = parent(llm, tools=[look, write], permission_mode="ask")
    first = agent.run("go")
    assert first.stop_reason == "waiting_permission"
    first.state.answer_permission(first.questions[0].call_id, "allow")
    second = agent.run(None, state=first.state)
    assert second.stop_reason == "completed"
    assert "the answer" in "".join(notices(second.messages))


def test_nothing_is_kept_of_sessions_that_have_ended(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    manager = SubagentManager([HELPER])
    llm = family(parent=[give(background=True), "hm", "hm"], helper=["x"])
    Agent(llm=llm, subagents=manager).run("go", session_id="trip")
    assert manager._table.reports == {}


def test_remaining_budget_is_shared_by_parallel_tasks():
    def busy(messages, tools, options):
        return call("look", at=str(len(messages))) if tools else "no more"

    both = [give(background=True), give("other", background=True)]
    llm = family(parent=[both, "hm", "hm", "hm"], helper=[busy] * 20, other=[busy] * 20)
    result = check_result(parent(llm, tools=[look], limits=LoopLimits(max_tokens=150)).run("go"))
    assert result.stop_reason == "token_limit"
    assert len(llm.requests) * 15 <= 150 + 4 * 15  # each may be in a step, and gives a last answer


def test_a_task_of_the_foreground_goes_to_the_background():
    async def main(by):
        gate = Gate()
        llm = family(parent=[give(), "I go on.", "thanks"], helper=[deltas("slow", gate, " answer")])
        manager = SubagentManager([HELPER])
        run = Agent(llm=llm, subagents=manager).prepare("go")
        running = asyncio.create_task(run.wait())
        await gate.reached.wait_async()
        record = of_type(run.events, E.TASK)[-1].data["task"]
        moved = manager.background(record[by])
        assert (moved.id, moved.state) == (record["id"], "backgrounded")
        with pytest.raises(TaskNotFoundError, match="is not a running foreground task"):
            manager.background(record[by])
        await until(lambda: any(each.type is E.THOUGHT and each.content == "I go on." for each in run.events))
        gate.open()
        return check_result(await running), record

    for by in ("id", "call_id"):
        result, record = asyncio.run(main(by))
        said = tool_texts(result.messages)[0]
        assert said.startswith(f"[task {record['id']} backgrounded] The user moved")
        assert notices(result.messages)[0].endswith("slow answer")
        assert result.content == "thanks"
        parts = [
            each.data["part"]["state"] for each in of_type(result.events, E.PART) if each.data["part"]["tool"]
        ]
        assert parts == ["pending", "running", "backgrounded"]
        assert "backgrounded" in states(result.events)
        assert result.usage.total_tokens == 4 * DEFAULT_USAGE.total_tokens


def test_it_is_moved_from_another_thread():
    gate = Gate()
    llm = family(parent=[give(), "I go on.", "thanks"], helper=[deltas("slow", gate, " answer")])
    manager, moved = SubagentManager([HELPER]), []
    for event in Agent(llm=llm, subagents=manager).run_stream("go"):
        if event.type is E.TASK and not moved:
            moved.append(manager.background(event.data["task"]["id"]))
        if event.type is E.THOUGHT and event.content == "I go on.":
            gate.open()
    assert moved[0].state == "completed"


def test_unawaited_task_cannot_be_moved():
    with pytest.raises(TaskNotFoundError):
        SubagentManager([HELPER]).background("helper-1")


def test_a_tool_and_a_permission_function_see_folder_session_and_tasks(tmp_path):
    seen = []

    def may(name, args, context):
        seen.append((name, context.agent, context.cwd, context.permission_mode, dict(context.tasks)))
        return "allow"

    @tool
    def where() -> str:
        """Say where."""
        about = current_call()
        return f"{about.cwd} {about.session_id} {sorted(about.tasks.values())}"

    llm = family(parent=[give(), call("where"), "done"], helper=["found it"])
    agent = parent(llm, tools=[where], can_use_tool=may, cwd=tmp_path, name="top")
    store = JsonlStore(tmp_path / "sessions")
    result = agent.run("go", session_id="s", sessions=store)
    assert tool_texts(result.messages)[1] == f"{tmp_path} s ['completed']"
    assert [each[:4] for each in seen] == [(n, "top", str(tmp_path), "auto") for n in ("task", "where")]
    assert [list(each[4].values()) for each in seen] == [[], ["completed"]]
    with pytest.raises(ConfigError, match="cwd="):
        parent(llm, cwd=tmp_path / "nowhere")


def test_a_function_without_a_decision_ends_only_the_subagent():
    done = []

    @tool
    def act() -> str:
        """Act."""
        done.append(1)
        return "acted"

    llm = family(parent=[give(), "I see"], helper=[call("act"), "not reached"])
    result = parent(llm, tools=[act], can_use_tool=lambda name, *_: name == "task" or None).run("go")
    assert (result.content, result.stop_reason, done) == ("I see", "completed", [])
    assert "can_use_tool gave no decision" in tool_texts(result.messages)[0]
    assert states(result.events)[-1] == "failed"
