"""Whatever a model, its server, the tools and the caller do: a run ends, and ends properly."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import E, check_result, drive, start

from pure_agent_loop import CancelToken, LLMError, LoopLimits, QueryState, ToolCall, tool
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.testing import FakeClock, ScriptedLLM, answer, call, check_history, deltas, raw_call

texts = st.sampled_from(["Hello there.", "好", "a\ud800b", "<think>hm</think>yes", " "])
arguments = st.fixed_dictionaries({"n": st.integers(0, 2)})
good_calls = st.builds(
    lambda name, args: call(name, **args), st.sampled_from(["note", "later", "slow"]), arguments
)
odd_calls = st.one_of(
    st.builds(lambda args: call("fails", **args), arguments),
    st.builds(lambda args: call("unknown", **args), arguments),
    st.just(call("note", n="many")),
    st.builds(lambda text: raw_call("note", text), st.sampled_from(["{", "[1]", '{"n": NaN}', "", "null"])),
    st.builds(ToolCall, st.sampled_from(["", "same"]), st.sampled_from(["note", "no\ud800"]), arguments),
)
answers = st.builds(
    lambda parts, reasoning, finish, usage: answer(
        *parts, reasoning=reasoning, finish_reason=finish, usage=usage
    ),
    st.lists(texts | good_calls | odd_calls, max_size=4),
    st.none() | st.just("thinking"),
    st.sampled_from([None, None, None, "length", "content_filter", "stop"]),
    st.sampled_from(["default", None]),
)
kinds = st.sampled_from(["overloaded", "rate_limit", "timeout", "auth", "bad_request", "unknown"])
errors = st.builds(lambda kind: LLMError("failed", kind=kind), kinds) | st.builds(
    ConnectionError, st.just("x")
)
broken = st.builds(lambda text, error: deltas(text, error), texts, errors)
unfinished = st.builds(lambda text: deltas(text, finish_reason=None), texts)
scripts = st.lists(answers | texts | good_calls | errors | broken | unfinished, min_size=1, max_size=8)
limits = st.builds(
    LoopLimits,
    max_steps=st.none() | st.integers(1, 3),
    timeout=st.none() | st.sampled_from([1.0, 10.0]),
    max_tokens=st.sampled_from([30, 200, 2000]),
    max_turns=st.none() | st.integers(1, 6),
    max_tool_calls=st.none() | st.integers(1, 4),
    max_seconds=st.none() | st.sampled_from([3.0, 60.0]),
    doom_loop_threshold=st.none() | st.integers(2, 3),
)
REASONS = {
    *("completed", "cancelled", "error", "token_limit", "max_steps", "max_tool_calls", "budget"),
    *("doom_loop", "output_limit", "content_filter"),
}


class Scene:
    """One run with everything random, watched at every event."""

    def __init__(self, script, limits, cancel_at):
        self.llm = ScriptedLLM(script, strict=False)
        self.clock = FakeClock()
        self.token = CancelToken()
        self.state = start()
        self.events = []
        self.limits, self.cancel_at = limits, cancel_at

    async def emit(self, event):
        self.events.append(event)
        data = self.state.to_dict()
        assert QueryState.from_dict(json.loads(json.dumps(data, allow_nan=False))) == self.state
        if len(self.events) == self.cancel_at:
            self.token.cancel()
            await asyncio.sleep(0)

    def tools(self):
        clock = self.clock

        @tool
        def note(n: int) -> str:
            """Write down."""
            return f"noted {n}"

        @tool
        async def later(n: int) -> int:
            """Some turns of the loop later."""
            for _ in range(n):
                await asyncio.sleep(0)
            return n

        @tool
        def slow(n: int) -> str:
            """Take some seconds."""
            clock.advance(n)
            return "done"

        @tool
        async def fails(n: int) -> str:
            """Fail."""
            raise ValueError(n)

        return [note, later, slow, fails]

    def run(self):
        seams = {"emit": self.emit, "clock": self.clock, "cancel_token": self.token, "limits": self.limits}
        running = drive(self.state, self.llm, self.tools(), retry=RetryConfig(), **seams)
        result = asyncio.run(asyncio.wait_for(running, 60))
        result.events.extend(self.events)
        return result


@settings(max_examples=120, deadline=None)
@given(scripts, limits, st.none() | st.integers(1, 25))
def test_every_run_ends_properly(script, limits, cancel_at):
    scene = Scene(script, limits, cancel_at)
    result = check_result(scene.run())
    assert result.stop_reason in REASONS
    assert [event.type for event in scene.events].count(E.LOOP_END) == 1
    for request in scene.llm.requests:
        assert check_history(request.messages) == []
    if cancel_at is None:
        assert result.stop_reason != "cancelled"
    if scene.clock.elapsed == 0:
        assert result.stop_reason != "budget"
    assert (result.stop_reason == "error") == (scene.events[-2].data.get("fatal") is True)
    assert result.usage.total_tokens == result.state.ledger.tokens


@settings(max_examples=25, deadline=None)
@given(scripts, limits)
def test_the_same_script_gives_the_same_run(script, limits):
    first, second = (Scene(script, limits, None).run() for _ in range(2))
    assert first.state == second.state
    assert first.messages == second.messages
