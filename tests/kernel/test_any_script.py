"""Whatever a model, its server, the tools and the caller do: a run ends, and ends properly.

Each run is made from its number alone. ``PAL_RUN=1234 pytest tests/kernel/test_any_script.py`` repeats one.
The commit chooses the first number. Each case makes runs until its share of ``PAL_SECONDS`` is used and every
stop reason was seen; ``PAL_RUNS`` sets how many runs each case makes instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from contextlib import aclosing
from contextvars import ContextVar
from itertools import count

import pytest
from tests.helpers import E, check_events, check_result, drive, start
from tests.seeds import seed_of_commit

from pure_agent_loop import Budget, CancelToken, LLMError, LoopLimits, Price, QueryState, ToolCall, tool
from pure_agent_loop.hooks import BeforeTool, Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import ToolRetries
from pure_agent_loop.permissions import Permission, PermissionPolicy, PermissionRules
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.run import resumed_state
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.testing import FakeClock, ScriptedLLM, answer, call, check_history, deltas, raw_call

CASES, RUNS = 4, int(os.environ.get("PAL_RUNS", "0"))
SECONDS = float(os.environ.get("PAL_SECONDS", "30"))
LEGS = 4  # how often a run is taken up again
TEXTS = ["Hello there.", "好", "a\ud800b", "<think>hm</think>yes", " ", "The same old story.", "Done."]
FAULTS = ["overloaded", "rate_limit", "timeout", "auth", "bad_request", "unknown", "incomplete"]
FINISHES = [None, None, None, None, "length", "content_filter", "stop", "error"]
TOOLS = ["note", "note", "look", "later", "slow", "fails", "blocking", "forbidden", "stop", "say", "unknown"]
LIMITS_ENDED = {"token_limit", "max_steps", "max_tool_calls", "budget", "doom_loop", "permission_denied"}
REASONS = {
    *("completed", "cancelled", "error", "output_limit", "content_filter", SUSPENDED),
    *LIMITS_ENDED,
}


class Once(MemoryJournal):
    """A journal that counts the effects."""

    def __init__(self):
        self.counts = Counter()

    async def effect(self, key, run, about=None):
        self.counts[key] += 1
        return await run()


class Scene:
    """One run with everything random, and the questions to it afterwards."""

    def __init__(self, number):
        self.rng = rng = random.Random(number)
        self.clock, self.token, self.inbox, self.journal = FakeClock(), CancelToken(), Inbox(), Once()
        self.may_cancel = rng.random() < 0.3
        self.cancel_at = rng.randint(1, 60) if self.may_cancel and rng.random() < 0.5 else None
        script = [self.item() for _ in range(rng.randint(1, 6))]
        if rng.random() < 0.6:  # the last item answers all further requests
            script.append(rng.choice([*TEXTS[:3], *TEXTS[:3], answer("cut", finish_reason="length")]))
        self.llm = Model(script, strict=False)
        self.mode = rng.choice(["auto", "auto", "auto", "ask", "plan", "bypass"])
        self.made, self.put, self.events, self.reasons = [], [], [], []
        self.state = start()

    # -- what happens -----------------------------------------------------------------------------

    def chance(self, often):
        return self.rng.random() < often

    def one_call(self):
        rng = self.rng
        odd = rng.random()
        if odd < 0.04:
            return raw_call("note", rng.choice(["{", "[1]", '{"n": NaN}', "", "null"]))
        if odd < 0.07:
            return ToolCall(rng.choice(["", "same"]), rng.choice(["note", "no\ud800"]), {"n": 1})
        return call(rng.choice(TOOLS), n="many" if odd < 0.1 else rng.randint(0, 2))

    def item(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.06:
            return LLMError("failed", kind=rng.choice(FAULTS))
        if kind < 0.1:
            return rng.choice([ConnectionError("x"), RuntimeError("odd")])
        if kind < 0.14:
            return deltas(rng.choice(TEXTS), LLMError("cut", kind=rng.choice(FAULTS)))
        if kind < 0.17:
            return deltas(rng.choice(TEXTS), finish_reason=None)
        parts = [rng.choice(TEXTS)] if rng.random() < 0.5 else []
        parts += [self.one_call() for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        usage = None if rng.random() < 0.2 else "default"
        reasoning = "thinking" if rng.random() < 0.2 else None
        said = answer(*parts, reasoning=reasoning, finish_reason=rng.choice(FINISHES), usage=usage)
        return said if kind < 0.8 else lambda *_: self.disturb() or said

    def disturb(self):
        """Something happens from outside, wherever this is called."""
        what = self.rng.random()
        if what < 0.5:
            self.put.append(f"message {len(self.put)}")
            self.inbox.put(self.put[-1], when="end" if what < 0.25 else "step")
        elif what < 0.7 and self.may_cancel:
            self.token.cancel()

    async def emit(self, event):
        self.events.append(event)
        if event.type in (E.STEP_END, E.LOOP_END) or self.chance(0.02):
            self.check_round_trip()
        if len(self.events) == self.cancel_at:
            self.token.cancel()
            await asyncio.sleep(0)
        elif self.chance(0.005):
            self.disturb()

    def verdict(self, *_):
        rng = self.rng
        kind = rng.random()
        if kind < 0.05:
            raise KeyError("no idea")
        given = "allow" if kind < 0.5 else "deny" if kind < 0.65 else "ask" if kind < 0.95 else "perhaps"
        if rng.random() < 0.6:
            return given
        args = rng.choice([None, {"n": 1}, {"n": "x"}, {1: {2}}])
        return Permission(given, "so it is", args, always=rng.random() < 0.3, interrupt=rng.random() < 0.2)

    async def later_verdict(self, *_):
        await asyncio.sleep(0)
        return self.verdict()

    def hooks(self):
        def before(name, args, context):
            kind = self.rng.random()
            if kind < 0.1:
                raise ValueError("hook")
            args["n"] = 0  # a copy: it changes nothing
            return BeforeTool(
                block="no" if kind < 0.2 else "",
                args={"n": 2} if kind > 0.8 else None,
                context=self.told() if 0.4 < kind < 0.6 else "",
            )

        async def after(name, args, result, context):
            kind = self.rng.random()
            if kind < 0.1:
                raise ValueError("hook")
            await asyncio.sleep(0)
            return result.upper() if kind < 0.3 else None

        def on_stop(content, context):
            return "go on" if self.chance(0.4) else None

        return Hooks([before], [after], [on_stop], max_stops=self.rng.randint(0, 2))

    def told(self):
        self.put.append(f"message {len(self.put)}")
        return self.put[-1]

    def limits(self):
        rng = self.rng
        return LoopLimits(
            max_steps=rng.choice([None, 1, 2, 3]),
            timeout=rng.choice([None, 1.0, 10.0]),
            max_tokens=rng.choice([30, 200, 2000, 2000, None]),
            max_turns=rng.choice([2, 4, 6, 9]),
            max_tool_calls=rng.choice([None, None, 2, 4, 8]),
            max_seconds=rng.choice([None, None, 3.0, 60.0]),
            max_cost=rng.choice([None, 50.0]),
            prices={"*": Price(1e6, 1e6)},
            doom_loop_threshold=rng.choice([None, 2, 3]),
        )

    def kit(self):
        rng = self.rng
        ask = rng.choice([None, None, self.verdict, self.later_verdict])
        return {
            "emit": self.emit,
            "clock": self.clock,
            "cancel_token": self.token,
            "limits": self.limits(),
            "inbox": self.inbox,
            "journal": self.journal,
            "retry": RetryConfig(max_retries=2),
            "permissions": PermissionPolicy(self.mode, PermissionRules(["forbidden"], ["later"], ["note"])),
            "can_use_tool": rng.choice([None, None, self.verdict, self.later_verdict]),
            "on_ask": ask,
            "hooks": self.hooks() if rng.random() < 0.4 else Hooks(),
            "budget": Budget(max_tool_calls=rng.randint(1, 5)) if rng.random() < 0.1 else None,
            "tool_retries": ToolRetries(rng.choice([1, 1, 2])),
            "tool_rounds": rng.choice([None, None, None, 1]),
            "after_tools": rng.choice(["", "", "Think."]),
            "emit_reasoning": rng.random() < 0.5,
        }

    # -- the run and its checks -------------------------------------------------------------------

    def check_round_trip(self):
        data = self.state.to_dict()
        assert QueryState.from_dict(json.loads(json.dumps(data, allow_nan=False))) == self.state

    async def run(self):
        """All legs of the run, each checked."""
        kit = self.kit()
        result = await self.leg(kit, 1)
        for _ in range(LEGS):
            if result.stop_reason != SUSPENDED and not self.chance(0.15):
                break
            self.state = resumed_state(*self.go_on(), ENGLISH)[0]
            if self.may_cancel:
                self.token = kit["cancel_token"] = CancelToken()
            first = self.state.step + (not self.state.pending)
            result = await self.leg(kit, first)
        return result

    def go_on(self):
        """As another process would: from JSON, with the questions answered, or with another task."""
        saved = json.loads(json.dumps(self.state.to_dict()))
        for question in QueryState.from_dict(saved).questions:
            copy = QueryState.from_dict(saved)
            if self.chance(0.8):
                kind = Permission(
                    self.rng.choice(["allow", "allow", "deny"]),
                    always=self.chance(0.3),
                    interrupt=self.chance(0.2),
                    updated_args={"n": 2} if self.chance(0.2) else None,
                )
                copy.answer_permission(question.call_id, kind)
                saved = json.loads(json.dumps(copy.to_dict()))
        return (
            "something else" if self.chance(0.2) or self.state.stop_reason == "completed" else None
        ), saved

    async def leg(self, kit, first_step):
        self.events = []
        before = len(self.made)
        # In one event loop for all runs; a hanging run is stopped by the time limit of its case.
        await drive(self.state, self.llm, KIT, **kit)
        result = AgentResult.from_state(self.state, self.events)
        self.check(check_result(result, first_step), self.made[before:])
        return result

    def check(self, result, made):
        reason, events = result.stop_reason, self.events
        self.reasons.append(reason)
        assert reason in REASONS
        assert [event.type for event in events].count(E.LOOP_END) == 1
        assert all(times == 1 for key, times in self.journal.counts.items() if ":tool:" in key)
        assert "forbidden" not in made
        assert self.mode != "plan" or not made
        if not self.token.is_cancelled and not self.may_cancel:
            assert reason != "cancelled"
        assert (reason == "error") == any(e.type is E.ERROR and e.data["fatal"] for e in events)
        assert result.usage.total_tokens == result.state.ledger.tokens
        assert bool(result.questions) == (reason == SUSPENDED)
        if reason in LIMITS_ENDED:
            why, _, _ = ENGLISH.stopped[reason].partition("{limit}")  # its number is in brackets
            assert ENGLISH.final_note.format(why=why).rstrip("]") in result.content
        self.check_messages()

    def check_messages(self):
        """Nothing that was said to the agent is lost or said twice."""
        inbox = list(self.inbox._waiting)
        places = [*self.state.messages, *({"content": each.text} for each in [*self.state.held, *inbox])]
        found = Counter(each["content"] for each in places)
        assert all(found[text] == 1 for text in self.put), (self.put, found)


NOW: ContextVar[Scene] = ContextVar("the scene that is played")


def made(name):
    NOW.get().made.append(name)


@tool
async def note(n: int) -> str:
    """Write down."""
    made("note")
    return f"noted {n}"


@tool(read_only=True)
async def look(n: int) -> str:
    """Look, and change nothing."""
    return "seen \ud800"


@tool
async def later(n: int) -> int:
    """Some turns of the loop later."""
    made("later")
    for _ in range(n):
        await asyncio.sleep(0)
    return n


@tool(idempotent=True)
async def slow(n: int) -> str:
    """Take some seconds."""
    made("slow")
    NOW.get().clock.advance(n)
    return "done"


@tool
async def fails(n: int) -> str:
    """Fail."""
    made("fails")
    raise SystemExit(n) if n == 2 else ValueError(n)


@tool
def blocking(n: int) -> str:
    """Work in a thread."""
    made("blocking")
    return "ok"


@tool
async def forbidden(n: int) -> str:
    """Never."""
    made("forbidden")
    return "secret"


@tool
async def stop(n: int) -> str:
    """Disturb from inside a tool, or be stopped by Ctrl-C."""
    made("stop")
    if n == 2 and NOW.get().may_cancel:
        raise KeyboardInterrupt
    NOW.get().disturb()
    await asyncio.sleep(0)
    return "stopped"


@tool
async def say(n: int) -> str:
    """Say something that is not short."""
    made("say")
    return "all work and no play " * 20


KIT = [note, look, later, slow, fails, blocking, forbidden, stop, say]  # built once: schemas take time


class Model(ScriptedLLM):
    """Checks each request; its tools are not copied, which would take most of the time."""

    async def chat_stream(self, messages, tools=None, **kwargs):
        assert check_history(messages) == []
        async with aclosing(super().chat_stream(messages, None, **kwargs)) as pieces:
            async for delta in pieces:
                yield delta


async def one_run(number):
    scene = Scene(number)
    NOW.set(scene)
    try:
        result = await scene.run()
    except BaseException as error:
        raise AssertionError(f"Run {number} failed; PAL_RUN={number} repeats it") from error
    return scene, result


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", range(CASES))
def test_every_run_ends_properly(case):
    chosen = os.environ.get("PAL_RUN")
    first = seed_of_commit() + case
    numbers = [int(chosen)] if chosen else count(first, CASES)
    ends = time.process_time() + SECONDS / CASES

    async def all_runs():
        reasons = Counter()
        for made, number in enumerate(numbers, 1):
            scene, _ = await one_run(number)
            reasons.update(scene.reasons)
            if made == RUNS or (not RUNS and time.process_time() > ends and set(reasons) >= REASONS):
                break
        return reasons

    reasons = asyncio.run(asyncio.wait_for(all_runs(), 600))
    assert chosen or set(reasons) >= REASONS, f"not reached: {REASONS - set(reasons)}"


def test_the_same_number_gives_the_same_run():
    async def twice(number):
        return [await one_run(number) for _ in range(2)]

    for number in range(0, 1000, 7):
        (first, one), (second, other) = asyncio.run(twice(number))
        assert first.state == second.state
        assert one.messages == other.messages
        check_events(first.events, first.events[1].step or first.events[2].step)
