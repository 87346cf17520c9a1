"""Why runs end: each reason once, with a valid history and the work kept."""

from __future__ import annotations

import json
from functools import partial

import pytest
from tests.helpers import (
    E,
    add,
    check_events,
    check_result,
    may_call,
    of_type,
    run_agent,
    run_kernel,
    start,
    tool_texts,
    types,
)

from pure_agent_loop import (
    Agent,
    Budget,
    CancelToken,
    LLMError,
    LoopLimits,
    Permission,
    Price,
    QueryState,
    Tool,
    tool,
)
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.output.form import OutputForm, TypedOutput
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.testing import FakeClock, ScriptedLLM, answer, call, deltas, raw_call

FAR = Tool(None, name="far", parameters={}, external=True)
ADDS = [call("add", a=n, b=n) for n in range(6)]
CUT = answer("cut ", finish_reason="length")


def same_call(n):
    return [call("add", a=1, b=1)] * n


def denying(**more):
    return {"can_use_tool": lambda *_: Permission("deny", **more)}


def used_up(**used):
    budget = Budget(max_tokens=100, max_tool_calls=100, max_cost=100, prices={"*": Price(1, 1)})
    budget.add(**used)
    return {"budget": budget}


def cancelled():
    token = CancelToken()
    token.cancel()
    return {"cancel_token": token}


FREE = LoopLimits(timeout=None)
A_TOKEN = {"scripted": Price(1e6, 1e6)}  # costs one
OVER = "The budget is used up."
NOT_ALLOWED = "The required calls were denied."

# Each reason, and each way to it: reason, what the run is given, what the model says, the answer.
CASES = {
    "completed": ("completed", {}, [ADDS[1], "2."], "2."),
    "tokens": (
        "token_limit",
        {"limits": LoopLimits(max_tokens=15)},
        [ADDS[0]],
        "[Stopped: The token limit is reached (15).]",
    ),
    "tokens that are not enough for a last answer": (
        "token_limit",
        {"limits": LoopLimits(max_tokens=30)},
        [ADDS[0]],
        "[Stopped: The token limit is reached (30).]",
    ),
    "tokens that are enough for one more answer": (
        "token_limit",
        {"limits": LoopLimits(max_tokens=40)},
        [ADDS[0], "so far"],
        "so far\n\n[Stopped: The token limit is reached (40).]",
    ),
    "turns, and no tokens for a last answer": (
        "max_steps",
        {"limits": LoopLimits(max_turns=1, max_tokens=30)},
        [ADDS[0]],
        "[Stopped: The step limit is reached (1).]",
    ),
    "turns": (
        "max_steps",
        {"limits": LoopLimits(max_turns=2)},
        [*ADDS[:2], "so far"],
        "so far\n\n[Stopped: The step limit is reached (2).]",
    ),
    "tool calls": (
        "max_tool_calls",
        {"limits": LoopLimits(max_tool_calls=2)},
        [ADDS[:2], "so far"],
        "so far\n\n[Stopped: The tool call limit is reached (2).]",
    ),
    "seconds": (
        "budget",
        {"limits": LoopLimits(max_seconds=5, timeout=None), "clock": FakeClock},
        [LLMError("busy", kind="overloaded", retry_after=10), ADDS[1], "so far"],
        f"so far\n\n[Stopped: {OVER}]",
    ),
    "money": (
        "budget",
        {"limits": LoopLimits(max_cost=10, prices=A_TOKEN)},
        [ADDS[1]],
        f"[Stopped: {OVER}]",
    ),
    "money that is enough for one more answer": (
        "budget",
        {"limits": LoopLimits(max_cost=40, prices=A_TOKEN)},
        [ADDS[1], "so far"],
        f"so far\n\n[Stopped: {OVER}]",
    ),
    "shared tokens": ("budget", partial(used_up, tokens=100), [], f"[Stopped: {OVER}]"),
    "shared calls": ("budget", partial(used_up, tool_calls=100), ["so far"], f"so far\n\n[Stopped: {OVER}]"),
    "shared money": ("budget", partial(used_up, cost=100), [], f"[Stopped: {OVER}]"),
    "shared while it runs": (
        "budget",
        partial(used_up, tokens=90),
        [ADDS[1]],
        f"[Stopped: {OVER}]",
    ),
    "doom loop": (
        "doom_loop",
        {},
        [*same_call(4), "I was stuck"],
        "I was stuck\n\n[Stopped: The model kept repeating the same calls.]",
    ),
    "cancelled": ("cancelled", cancelled, [], ""),
    "denied rounds": (
        "permission_denied",
        denying,
        [*ADDS[:3], "I may not"],
        f"I may not\n\n[Stopped: {NOT_ALLOWED}]",
    ),
    "denied with an interrupt": (
        "permission_denied",
        partial(denying, interrupt=True),
        [ADDS[1], "I may not"],
        f"I may not\n\n[Stopped: {NOT_ALLOWED}]",
    ),
    "waiting": ("waiting_permission", {"can_use_tool": lambda *_: "ask"}, [["I add. ", ADDS[1]]], ""),
    "waiting for a result": ("waiting_tool", {"tools": [FAR]}, [["I look. ", call("far")]], ""),
    "waiting, asked in vain": (
        "waiting_permission",
        {"can_use_tool": lambda *_: "ask", "on_ask": lambda _: "ask"},
        [ADDS[:2]],
        "",
    ),
    "error": ("error", {}, [ADDS[1], LLMError("gone", kind="auth")], ""),
    "of another form": (
        "invalid_output",
        {"output": TypedOutput(OutputForm(int), 1)},
        ["many", "a lot"],
        "a lot",
    ),
    "empty twice": ("error", {}, [answer(""), answer("")], ""),
    "output limit": (
        "output_limit",
        {},
        [CUT] * 4,
        "cut cut cut cut \n\n[Stopped: The answer was cut off at the output limit.]",
    ),
    "cut, then nothing": (
        "output_limit",
        {},
        [CUT, answer("")],
        "cut \n\n[Stopped: The answer was cut off at the output limit.]",
    ),
    "content filter": (
        "content_filter",
        {},
        [answer("I will", finish_reason="content_filter")],
        "I will\n\n[Stopped: The server's content filter cut the answer off.]",
    ),
}
BY_A_LIMIT = {"token_limit", "max_steps", "max_tool_calls", "budget", "doom_loop", "permission_denied"}


