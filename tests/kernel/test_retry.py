"""Retry: what is repeated, after how long, and when it makes no more sense."""

from __future__ import annotations

import asyncio

import openai
import pytest
from tests.helpers import E, add, check_result, of_type, run_kernel

from pure_agent_loop import Agent, LLMError, RetryAttempt, RetryConfig, RetryHandler
from pure_agent_loop.errors import TRANSIENT_KINDS
from pure_agent_loop.retry import is_transient, next_delay
from pure_agent_loop.testing import FakeClock, ScriptedLLM, call

try:  # whichever of the two the installed SDK is built on
    import httpx2 as httpx
except ImportError:
    import httpx

pytestmark = pytest.mark.anyio


class Flaky:
    """Fails with each error once, then returns what it was called with."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return args, kwargs


BUSY = LLMError("busy", kind="overloaded")


async def test_the_waits_double_up_to_the_greatest_and_get_jitter():
    clock = FakeClock(chance=[0.0, 0.5, 1.0])
    handler = RetryHandler(RetryConfig(max_retries=6, base_delay=1, max_delay=5, jitter=2), clock)
    assert await handler.execute(Flaky(*[BUSY] * 6), 1, key=2) == ((1,), {"key": 2})
    assert clock.waits == [1.0, 3.0, 6.0, 5.0, 6.0, 7.0]


async def test_the_documented_defaults():
    clock = FakeClock(chance=0)
    with pytest.raises(LLMError, match="busy"):
        await RetryHandler(clock=clock).execute(Flaky(*[BUSY] * 9))
    assert clock.waits == [1.0, 2.0, 4.0]
    assert RetryConfig().max_delay == 30.0


async def test_a_success_needs_no_wait():
    clock = FakeClock()
    assert await RetryHandler(clock=clock).execute(Flaky(), "x") == (("x",), {})
    assert clock.waits == []


async def test_retry_after_wins_in_both_directions():
    clock = FakeClock()
    errors = [LLMError("slow down", kind="rate_limit", retry_after=seconds) for seconds in (0, 45.5)]
    await RetryHandler(RetryConfig(max_delay=2), clock).execute(Flaky(*errors))
    assert clock.waits == [0.0, 45.5]


@pytest.mark.parametrize("asked", [-3.0, float("nan"), float("inf"), float("-inf")])
async def test_a_wait_that_is_none_gives_the_growing_one(asked):
    config = RetryConfig(max_retries=3, base_delay=2.0, jitter=0)
    error = LLMError("slow down", kind="rate_limit", retry_after=asked)
    assert [next_delay(config, attempt, error, 0.5) for attempt in (1, 2, 3, 4)] == [2.0, 4.0, 8.0, None]


async def test_a_retry_after_that_is_too_long_ends_it_at_once():
    clock, asked = FakeClock(), Flaky(LLMError("later", kind="rate_limit", retry_after=61))
    with pytest.raises(LLMError, match="later"):
        await RetryHandler(RetryConfig(max_retry_after=60), clock).execute(asked)
    assert (clock.waits, asked.calls) == ([], 1)


@pytest.mark.parametrize("max_retries", [0, 1, 3])
async def test_the_original_error_is_raised_at_the_end(max_retries):
    errors = [LLMError(f"busy {n}", kind="overloaded") for n in range(max_retries + 1)]
    asked = Flaky(*errors)
    with pytest.raises(LLMError) as caught:
        await RetryHandler(RetryConfig(max_retries=max_retries), FakeClock()).execute(asked)
    assert caught.value is errors[-1]
    assert asked.calls == max_retries + 1


REQUEST = httpx.Request("POST", "http://x")


def status_error(kind, status):
    return kind("no", response=httpx.Response(status, request=REQUEST), body=None)


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        *[(LLMError("x", kind=kind), True) for kind in sorted(TRANSIENT_KINDS)],
        *[(LLMError("x", kind=kind), False) for kind in ("quota", "auth", "not_found", "bad_request")],
        (LLMError("x", kind="context_overflow"), False),
        (LLMError("x"), False),
        (ConnectionError("x"), True),
        (ConnectionResetError("x"), True),
        (TimeoutError("x"), True),
        (asyncio.TimeoutError("x"), True),
        (openai.APIConnectionError(request=REQUEST), True),
        (openai.APITimeoutError(REQUEST), True),
        (status_error(openai.RateLimitError, 429), True),
        (status_error(openai.InternalServerError, 500), True),
        (status_error(openai.ConflictError, 409), True),
        (status_error(openai.BadRequestError, 400), False),
        (status_error(openai.AuthenticationError, 401), False),
        (status_error(openai.PermissionDeniedError, 403), False),
        (status_error(openai.NotFoundError, 404), False),
        (ValueError("x"), False),
        (KeyboardInterrupt(), False),
        (asyncio.CancelledError(), False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_retried_error_kinds(error, repeated):
    assert is_transient(error) is repeated
    assert (next_delay(RetryConfig(), 1, error, 0) is not None) is repeated


async def test_cancellation_is_never_repeated():
    asked = Flaky(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await RetryHandler(clock=FakeClock()).execute(asked)
    assert asked.calls == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_on_retry_is_called_before_each_wait(is_async):
    clock, told = FakeClock(chance=0), []

    def tell(attempt):
        told.append((attempt, list(clock.waits)))

    async def tell_later(attempt):
        await asyncio.sleep(0)
        tell(attempt)

    handler = RetryHandler(clock=clock)
    await handler.execute(Flaky(BUSY, BUSY), on_retry=tell_later if is_async else tell)
    assert told == [(RetryAttempt(1, 1.0, BUSY), []), (RetryAttempt(2, 2.0, BUSY), [1.0])]


async def test_many_retries_do_not_overflow():
    assert next_delay(RetryConfig(max_retries=10**9), 10**8, BUSY, 0) == 30.0


def test_a_run_shows_its_retries():
    clock = FakeClock(chance=0)
    with ScriptedLLM([BUSY, TimeoutError(), "ok"]) as llm:
        result = run_kernel(llm, clock=clock, retry=RetryConfig())
    busy, silent = (dict(e.data) for e in of_type(result.events, E.RETRY))
    assert busy.pop("title").keys() == {"en", "zh"}
    assert busy == {"attempt": 1, "delay": 1.0, "error": "busy", "discard": False, "attempts": 4}
    assert silent.pop("error").startswith("TimeoutError: no message (")
    assert silent == {"attempt": 2, "delay": 2.0, "discard": False, "attempts": 4}
    assert clock.waits == [1.0, 2.0]
    assert result.steps == 1


def test_a_run_ends_with_the_last_error():
    script = [LLMError(f"busy {n}", kind="overloaded") for n in range(4)]
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, clock=FakeClock(), retry=RetryConfig())
    assert (result.stop_reason, result.error) == ("error", "busy 3")


def test_each_step_has_its_own_retries():
    with ScriptedLLM([BUSY, call("add", a=1, b=1), BUSY, "2"]) as llm:
        config = RetryConfig(max_retries=1, base_delay=0, jitter=0)
        result = check_result(Agent(llm=llm, tools=[add], retry=config).run("go"))
    assert result.content == "2"
    assert [e.data["attempt"] for e in of_type(result.events, E.RETRY)] == [1, 1]


@pytest.mark.anyio
async def test_function_of_three_arguments_is_called_too():
    told = []

    async def fails():
        raise ConnectionError("gone")

    handler = RetryHandler(RetryConfig(max_retries=1, base_delay=2, jitter=0), FakeClock())
    with pytest.raises(ConnectionError):
        await handler.execute(
            fails, on_retry=lambda attempt, error, delay: told.append((attempt, str(error), delay))
        )
    assert told == [(1, "gone", 2)]


@pytest.mark.parametrize("value", [False, 0, "stop", RuntimeError("unused"), iter(())])
async def test_result_of_on_retry_is_ignored(value):
    clock, asked = FakeClock(chance=0), Flaky(BUSY)
    assert await RetryHandler(clock=clock).execute(asked, on_retry=lambda _: value) == ((), {})
    assert (asked.calls, clock.waits) == (2, [1.0])


async def test_exception_in_on_retry_ends_the_call():
    def leave(attempt):
        raise KeyError(attempt.attempt)

    asked = Flaky(BUSY)
    with pytest.raises(KeyError):
        await RetryHandler(clock=FakeClock(chance=0)).execute(asked, on_retry=leave)
    assert asked.calls == 1
