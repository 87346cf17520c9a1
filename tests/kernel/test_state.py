"""The state of a run: plain data at every moment, and enough to go on from."""

from __future__ import annotations

import json

import pytest
from tests.helpers import E, add, check_result, drive, run_kernel, start, tool_texts, types

from pure_agent_loop import LoopLimits, QueryState, TokenUsage, ToolCall, tool
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import NoCompaction
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM, answer, call, check_history, raw_call

pytestmark = pytest.mark.anyio


def there_and_back(state):
    return QueryState.from_dict(json.loads(json.dumps(state.to_dict(), allow_nan=False)))


class Snapshots(MemoryJournal):
    """Takes the state apart at every seam of a run and keeps each copy under the name of the moment."""

    def __init__(self):
        self.state = start()
        self.kept = []

    def note(self, moment):
        text = json.dumps(self.state.to_dict(), allow_nan=False)
        assert QueryState.from_dict(json.loads(text)) == self.state, moment
        self.kept.append((moment, text))

    def of(self, prefix):
        return [QueryState.from_dict(json.loads(text)) for moment, text in self.kept if prefix in moment]

    async def emit(self, event):
        self.note(event.type.value)

    async def compact(self, state):
        self.note("compact")

    async def effect(self, key, run, about=None):
        self.note(f"before {key}")
        value = await run()
        self.note(f"after {key}")
        return value


@tool
def greet(name: str) -> str:
    """Greet."""
    return f"hello {name} \ud800"


SCRIPT = [
    answer("First", call("add", a=1, b=2), call("greet", name="ä"), reasoning="hm"),
    [raw_call("add", "{"), call("nothing"), call("add", a=1, b=2)],
    answer("", usage=None),
    answer("cut", finish_reason="length", usage=TokenUsage(1, 2, 3, 4, 5)),
    [call("add", a=1, b=2), call("add", a=1, b=2)],
    " off",
]
LIMITS = LoopLimits(max_steps=2, max_turns=5)


async def snapshots_of(script=SCRIPT, limits=LIMITS):
    taken = Snapshots()
    with ScriptedLLM(script) as llm:
        result = await drive(
            taken.state, llm, [add, greet], emit=taken.emit, compactor=taken, journal=taken, limits=limits
        )
    return taken, result


async def test_the_state_goes_there_and_back_at_every_moment():
    taken, result = await snapshots_of()
    assert result.stop_reason == "max_steps"
    moments = [moment for moment, _ in taken.kept]
    assert len(moments) > 50
    for prefix in ("compact", "before 1:model", "after 1:tool:call_2", "step_end", "loop_end"):
        assert prefix in moments
    restored = taken.of("loop_end")[0]
    assert restored.content == " off\n\n[Stopped: The step limit is reached (5).]"
    assert restored.history() == result.messages


@pytest.mark.parametrize("boundary", range(5))
async def test_run_resumed_at_any_step_boundary_ends_the_same(boundary):
    taken, whole = await snapshots_of()
    state = taken.of("step_end")[boundary]
    assert state.turn_count == boundary + 1
    with ScriptedLLM(SCRIPT[boundary + 1 :]) as llm:
        result = await drive(state, llm, [add, greet], limits=LIMITS)
    check_result(result, first_step=boundary + 2)
    assert result.messages == whole.messages
    assert (result.content, result.stop_reason) == (whole.content, whole.stop_reason)
    assert (result.steps, result.usage) == (whole.steps, whole.usage)


async def test_a_run_that_is_resumed_between_an_answer_and_its_results_makes_exactly_the_missing_calls():
    made = []

    @tool
    def note(text: str) -> str:
        """Write down."""
        made.append(text)
        return f"noted {text}"

    state = start()
    calls = [ToolCall(f"c{n}", "note", {"text": str(n)}) for n in range(3)]
    state.begin_step()
    state.add_response(LLMResponse("three notes", calls), TokenUsage.zero())
    state.add_result("c1", "noted before")
    with ScriptedLLM(["done"]) as llm:
        result = await drive(there_and_back(state), llm, [note])
    check_result(result)
    assert sorted(made) == ["0", "2"]
    assert tool_texts(result.messages) == ["noted 0", "noted before", "noted 2"]
    assert [m["tool_call_id"] for m in result.messages if m["role"] == "tool"] == ["c0", "c1", "c2"]
    assert types(result.events)[:4] == ["loop_start", "action", "action", "observation"]
    assert (result.steps, result.content) == (2, "done")


