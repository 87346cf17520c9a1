"""Parts: the table of their states, and what becomes of the fragments of real answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import NO_WAIT, E, add, check_events, check_result, drive, of_type, run_kernel, start

from pure_agent_loop import (
    Agent,
    CancelToken,
    ConfigError,
    LLMError,
    LoopLimits,
    Part,
    PartTransitionError,
    tool,
)
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.parts import TRANSITIONS, change_of
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import FakeClock, Gate, ScriptedLLM, answer, call, deltas
from pure_agent_loop.tool import ToolRegistry

pytestmark = pytest.mark.anyio

STATES = ["pending", "running", "completed", "error"]
LEGAL = [
    ("pending", "running"),
    ("pending", "error"),
    ("running", "completed"),
    ("running", "error"),
    ("running", "backgrounded"),
]
ILLEGAL = [(a, b) for a in STATES for b in STATES if (a, b) not in LEGAL]


def part(state="pending", **more):
    return Part("msg_1.1", "s", "msg_1", "tool", "add", state, call_id="c", input={"a": 1}, **more)


# -- the table --------------------------------------------------------------------------------------


def test_the_table():
    assert {(a, b) for a, all_ in TRANSITIONS.items() for b in all_} == set(LEGAL)
    assert len(ILLEGAL) == 12


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_legal_changes(before, after):
    old = part(before, created=1.0)
    new = old.to(after, 5.0, "out")
    assert (new.state, new.output) == (after, "out")
    assert (new.started, new.ended) == ((5.0, None) if after == "running" else (None, 5.0))
    assert (old.state, old.output, old.started, old.ended) == (before, "", None, None)
    assert old.to(after, 5.0).output == ""
    assert part(before, output="so far").to(after, 5.0).output == "so far"
    same = ("id", "session_id", "message_id", "type", "tool", "call_id", "input", "created")
    assert all(getattr(old, name) == getattr(new, name) for name in same)


@pytest.mark.parametrize(("before", "after"), [*ILLEGAL, ("pending", "lost"), ("running", "")])
def test_illegal_changes_raise(before, after):
    allowed = ", ".join(sorted(TRANSITIONS[before])) or "nothing"
    with pytest.raises(PartTransitionError, match=rf"from {before} to {after}; allowed: {allowed}"):
        part(before).to(after, 1.0)


def test_a_part_does_not_change():
    with pytest.raises(FrozenInstanceError):
        part().state = "running"


@given(
    st.lists(st.sampled_from(STATES), max_size=6),
    st.text(),
    st.none() | st.dictionaries(st.text(), st.text()),
)
def test_any_way_through_the_table(wanted, output, given_input):
    """Whatever is asked for: it raises and changes nothing, or follows the table and survives JSON."""
    now, one = 0.0, Part("i", "s", "m", "text", input=given_input)
    for state in wanted:
        now += 1
        try:
            changed = one.to(state, now, output)
        except PartTransitionError:
            assert (one.state, state) in ILLEGAL
            continue
        assert (one.state, state) in LEGAL
        one = changed
        assert Part.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    times = [each for each in (one.created, one.started, one.ended) if each is not None]
    assert times == sorted(times)
    assert (one.ended is None) == (one.state in ("pending", "running"))


# -- the parts of runs ------------------------------------------------------------------------------


def told(result, *kinds):
    """The states that each part went through, with its last output: by type, or tool name."""
    seen = {}
    for event in of_type(result.events, E.PART):
        each = event.data["part"]
        seen.setdefault(each["id"], []).append(each)
    return [
        (all_[-1]["tool"] or all_[-1]["type"], [each["state"][0] for each in all_], all_[-1]["output"])
        for all_ in seen.values()
        if not kinds or all_[-1]["type"] in kinds
    ]


DONE, FAILED, REFUSED = ["p", "r", "c"], ["p", "r", "e"], ["p", "e"]


def test_an_answer_and_its_call():
    clock = FakeClock()

    @tool
    async def work(n: int) -> str:
        """Work."""
        clock.advance(5)
        return "worked"

    script = [answer("I work. ", call("work", n=1), reasoning="hm hm"), "Done it."]
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, [work], clock=clock, emit_reasoning=True)
    assert told(result) == [
        ("reasoning", DONE, "hm hm"),
        ("text", DONE, "I work. "),
        ("work", DONE, "worked"),
        ("text", DONE, "Done it."),
    ]
    last = of_type(result.events, E.PART)[8].data["part"]
    begun = clock.now() - 5
    assert last == {
        "id": "msg_1.call_1",
        "session_id": "",
        "message_id": "msg_1",
        "type": "tool",
        "state": "completed",
        "tool": "work",
        "call_id": "call_1",
        "input": {"n": 1},
        "output": "worked",
        "created": begun,
        "started": begun,
        "ended": clock.now(),
    }


def test_the_events_of_a_part_stand_where_it_changes():
    with ScriptedLLM([["I add. ", call("add", a=1, b=2)], "3"]) as llm:
        result = run_kernel(llm, [add])
    order = [
        f"{e.data['part']['type']} {e.data['part']['state']}" if e.type is E.PART else e.type.value
        for e in result.events
        if e.step == 1 and e.type not in (E.TOOL_CALL_DELTA,)
    ]
    assert order == [
        *("text pending", "text running", "text_delta", "text_delta", "text completed", "thought"),
        *("tool pending", "action", "tool running", "tool completed", "observation", "step_end"),
    ]


def test_thinking_that_is_not_shown_has_no_part():
    with ScriptedLLM([answer("Yes.", reasoning="hm")]) as llm:
        assert told(run_kernel(llm)) == [("text", DONE, "Yes.")]


def test_reasoning_and_text_by_turns_are_parts_of_their_own():
    script = [deltas(Delta(reasoning="one"), "a", Delta(reasoning="two"), "b")]
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, emit_reasoning=True)
    kinds = [(kind, states) for kind, states, _ in told(result)]
    assert kinds == [(kind, DONE) for kind in ("reasoning", "text", "reasoning", "text")]


def test_thinking_ends_with_the_first_piece_of_a_call():
    script = [answer(call("add", a=1, b=2), reasoning="hm"), "3"]
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, [add], emit_reasoning=True)
    states = []
    for event in result.events:
        if event.type is E.TOOL_CALL_DELTA:
            break
        if event.type is E.PART and event.data["part"]["type"] == "reasoning":
            states.append(event.data["part"]["state"])
    assert states == ["pending", "running", "completed"]


def test_part_discarded_by_a_retry_has_failed():
    cut = LLMError("cut", kind="connection")
    with ScriptedLLM([deltas("half ", cut), deltas("half an ", cut), "whole"]) as llm:
        result = run_kernel(llm)
    assert told(result) == [("text", FAILED, "half "), ("text", FAILED, "half an "), ("text", DONE, "whole")]


def test_part_ended_by_an_error_has_failed():
    with ScriptedLLM([deltas("half ", LLMError("no", kind="auth"))]) as llm:
        result = run_kernel(llm)
    assert (told(result), result.stop_reason) == ([("text", FAILED, "half ")], "error")


def test_calls_that_fail_are_refused_or_broken():
    @tool
    async def fails() -> str:
        """Fail."""
        raise ValueError("no")

    calls = [call("fails"), call("unknown"), call("add", a="x", b=1), call("add", a=1, b=1)]
    permit = lambda name, args, _: "deny" if args == {"a": 1, "b": 1} else "allow"  # noqa: E731 - short
    with ScriptedLLM([calls, "done"], tools_may_fail=True) as llm:
        result = run_kernel(llm, [fails, add], can_use_tool=permit)
    found = [
        (kind, states, text.splitlines()[1].removeprefix("Error type: "))
        for kind, states, text in told(result, "tool")
    ]
    assert found == [
        ("fails", FAILED, "ValueError"),
        ("unknown", FAILED, "UnknownTool"),
        ("add", FAILED, "InvalidArguments"),
        ("add", REFUSED, "PermissionDenied"),
    ]


async def test_parts_of_a_cancelled_round():
    token, gate = CancelToken(), Gate()

    @tool
    async def quick() -> str:
        """At once."""
        return "quick"

    @tool
    async def waits() -> str:
        """Wait for ever."""
        await gate.pass_through()

    with ScriptedLLM([["Both. ", call("quick"), call("waits"), call("quick")]]) as llm:
        run = asyncio.create_task(drive(start(), llm, [quick, waits], cancel_token=token))
        await gate.reached.wait_async()
        for _ in range(5):
            await asyncio.sleep(0)
        token.cancel()
        result = check_result(await run)
    assert told(result, "tool") == [
        ("quick", DONE, "quick"),
        ("waits", FAILED, ENGLISH.tool_cancelled),
        ("quick", FAILED, "quick"),
    ]


async def test_parts_of_a_cancelled_answer():
    token, gate = CancelToken(), Gate()
    with ScriptedLLM([deltas("Once upon ", gate)]) as llm:
        run = asyncio.create_task(drive(start(), llm, cancel_token=token))
        await gate.reached.wait_async()
        token.cancel()
        result = check_result(await run)
    assert told(result) == [("text", FAILED, "Once upon ")]


@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.parametrize("failure", ["cancel", "error"])
async def test_a_reader_that_ends_the_run_at_any_part_event(number, failure):
    """No part is changed twice: the reason of the end stays what it was."""
    token, events = CancelToken(), []

    async def emit(event):
        events.append(event)
        if len([each for each in events if each.type is E.PART]) == number and event.type is E.PART:
            if failure == "error":
                raise OSError("disk full")
            token.cancel()
            await asyncio.Event().wait()

    script = [answer("I add. ", call("add", a=1, b=2), reasoning="hm"), "3"]
    kit = Kit(ScriptedLLM(script), ToolRegistry([add]), emit=emit, cancel_token=token, retry=NO_WAIT,
              prompts=ENGLISH, emit_reasoning=True)  # fmt: skip
    state = start()
    await run_loop(state, kit)
    check_events(events)
    assert state.stop_reason == ("cancelled" if failure == "cancel" else "error")
    if failure == "error":
        assert "disk full" in of_type(events, E.ERROR)[0].content


def test_part_ids_are_unique_whatever_becomes_of_the_history():
    class Forgetful:
        async def compact(self, state):
            if len(state.messages) > 3:
                del state.messages[1:3]

    script = [[f"Step {n}. ", call("add", a=n, b=n)] for n in range(4)]
    with ScriptedLLM([*script, "done"]) as llm:
        result = run_kernel(llm, [add], compactor=Forgetful())
    assert [states for _, states, _ in told(result)] == [DONE] * 9


def test_part_ids_are_unique_over_runs_of_one_state():
    seen = []
    state = start()
    for limits in (LoopLimits(max_turns=1), LoopLimits(max_turns=1), LoopLimits()):
        first = state.turn_count + 1
        with ScriptedLLM([["So. ", call("add", a=1, b=1)], "Well."], strict=False) as llm:
            result = asyncio.run(drive(state, llm, [add], limits=limits))
        check_result(result, first)
        seen += {event.data["part"]["id"] for event in of_type(result.events, E.PART)}
        state.resume()
    assert len(seen) == len(set(seen))


async def test_no_part_gets_lost_for_a_slow_reader_whose_run_is_cancelled():
    """Wherever the stream is full when the run is cancelled: what was told before arrives whole."""
    for length in range(100, 132):  # the 128th event, after which the run waits, is another one each time
        token = CancelToken()
        said = deltas(
            *["w "] * length, Delta(reasoning="hm"), "b", call("add", a=1, b=1), call("add", a=2, b=2)
        )
        agent = Agent(llm=ScriptedLLM([said, "x"]), tools=[add], emit_reasoning_events=True)
        stream = agent.arun_stream("go", cancel_token=token)
        events = [await anext(stream)]
        for _ in range(50):
            await asyncio.sleep(0)
        token.cancel()
        events += [event async for event in stream]
        assert events[-1].data["stop_reason"] == "cancelled"
        check_events(events)


async def test_reader_may_change_its_event_data():
    seen = []
    agent = Agent(llm=ScriptedLLM([call("add", a=1, b=2), answer("Three.")]), tools=[add])
    async for event in agent.arun_stream("Add."):
        if event.type is E.PART:
            seen.append((event.part["type"], event.part["state"]))
            event.part.clear()
    states = ("pending", "running", "completed")
    assert seen == [("tool", each) for each in states] + [("text", each) for each in states]


def test_a_part_is_made_in_the_order_of_its_row_and_needs_no_clock():
    made = Part("p1", "s1", "m1", "tool", "search", "pending")
    assert (made.tool, made.state) == ("search", "pending")
    ended = made.to("running").to("completed", output="found")
    assert (ended.state, ended.output, ended.started <= ended.ended) == ("completed", "found", True)
    assert Part.from_dict(ended.to_dict()) == ended


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "picture"},
        {"state": "lost"},
        {"type": "pending"},
        {"id": 5},
        {"tool": None},
        {"session_id": b"s"},
    ],
)
def test_a_part_with_a_value_that_is_none_is_refused_when_made(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"Part.{name}"):
        Part(**{"id": "i", "session_id": "s", "message_id": "m", "type": "text", **wrong})


def test_part_record_keeps_text_and_thinking_but_not_results():
    for kind in ("text", "reasoning"):
        written = Part("i", "s", "m", kind).to("running", 1.0).to("completed", 2.0, "all of it")
        assert change_of(written.to_dict())["output"] == "all of it"
    assert "output" not in change_of(part().to("running", 1.0).to("completed", 2.0, "result").to_dict())
