"""The seams of the kernel: journal, permission, inbox, compactor, opening notices."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest
from tests.helpers import (
    E,
    add,
    check_result,
    drive,
    nothing_left,
    of_type,
    run_kernel,
    shape,
    start,
    tool_texts,
)

from pure_agent_loop import Agent, LLMError, LLMResponse, LoopLimits, ToolCall, tool
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.permissions import Permission
from pure_agent_loop.testing import ScriptedLLM, answer, call, deltas, raw_call
from pure_agent_loop.tool import ToolOutcome

pytestmark = pytest.mark.anyio


def test_a_kit_is_changed_in_fields_it_has():
    kit = Kit(ScriptedLLM([]), name="one")
    changed, same = kit.replace(name="two", cwd="/"), replace(kit, name="two", cwd="/")
    assert all(getattr(changed, each.name) == getattr(same, each.name) for each in fields(kit))
    assert (changed.name, changed.cwd) == ("two", "/")
    assert kit.name == "one"
    with pytest.raises(TypeError, match="nothing"):
        kit.replace(nothing=1)


class Recording(MemoryJournal):
    """A journal that writes down each effect."""

    def __init__(self):
        self.values = {}

    async def effect(self, key, run, about=None):
        assert key not in self.values, f"{key} happened twice"
        self.values[key] = None  # in the order in which they begin; they may end in another
        self.values[key] = await run()
        return self.values[key]


class Replaying(MemoryJournal):
    """A journal that knows every value already."""

    def __init__(self, values):
        self.values = values
        self.asked = []

    async def effect(self, key, run, about=None):
        self.asked.append(key)
        return self.values[key]


class Untouchable:
    async def chat(self, messages, tools=None, **kwargs):
        raise AssertionError("the model was asked")


SCRIPT = [
    [call("add", a=1, b=2), call("add", a=3, b=4)],
    deltas("half", LLMError("cut", kind="connection")),
    [raw_call("add", "{"), call("unknown"), call("add", a="x", b=1)],
    "done",
]


def test_every_effect_passes_the_journal_once_under_a_stable_name():
    keys = []
    for _ in range(2):
        journal = Recording()
        with ScriptedLLM(SCRIPT) as llm:
            run_kernel(llm, [add], journal=journal)
        keys.append(sorted(journal.values))  # calls of one step end in any order
    assert keys[0] == keys[1]
    assert keys[0] == [
        *("1:model", "1:tool:call_1", "1:tool:call_2"),
        *("2:model", "2:tool:call_4", "2:tool:call_5"),
        "3:model",
    ]


def test_a_replay_touches_neither_model_nor_tools():
    touched = []

    @tool(name="add")
    def counting(a: int, b: int) -> int:
        """Add."""
        touched.append(a)
        return a + b

    journal = Recording()
    with ScriptedLLM(SCRIPT) as llm:
        first = run_kernel(llm, [counting], journal=journal)
    assert sorted(touched) == [1, 3]
    replay = Replaying(journal.values)
    second = run_kernel(Untouchable(), [counting], journal=replay)
    assert len(touched) == 2
    assert replay.asked == list(journal.values)
    assert (second.messages, second.content, second.usage) == (first.messages, first.content, first.usage)
    live_only = {"text_delta", "tool_call_delta", "retry"}
    assert shape(second.events) == [each for each in shape(first.events) if each[0] not in live_only]


def test_last_answer_after_a_limit_has_its_own_effect_key():
    journal = Recording()
    with ScriptedLLM([call("add", a=1, b=2), "3"]) as llm:
        run_kernel(llm, [add], journal=journal, limits=LoopLimits(max_turns=1))
    assert list(journal.values) == ["1:model", "1:tool:call_1", "2:model"]


async def test_a_journal_that_fails_ends_the_run_and_leaves_no_tool_running():
    started, ended = asyncio.Event(), []

    @tool
    async def slow() -> str:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    class Full(MemoryJournal):
        async def effect(self, key, run, about=None):
            if key.endswith("call_1"):
                await started.wait()
                raise OSError("disk full")
            return await run()

    async with nothing_left():
        with ScriptedLLM([[call("add", a=1, b=2), call("slow")]]) as llm:
            result = check_result(await drive(start(), llm, [add, slow], journal=Full()))
    assert result.stop_reason == "error"
    assert ended == ["slow"]
    assert of_type(result.events, E.ERROR)[0].content == "OSError: disk full"
    assert all("Whether it took effect is unknown" in text for text in tool_texts(result.messages))


# -- permission -----------------------------------------------------------------------------------


ADD = call("add", a=1, b=2)


def permitted(permit, calls=(ADD,)):
    with ScriptedLLM([list(calls), "done"]) as llm:
        return run_kernel(llm, [add], can_use_tool=permit)


def answering(verdict, *, is_async):
    def now(name, args, context):
        return verdict

    async def later(name, args, context):
        await asyncio.sleep(0)
        return verdict

    return later if is_async else now


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("allow", "3"),
        (Permission("allow"), "3"),
        (Permission("allow", updated_args={"a": 10, "b": 20}), "30"),
        ("deny", "this call was not allowed."),
        (
            Permission("deny", "Not on Sundays."),
            "this call was not allowed. Not on Sundays. Do not send it again",
        ),
    ],
)
def test_verdicts(verdict, text, is_async):
    result = permitted(answering(verdict, is_async=is_async))
    assert text in tool_texts(result.messages)[0]
    (observation,) = of_type(result.events, E.OBSERVATION)
    assert observation.data["is_error"] is ("allowed" in text)
    assert observation.content == tool_texts(result.messages)[0]


def test_changed_arguments_are_shown_where_they_are_used_and_the_models_own_stay_in_the_history():
    result = permitted(answering(Permission("allow", updated_args={"a": 10, "b": 20}), is_async=False))
    assert of_type(result.events, E.ACTION)[0].data["args"] == {"a": 10, "b": 20}
    assert result.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"a": 1, "b": 2}'


def test_a_permission_function_knows_the_call():
    seen = []

    def permit(name, args, context):
        seen.append((name, args, context.step, context.call_id))
        return "allow"

    permitted(permit, calls=[call("add", a=1, b=2), call("nothing")])
    assert seen == [("add", {"a": 1, "b": 2}, 1, "call_1"), ("nothing", {}, 1, "call_2")]


def test_a_permission_function_that_fails_lets_nothing_through():
    def permit(name, args, context):
        raise KeyError("no rule")

    result = permitted(permit)
    assert "Error type: KeyError" in tool_texts(result.messages)[0]


def test_calls_that_cannot_run_are_not_asked_about():
    asked = []

    def permit(name, args, context):
        asked.append(name)
        return "allow"

    permitted(permit, calls=[raw_call("add", "[1]"), call("add", a=1, b=2)])
    assert asked == ["add"]


def test_denied_calls_go_past_the_journal():
    journal = Recording()
    with ScriptedLLM([call("add", a=1, b=2), "no"]) as llm:
        run_kernel(llm, [add], can_use_tool=lambda *_: "deny", journal=journal)
    assert list(journal.values) == ["1:model", "1:permit:call_1", "2:model"]


# -- inbox, compactor, opening --------------------------------------------------------------------


def test_messages_that_come_in_reach_the_next_request():
    inbox = Inbox()
    inbox.put("before the start")

    @tool
    def interrupt() -> str:
        """Leave two messages."""
        inbox.put("hurry up")
        inbox.put("task 7 is done", synthetic=True)
        return "ok"

    with ScriptedLLM([call("interrupt"), "done"]) as llm:
        result = run_kernel(llm, [interrupt], inbox=inbox)
    assert [m["content"] for m in llm.requests[0].messages] == ["go", "before the start"]
    assert [m["content"] for m in llm.requests[1].messages[-2:]] == ["hurry up", "task 7 is done"]
    told = [(e.step, e.content, e.data["synthetic"]) for e in of_type(result.events, E.NOTICE)]
    assert told == [(1, "before the start", False), (2, "hurry up", False), (2, "task 7 is done", True)]
    assert inbox.take() == []


def test_a_message_that_comes_in_is_read_before_a_notice_of_a_limit():
    inbox = Inbox()

    @tool
    def interrupt() -> str:
        """Leave a message."""
        inbox.put("hurry up")
        return "ok"

    for limits in (LoopLimits(max_steps=1), LoopLimits(max_turns=1)):
        with ScriptedLLM([call("interrupt"), "done"]) as llm:
            result = run_kernel(llm, [interrupt], inbox=inbox, limits=limits)
        first, second = [m["content"] for m in llm.requests[1].messages[-2:]]
        assert first == "hurry up"
        assert second.startswith("[Notice]")
        assert of_type(result.events, E.NOTICE)[0].step == 2


def test_the_compactor_is_asked_before_each_request():
    seen = []

    class Watching:
        async def compact(self, state):
            seen.append((state.turn_count, len(state.messages)))

    with ScriptedLLM([call("add", a=1, b=2), answer("", finish_reason="stop"), "3"]) as llm:
        run_kernel(llm, [add], compactor=Watching())
    assert seen == [(1, 1), (2, 3), (3, 4)]


def test_opening_notices_come_first():
    result = run_kernel(ScriptedLLM(["hi"]), start_notices=("Model: x.", "Repaired."))
    assert [(e.type.value, e.step, e.content) for e in result.events[1:3]] == [
        ("notice", 0, "Model: x."),
        ("notice", 0, "Repaired."),
    ]


def test_a_replayed_value_may_come_from_a_file():
    response = LLMResponse(None, [ToolCall("c", "add", {"a": 1, "b": 2})], finish_reason="tool_calls")
    values = {
        "1:model": LLMResponse.from_dict(response.to_dict()),
        "1:tool:c": ToolOutcome("three"),
        "2:model": replace(response, content="done", tool_calls=[], finish_reason="stop"),
    }
    result = run_kernel(Untouchable(), [add], journal=Replaying(values))
    assert (result.content, tool_texts(result.messages)) == ("done", ["three"])


def test_cost_of_a_tool_is_in_the_totals():
    spent = {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, "cost": 0.5}

    @tool
    def ask_another() -> str:
        """Ask."""
        return ToolOutcome("it says no", is_error=True, spent=spent)

    result = Agent(llm=ScriptedLLM([call("ask_another"), "done"]), tools=[ask_another]).run("go")
    alone = Agent(llm=ScriptedLLM(["done"])).run("go")
    assert result.usage.completion_tokens - 3 > alone.usage.completion_tokens
    assert result.state.ledger.cost == 0.5
    assert result.state.ledger.tokens == result.usage.total_tokens
    observation = next(e for e in result.events if e.type is E.OBSERVATION)
    assert observation.data["is_error"]
    assert observation.content == "it says no"


def test_the_run_waits_for_background_work_before_it_ends():
    inbox = Inbox()
    spent = {"usage": {"prompt_tokens": 700, "completion_tokens": 300, "total_tokens": 1000}}

    class Work:
        left = 2

        async def wait(self):
            if self.left:
                self.left -= 1
                inbox.put(f"part {2 - self.left} is ready", synthetic=True, spent=spent)

    agent = Agent(llm=ScriptedLLM(["first", "second", "third"]))
    run = agent.prepare("go", inbox=inbox)
    run._kit = replace(run._kit, background=Work())
    result = run.wait_sync()
    assert result.content == "third"
    assert [m["content"] for m in result.messages if m["role"] == "user"] == [
        "go",
        "part 1 is ready",
        "part 2 is ready",
    ]
    assert 2000 < result.usage.total_tokens < 2500