def test_the_table_has_every_reason():
    with_a_note = {*ENGLISH.stopped}
    assert {case[0] for case in CASES.values()} == {
        *with_a_note,
        *("completed", "cancelled", "error", "invalid_output", "waiting_permission", "waiting_tool"),
    }
    assert with_a_note - {"output_limit", "content_filter"} == BY_A_LIMIT
    assert set(CHINESE.stopped) == with_a_note
    assert {case[0] for case in CASES.values()} == {*STOP_REASONS} - {"handed_off", "backgrounded"}


@pytest.mark.parametrize("case", CASES)
def test_each_reason(case):
    reason, given, script, content = CASES[case]
    kit = dict(given() if callable(given) else given)
    kit = {name: value() if value is FakeClock else value for name, value in kit.items()}
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, kit.pop("tools", [add]), **{"limits": FREE, **kit})
    assert (result.stop_reason, result.content) == (reason, content)
    assert result.messages[0] == {"role": "user", "content": "go"}
    assert (result.state.failure is not None) == (reason in ("error", "invalid_output"))
    saved = json.loads(json.dumps(result.state.to_dict(), allow_nan=False))
    assert QueryState.from_dict(saved) == result.state
    if reason in BY_A_LIMIT:
        if not content.startswith("[Stopped"):
            assert not may_call(llm.requests[-1])
        assert of_type(result.events, E.ERROR) == []
    # Whatever the end was: the history goes on, and so does the state.
    with ScriptedLLM(["Hello again."]) as llm:
        again = check_result(Agent(llm=llm).run("again", result.messages))
    assert (again.content, of_type(again.events, E.NOTICE)) == ("Hello again.", [])  # nothing was repaired
    with ScriptedLLM(["Hello again."]) as llm:
        again = Agent(llm=llm).run("again", state=saved)
    check_result(again, result.state.turn_count + 1)
    assert (again.stop_reason, again.content) == ("completed", "Hello again.")


def test_budget():
    clock = FakeClock()

    @tool
    def work() -> str:
        """Take a minute."""
        clock.advance(60)
        return "done"

    with ScriptedLLM([call("work"), call("work"), "two minutes of work"]) as llm:
        result = run_kernel(llm, [work], clock=clock, limits=LoopLimits(max_seconds=100, timeout=None))
    assert result.stop_reason == "budget"
    assert result.content == "two minutes of work\n\n[Stopped: The budget is used up.]"
    assert result.state.ledger.seconds == 120


