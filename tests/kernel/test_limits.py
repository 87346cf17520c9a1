"""The limit checker on its own: one question, one answer."""

from __future__ import annotations

import pytest

from pure_agent_loop import (
    ConfigError,
    LimitChecker,
    LimitExceededError,
    LimitResult,
    LoopLimits,
    ToolExecutionError,
)
from pure_agent_loop.limits import LimitLedger
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import FakeClock


def test_the_documented_defaults():
    limits = LoopLimits()
    assert (limits.max_steps, limits.timeout, limits.max_tokens) == (10, 300.0, 100_000)
    assert (limits.max_turns, limits.max_tool_calls, limits.max_seconds) == (None, None, None)
    assert limits.doom_loop_threshold == 3


def test_results_have_three_factories():
    assert LimitResult.continue_running() == LimitResult("continue", "", "")
    assert LimitResult.warn("timeout", "hurry") == LimitResult("warn", "timeout", "hurry")
    assert LimitResult.stop("token_limit") == LimitResult("stop", "token_limit", "")


def checked(limits, *, steps=0, tokens=0, calls=0, seconds=0.0):
    clock = FakeClock()
    checker = LimitChecker(limits, clock=clock, prompts=ENGLISH)
    checker.current_step = steps
    checker.add_tokens(tokens)
    checker.add_tool_calls(calls)
    clock.advance(seconds)
    return checker.check()


NONE = LoopLimits(max_steps=None, timeout=None, max_tokens=None)


@pytest.mark.parametrize(
    ("limits", "used", "action", "reason"),
    [
        (NONE, {"steps": 10**6, "tokens": 10**9, "calls": 10**6, "seconds": 10.0**9}, "continue", ""),
        (LoopLimits(), {"steps": 9, "tokens": 99_999, "seconds": 299.9}, "continue", ""),
        (LoopLimits(), {"steps": 10}, "warn", "step_limit"),
        (LoopLimits(), {"seconds": 300.0}, "warn", "timeout"),
        (LoopLimits(), {"steps": 10, "seconds": 300.0}, "warn", "step_limit"),
        (LoopLimits(), {"tokens": 100_000}, "stop", "token_limit"),
        (LoopLimits(), {"tokens": 100_000, "steps": 10}, "stop", "token_limit"),
        (LoopLimits(max_turns=3), {"steps": 2}, "continue", ""),
        (LoopLimits(max_turns=3), {"steps": 3}, "stop", "max_steps"),
        (LoopLimits(max_tool_calls=3), {"calls": 2}, "continue", ""),
        (LoopLimits(max_tool_calls=3), {"calls": 4}, "stop", "max_tool_calls"),
        (LoopLimits(max_seconds=3), {"seconds": 2.9}, "continue", ""),
        (LoopLimits(max_seconds=3), {"seconds": 3.0}, "stop", "budget"),
        (LoopLimits(max_seconds=3, max_tokens=1), {"seconds": 3.0, "tokens": 1}, "stop", "token_limit"),
    ],
)
def test_each_limit_and_their_order(limits, used, action, reason):
    verdict = checked(limits, **used)
    assert (verdict.action, verdict.reason) == (action, reason)
    assert bool(verdict.prompt) == (action == "warn")


def test_a_soft_limit_starts_its_period_again():
    clock = FakeClock()
    checker = LimitChecker(LoopLimits(max_steps=2, timeout=10), clock=clock, prompts=CHINESE)
    found = []
    for _ in range(6):
        checker.current_step += 1
        clock.advance(4)
        found.append(checker.check().reason)
    assert found == ["", "step_limit", "timeout", "step_limit", "", "step_limit"]


def test_a_hard_limit_says_so_again_and_again():
    checker = LimitChecker(LoopLimits(max_tokens=1), clock=FakeClock())
    checker.add_tokens(1)
    assert [checker.check().reason for _ in range(2)] == ["token_limit"] * 2
    assert checker.total_tokens == 1
    checker.total_tokens = 0
    assert checker.check() == LimitResult.continue_running()


def test_the_words_are_filled_in():
    assert "10 steps" in checked(LoopLimits(), steps=10).prompt
    assert "300 seconds" in checked(LoopLimits(), seconds=300.4).prompt
    assert checked(LoopLimits(timeout_prompt="{seconds}!"), seconds=301).prompt == "301!"


def test_ledger_resumes_from_its_plain_form():
    clock = FakeClock()
    ledger = LimitLedger(steps=4, seconds=100.0, warned_at_second=90.0)
    checker = LimitChecker(LoopLimits(timeout=20), ledger, clock=clock)
    assert checker.check().action == "continue"
    clock.advance(10)
    assert checker.check().reason == "timeout"
    assert LimitLedger.from_dict(ledger.to_dict()) == ledger
    assert ledger.seconds == 110


def test_without_arguments_it_uses_the_real_clock():
    assert LimitChecker().check() == LimitResult.continue_running()


def test_a_tools_error_takes_a_message_alone():
    error = ToolExecutionError("no paper")
    assert (str(error), error.message, error.tool_name) == ("no paper", "no paper", "")


def test_callers_may_raise_the_error():
    error = LimitExceededError("token_limit", 10, 12)
    assert (error.limit_type, error.limit_value, error.current_value) == ("token_limit", 10, 12)
    assert str(error) == "token_limit: reached 12, allowed 10"


@pytest.mark.parametrize("wrong", ["x", None, True, -1, 1.5])
def test_invalid_count_is_rejected(wrong):
    checker = LimitChecker()
    for name in ("current_step", "total_tokens"):
        with pytest.raises(ConfigError, match=name):
            setattr(checker, name, wrong)
    for name in ("add_tokens", "add_tool_calls"):
        with pytest.raises(ConfigError, match=name):
            getattr(checker, name)(wrong)
    assert (checker.current_step, checker.total_tokens, checker.ledger.tool_calls) == (0, 0, 0)
