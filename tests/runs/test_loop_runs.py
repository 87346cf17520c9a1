"""A run of `ReactLoop` is a coroutine with a result, and the loop is a view of its agent."""

from __future__ import annotations

import asyncio
import sys

import pytest
from tests.helpers import NO_WAIT, E, add, check_events, of_type

from pure_agent_loop import (
    Agent,
    AIClient,
    ConfigError,
    Hooks,
    LoopLimits,
    PermissionRules,
    ReactLoop,
    SessionManager,
    tool,
)
from pure_agent_loop.testing import ScriptedLLM, answer, call


@tool(destructive=True)
def refund(order: int) -> str:
    """Give money back."""
    return "refunded"


@tool(external=True)
def locate() -> str:
    """Return where the phone is."""
    return ""


OWNERS = {
    "client": lambda llm, **options: ReactLoop(llm, **options),
    "Agent": lambda llm, **options: ReactLoop(Agent(llm=llm), **options),
    "AIClient": lambda llm, **options: ReactLoop(AIClient(llm=llm), **options),
}


async def in_task(run):
    return await asyncio.create_task(run)


async def in_group(run):
    if sys.version_info < (3, 11):
        return await asyncio.gather(run)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run)
    assert "LoopRun" in repr(task)
    return task.result()


async def after_its_events(run):
    check_events([event async for event in run])
    return await run


async def twice(run):
    assert await run == "ok"
    return await run


WAYS = {
    "run": lambda run: asyncio.run(run),
    "task": lambda run: asyncio.run(in_task(run)),
    "group": lambda run: asyncio.run(in_group(run)),
    "wait_for": lambda run: asyncio.run(asyncio.wait_for(run, 20)),
    "events": lambda run: asyncio.run(after_its_events(run)),
    "twice": lambda run: asyncio.run(twice(run)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("owner", OWNERS)
def test_each_way_to_start_a_coroutine_gives_the_answer_of_one_run(owner, way):
    with ScriptedLLM(["ok"]) as llm:
        run = OWNERS[owner](llm).run("go")
        assert WAYS[way](run) in ("ok", ["ok"])
    assert len(llm.requests) == 1
    result = run.result
    assert (result.stop_reason, result.content, result.usage.total_tokens) == ("completed", "ok", 15)
    assert [message["role"] for message in result.messages] == ["user", "assistant"]


def test_result_of_a_run_that_has_not_ended_is_refused():
    run = ReactLoop(ScriptedLLM(["ok"])).run("go")
    with pytest.raises(ConfigError, match="has not ended"):
        _ = run.result


@pytest.mark.filterwarnings("error")
def test_run_cancelled_before_its_start_makes_no_request():
    with ScriptedLLM(["ok"]) as llm:
        loop = ReactLoop(llm)

        async def cancel():
            task = asyncio.create_task(loop.run("go"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        loop.run("go").close()
        assert not llm.requests
        assert asyncio.run(loop.run("go")) == "ok"


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize(
    ("given", "options", "reason", "words"),
    [
        (refund, {}, "waiting_permission", ["'refund'", "on_ask", "PermissionRules"]),
        (add, {"permission_mode": "ask"}, "waiting_permission", ["'add'", "on_ask"]),
        (locate, {}, "waiting_tool", ["'locate'", "open_calls"]),
    ],
)
def test_error_names_what_waits(owner, given, options, reason, words):
    args = {"add": {"a": 1, "b": 2}, "refund": {"order": 7}}.get(given.name, {})
    with ScriptedLLM([call(given.name, **args)]) as llm:
        run = OWNERS[owner](llm, tool_registry=[given], **options).run("go")
        with pytest.raises(ConfigError) as caught:
            asyncio.run(run)
    assert all(word in str(caught.value) for word in [*words, "result of the run"])
    assert run.result.stop_reason == reason
    assert [each.tool for each in run.result.questions] == ([] if given is locate else [given.name])


# -- the loop as a view of an agent ------------------------------------------------------------------


class Kept:
    """A compactor that counts its calls."""

    count = 0

    async def compact(self, state):
        self.count += 1


def test_options_of_the_agent_stay_in_force(tmp_path):
    kept = Kept()
    agent = Agent(
        llm=ScriptedLLM([call("add", a=1, b=2), answer("3", reasoning="hm")]),
        tools=[add],
        system_prompt=lambda: "Be brief.",
        after_tools="And now?",
        emit_reasoning_events=True,
        compaction=kept,
        sessions=tmp_path,
        retry=NO_WAIT,
    )

    async def events():
        return [event async for event in ReactLoop(agent, session_id="one").run("go")]

    seen = asyncio.run(events())
    assert [m["content"] for m in agent.llm.requests[1].messages if m["role"] != "assistant"] == [
        "Be brief.",
        "go",
        "3",
        "And now?",
    ]
    assert of_type(seen, E.REASONING)[0].content == "hm"
    assert kept.count == 2
    assert SessionManager(tmp_path).exists("one")


def test_options_of_the_loop_take_their_place():
    with ScriptedLLM([call("add", a=1, b=2), answer("3", reasoning="hm")]) as llm:
        agent = Agent(
            llm=llm, tools=[add], system_prompt="Be long.", after_tools="And?", emit_reasoning_events=True
        )
        loop = ReactLoop(agent, after_tools="", emit_reasoning_events=False)

        async def events():
            return [event async for event in loop.run("go", system_prompt="Be brief.")]

        assert of_type(asyncio.run(events()), E.REASONING) == []
    assert [m["content"] for m in llm.requests[1].messages if m["role"] != "assistant"] == [
        "Be brief.",
        "go",
        "3",
    ]


def test_override_checks_and_handoffs_of_the_agent_hold():
    other = Agent(llm=ScriptedLLM(["Billing."]), name="billing", description="Bills.")
    agent = Agent(llm=ScriptedLLM([]), name="desk", handoffs=[other], hooks=Hooks())
    loop = ReactLoop(agent)
    with ScriptedLLM([call("transfer_to_billing")]) as llm, agent.override(llm=llm):
        run = loop.run("go")
        assert asyncio.run(run) == "Billing."
    assert run.result.agent == "billing"


def test_language_of_the_loop_replaces_the_framework_texts_of_the_agent():
    for given, wanted in (({}, "你"), ({"system_prompt": "Own words."}, "Own words.")):
        with ScriptedLLM(["好"]) as llm:
            asyncio.run(
                ReactLoop(Agent(llm=llm, tools=[add], tool_mode="text", **given), language="zh").run("go")
            )
        assert wanted in llm.requests[0].messages[0]["content"]


@pytest.mark.parametrize(
    ("own", "given", "steps"),
    [
        (None, {}, 15),
        (None, {"max_steps": 3}, 3),
        (4, {}, 4),
        (20, {}, 20),
        (4, {"max_steps": 3}, 3),
        (3, {"max_steps": 9}, 3),
        (4, {"max_steps": None}, 4),
    ],
)
def test_smaller_of_two_step_limits_holds(own, given, steps):
    agent = Agent(llm=ScriptedLLM([]), limits=LoopLimits(max_turns=own))
    for loop in (ReactLoop(agent, **given), ReactLoop(agent.llm, limits=agent.config.limits, **given)):
        assert loop.explain("go").limits["max_turns"] == steps


def test_rules_of_the_agent_answer_its_question():
    with ScriptedLLM([call("refund", order=7), "done"]) as llm:
        agent = Agent(llm=llm, tools=[refund], on_ask=lambda _: "allow", permission_rules=PermissionRules())
        assert asyncio.run(ReactLoop(agent).run("go")) == "done"