def test_cancelled_between_steps():
    token = CancelToken()

    @tool
    def stop() -> str:
        """Cancel."""
        token.cancel("enough")
        return "stopped"

    with ScriptedLLM([call("stop")]) as llm:
        result = run_kernel(llm, [stop], cancel_token=token)
    assert result.stop_reason == "cancelled"
    assert token.reason == "enough"


@pytest.mark.parametrize("finish", ["content_filter", "length"])
def test_an_empty_answer_that_was_cut_off(finish):
    with ScriptedLLM([answer("", finish_reason=finish)], strict=False) as llm:
        result = run_agent(llm)
    if finish == "content_filter":
        assert (result.stop_reason, len(llm.requests)) == ("content_filter", 1)
        assert result.content == ENGLISH.final_note.format(why=ENGLISH.stopped["content_filter"])
    else:
        assert (result.stop_reason, len(llm.requests)) == ("error", 2)
        assert result.content == ""


@pytest.mark.parametrize(
    ("prompts", "notice", "note"),
    [
        (
            ENGLISH,
            "[Notice] The step limit is reached. No more",
            "[Stopped: The step limit is reached (1).]",
        ),
        (CHINESE, "【提示】已达到步数上限。不能再使用工具", "【已停止：已达到步数上限 (1)。】"),
    ],
    ids=["en", "zh"],
)
def test_the_last_request_after_a_hard_limit_has_no_tools(prompts, notice, note):
    with ScriptedLLM([ADDS[1], ["It is 2.", ADDS[2]]]) as llm:
        result = run_kernel(llm, [add], limits=LoopLimits(max_turns=1), prompts=prompts)
    assert llm.requests[0].tools is not None
    assert not may_call(llm.requests[1])
    assert llm.requests[1].messages[-1]["content"].startswith(notice)
    assert result.content == f"It is 2.\n\n{note}"
    assert tool_texts(result.messages) == ["2"]
    assert result.messages[-1] == {"role": "assistant", "content": "It is 2."}
    assert (result.steps, result.events[-1].step) == (1, 2)


def test_a_last_request_that_fails_still_ends_with_the_limit():
    with ScriptedLLM([ADDS[1], LLMError("gone", kind="auth")]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_turns=1))
    assert result.stop_reason == "max_steps"
    assert result.content == "[Stopped: The step limit is reached (1).]"
    (error,) = of_type(result.events, E.ERROR)
    assert (error.data["fatal"], error.content) == (False, "gone")
    assert result.raise_for_error() is result


def test_an_empty_last_answer_ends_with_the_note_alone():
    with ScriptedLLM([ADDS[1], answer("")]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_turns=1))
    assert (result.stop_reason, result.content) == ("max_steps", "[Stopped: The step limit is reached (1).]")


def test_a_finished_answer_wins_over_a_limit_it_reaches():
    with ScriptedLLM(["done"]) as llm:
        result = run_agent(llm, limits=LoopLimits(max_turns=1, max_tokens=1))
    assert (result.stop_reason, result.content) == ("completed", "done")


def test_the_doom_loop_is_refused_before_it_ends_the_run():
    made = []

    @tool
    def look(where: str) -> str:
        """Look."""
        made.append(where)
        return "nothing"

    script = [call("look", where="here")] * 4
    with ScriptedLLM([*script, "nothing is here"]) as llm:
        result = run_agent(llm, [look])
    assert result.stop_reason == "doom_loop"
    assert made == ["here", "here"]
    third, fourth = tool_texts(result.messages)[2:]
    assert "you already made this same call 2 times in a row" in third
    assert "you already made this same call 3 times" in fourth
    failed = [event.data["is_error"] for event in of_type(result.events, E.OBSERVATION)]
    assert failed == [False, False, True, True]


def test_a_call_that_is_broken_again_and_again_is_a_doom_loop_too():
    with ScriptedLLM([*[raw_call("add", '{"a": ')] * 4, "I cannot"]) as llm:
        result = run_agent(llm, [add])
    assert result.stop_reason == "doom_loop"
    kinds = [text.splitlines()[1] for text in tool_texts(result.messages)]
    assert kinds == [f"Error type: {kind}" for kind in ["InvalidArguments"] * 2 + ["RepeatedCall"] * 2]