async def test_limit_counts_survive_the_plain_form():
    taken, _ = await snapshots_of()
    state = taken.of("step_end")[1]
    assert state.ledger.tool_calls == 5
    with ScriptedLLM(["enough"]) as llm:
        result = await drive(state, llm, [add, greet], limits=LoopLimits(max_tool_calls=5))
    assert check_result(result, first_step=3).stop_reason == "max_tool_calls"


async def test_a_reason_found_in_a_step_survives_a_restart():
    taken = Snapshots()
    script = [call("add", a=1, b=1)] * 4
    with ScriptedLLM([*script, "stuck"]) as llm:
        await drive(taken.state, llm, [add], emit=taken.emit)
    state = taken.of("step_end")[3]
    assert state.must_close == "doom_loop"
    with ScriptedLLM(["stuck"]) as llm:
        result = check_result(await drive(state, llm, [add]), first_step=5)
    assert result.stop_reason == "doom_loop"


class TestRules:
    """What the methods of the state promise on their own."""

    def test_results_come_in_call_order_whatever_order_they_were_known_in(self):
        state = QueryState()
        state.add_user("go")
        calls = [ToolCall(name, "t", {}) for name in "abc"]
        state.add_response(LLMResponse(None, calls), TokenUsage(1, 2, 3))
        for name in "cab":
            assert len(state.messages) == 2
            state.add_result(name, f"result {name}")
        assert tool_texts(state.messages) == ["result a", "result b", "result c"]
        assert (state.pending, state.results, state.ledger.tool_calls) == ([], {}, 3)
        assert state.usage == TokenUsage(1, 2, 3)

    def test_close_gives_every_open_call_a_result(self):
        state = QueryState()
        calls = [ToolCall(name, "t", {}) for name in "ab"]
        state.add_response(LLMResponse("x", calls), TokenUsage.zero())
        state.add_result("b", "known")
        state.close("lost")
        assert tool_texts(state.messages) == ["lost", "known"]
        assert check_history(state.history()) == []
        state.close("again")
        assert len(state.messages) == 3

    def test_no_call_is_taken_from_a_last_answer(self):
        state = QueryState()
        state.begin_closing("max_steps", ENGLISH)
        state.add_response(LLMResponse("bye", [ToolCall("a", "t", {})]), TokenUsage.zero())
        assert state.pending == []
        assert state.messages[-1] == {"role": "assistant", "content": "bye"}

    def test_ids_of_the_given_history_are_taken(self):
        state = start(
            messages=[
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "t"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "x"},
            ]
        )
        state.add_response(LLMResponse(None, [ToolCall("a", "t", {})]), TokenUsage.zero())
        assert state.pending[0].id == "a_2"

    def test_a_partial_answer_has_no_calls(self):
        state = QueryState()
        partial = LLMResponse("half", [ToolCall("a", "t", {})], TokenUsage(1, 1, 2), reasoning_content="hm")
        state.keep_partial(partial)
        assert state.messages == [{"role": "assistant", "content": "half", "meta": {"reasoning": "hm"}}]
        assert state.history() == [{"role": "assistant", "content": "half"}]
        assert (state.content, state.usage.total_tokens, state.ledger.tokens) == ("half", 2, 2)


async def test_the_default_compactor_changes_nothing():
    state = start()
    before = state.to_dict()
    await NoCompaction().compact(state)
    assert state.to_dict() == before


def test_a_compactor_may_change_the_history():
    class Forgetful:
        async def compact(self, state):
            if len(state.messages) > 3:
                del state.messages[1:3]

    with ScriptedLLM([call("add", a=1, b=1), call("add", a=2, b=2), "done"]) as llm:
        result = run_kernel(llm, [add], compactor=Forgetful())
    assert [len(request.messages) for request in llm.requests] == [1, 3, 3]
    assert [event.type for event in result.events].count(E.STEP_END) == 3
