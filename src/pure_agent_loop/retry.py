"""Retry policy for failed requests. This is the only retry layer: the SDK's retries are disabled.

Delay before attempt n+1: ``base_delay * 2**(n-1)``, at most `max_delay`, plus up to `jitter` random seconds,
so that many clients do not retry at once. A server's ``Retry-After`` takes precedence.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pure_agent_loop.errors import LLMError
from pure_agent_loop.support.checks import is_number, require_value
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.text import names_options

T = TypeVar("T")

TRANSIENT_SDK_ERRORS = (
    "APIConnectionError",
    "APITimeoutError",
    "RateLimitError",
    "InternalServerError",
    "ConflictError",
)


@names_options()
@dataclass(frozen=True, slots=True)
class RetryConfig:
    """Retry policy for failed model requests.

    Args:
        max_retries: Maximum attempts after the first one; 0 to disable retries.
        base_delay: Seconds before the first retry.
        max_delay: Maximum delay in seconds, before jitter.
        jitter: Maximum random seconds added to a delay.
        max_retry_after: Maximum ``Retry-After`` in seconds; a longer one ends the run.

    Raises:
        ConfigError: A value is negative.
    """

    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 30.0
    jitter: float = 1.0
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        for name in ("max_retries", "base_delay", "max_delay", "jitter", "max_retry_after"):
            value = getattr(self, name)
            require_value(is_number(value), f"RetryConfig.{name}", value, "a number, 0 or more")


@dataclass(frozen=True, slots=True)
class RetryAttempt:
    """Details of an upcoming retry.

    Args:
        attempt: Number of the retry, from 1.
        delay: Seconds until the retry.
        error: Error of the last attempt.
    """

    attempt: int
    delay: float
    error: BaseException


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed later."""
    if isinstance(error, LLMError):
        return error.is_transient
    # Before Python 3.11, asyncio.TimeoutError is not the builtin TimeoutError.
    if isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError)):
        return True
    sdk = sys.modules.get("openai")  # if the SDK is not imported, it cannot have raised the error
    return sdk is not None and isinstance(error, tuple(getattr(sdk, name) for name in TRANSIENT_SDK_ERRORS))


def next_delay(config: RetryConfig, attempt: int, error: BaseException, chance: float) -> float | None:
    """Return the seconds to wait before a retry, or None to give up.

    Args:
        attempt: Number of the retry, from 1.
        error: Error of the last attempt.
        chance: Random number from 0 to 1.
    """
    if attempt > config.max_retries or not is_transient(error):
        return None
    requested = getattr(error, "retry_after", None)
    if requested is not None and 0 <= requested < math.inf:  # ignore an invalid delay
        return float(requested) if requested <= config.max_retry_after else None
    backoff = config.base_delay * 2.0 ** min(attempt - 1, 60)
    return min(backoff, config.max_delay) + config.jitter * chance


def _notify(on_retry: Callable[..., object], attempt: RetryAttempt) -> object:
    try:
        inspect.signature(on_retry).bind(attempt)
    except TypeError:
        return on_retry(attempt.attempt, attempt.error, attempt.delay)
    except ValueError:  # a built-in function may have no signature
        pass
    return on_retry(attempt)


class RetryHandler:
    """Retry loop around an async function.

    Args:
        config: Retry policy.
        clock: Source of waiting and randomness.
    """

    def __init__(self, config: RetryConfig | None = None, clock: Clock | None = None) -> None:
        self.config = config or RetryConfig()
        self._clock = clock or SystemClock()

    async def execute(
        self,
        fn: Callable[..., Awaitable[T]],
        *args: Any,
        on_retry: Callable[..., object] | None = None,
        **kwargs: Any,
    ) -> T:
        """Call ``fn(*args, **kwargs)`` with retries.

        Args:
            fn: Function to call.
            args: Positional arguments.
            on_retry: Function called before each wait, and awaited if async. It gets a `RetryAttempt`
                or, if it has three parameters, the number of the retry, the error and the delay in seconds.
            kwargs: Keyword arguments.

        Raises:
            Exception: The last exception of `fn`, unchanged.
        """
        attempt = 0
        while True:
            try:
                return await fn(*args, **kwargs)
            except Exception as error:
                attempt += 1
                delay = next_delay(self.config, attempt, error, self._clock.random())
                if delay is None:
                    raise
                if on_retry is not None:
                    reply = _notify(on_retry, RetryAttempt(attempt, delay, error))
                    if inspect.isawaitable(reply):
                        await reply
            await self._clock.sleep(delay)