def test_calls_that_are_broken_in_different_ways_are_no_repetition():
    broken = [raw_call("add", "{" * (n + 1)) for n in range(5)]
    with ScriptedLLM([*broken, "I cannot"]) as llm:
        result = run_agent(llm, [add])
    assert result.stop_reason == "completed"
    assert all("InvalidArguments" in text for text in tool_texts(result.messages))


def test_after_a_refusal_something_else_may_be_done():
    with ScriptedLLM([*same_call(3), call("add", a=2, b=2), *same_call(2), "fine"]) as llm:
        result = run_agent(llm, [add])
    assert result.stop_reason == "completed"
    assert tool_texts(result.messages)[3:] == ["4", "2", "2"]


@pytest.mark.parametrize("fails", [True, False])
def test_wide_job_of_similar_calls_is_warned_twice_and_continues(fails):
    @tool
    def probe(host: str) -> str:
        """Look at a host."""
        if fails:
            raise ConnectionError("connection refused")
        return "Please log in to see this page. " * 20

    script = [call("probe", host=f"host-{n}") for n in range(30)]
    with ScriptedLLM([*script, "They are all alike."], tools_may_fail=True) as llm:
        result = run_agent(llm, [probe], limits=LoopLimits(max_steps=40))
    assert (result.stop_reason, result.content) == ("completed", "They are all alike.")
    told = [n for n, text in enumerate(tool_texts(result.messages), 1) if "going in circles" in text]
    assert told == [3, 6]
    failed = [event.data["is_error"] for event in of_type(result.events, E.OBSERVATION)]
    assert failed == [fails] * 30


def test_the_doom_loop_detection_can_be_switched_off():
    with ScriptedLLM([*same_call(6), "fine"]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(doom_loop_threshold=None))
    assert tool_texts(result.messages) == ["2"] * 6


def test_unknown_error_ends_the_run_with_its_type():
    with ScriptedLLM([RuntimeError("odd")]) as llm:
        result = run_agent(llm)
    assert result.stop_reason == "error"
    assert result.error == "The model client failed: RuntimeError: odd"
    with pytest.raises(LLMError, match="RuntimeError: odd") as caught:
        result.raise_for_error()
    assert isinstance(caught.value.original_error, RuntimeError)


def test_error_outside_the_model_is_typed_if_raised():
    class Fails:
        async def compact(self, state):
            raise KeyError("lost")

    result = run_kernel(ScriptedLLM([]), compactor=Fails())
    assert (result.stop_reason, types(result.events)) == ("error", ["loop_start", "error", "loop_end"])
    assert result.events[1].content == "KeyError: 'lost'"
    with pytest.raises(LLMError, match="The run failed: KeyError"):
        result.raise_for_error()


def test_a_state_that_has_stopped_does_nothing_more():
    llm = ScriptedLLM(["hi"])
    first = run_kernel(llm)
    again = run_kernel(llm, state=first.state)
    assert types(again.events) == ["loop_start", "loop_end"]
    assert (again.content, again.stop_reason) == ("hi", "completed")


@pytest.mark.anyio
async def test_a_sink_that_fails_does_not_hide_and_leaves_a_valid_state():
    seen = []

    async def emit(event):
        seen.append(event)
        if event.type is E.OBSERVATION:
            raise OSError("disk full")

    state = start()
    await run_loop(state, Kit(ScriptedLLM([ADDS[1]]), emit=emit, prompts=ENGLISH))
    assert state.stop_reason == "error"
    check_events(seen)
    assert seen[-2].content == "OSError: disk full"


def test_text_with_calls_is_a_thought_and_not_the_answer():
    with ScriptedLLM([["I add. ", ADDS[1]], "It is 2."]) as llm:
        result = run_agent(llm, [add])
    assert [event.content for event in of_type(result.events, E.THOUGHT)] == ["I add. ", "It is 2."]
    assert result.content == "It is 2."


def test_the_first_stop_reason_stays():
    state = QueryState()
    state.stop("max_steps")
    state.stop("cancelled")
    assert state.stop_reason == "max_steps"


def test_partial_answers_of_failed_requests_are_dropped():
    with ScriptedLLM([deltas("half an ans", LLMError("cut", kind="connection")), "whole answer"]) as llm:
        result = run_agent(llm)
    assert result.content == "whole answer"
    (retry,) = of_type(result.events, E.RETRY)
    assert retry.data["discard"] is True
    assert len(result.messages) == 2
