"""When a failed request is sent again, and after how long. One layer: the SDK's own retries are off.

Delay before try n+1: ``base_delay * 2**(n-1)``, at most `max_delay`, plus up to `jitter` seconds at
random so that many clients do not come back together. A server's ``Retry-After`` wins over that.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.typed import dataclass

T = TypeVar("T")

TRANSIENT_SDK_ERRORS = (
    "APIConnectionError",
    "APITimeoutError",
    "RateLimitError",
    "InternalServerError",
    "ConflictError",
)


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """How failed model requests are repeated.

    Args:
        max_retries: Tries after the first one; 0 for none.
        base_delay: Seconds before the first of them.
        max_delay: Greatest delay in seconds, before jitter.
        jitter: Up to so many seconds are added at random.
        max_retry_after: A longer ``Retry-After`` ends the run instead of waiting; in seconds.

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
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ConfigError(f"RetryConfig.{name}={value!r} must be a number, 0 or more.")


@dataclass(frozen=True, slots=True)
class RetryAttempt:
    """What is known when a request is about to be repeated.

    Args:
        attempt: Which repetition this is, from 1.
        delay: Seconds until it is sent.
        error: Why.
    """

    attempt: int
    delay: float
    error: BaseException


def is_transient(error: BaseException) -> bool:
    """True if the same request may well succeed later."""
    if isinstance(error, LLMError):
        return error.is_transient
    # asyncio's own TimeoutError is not the builtin one before Python 3.11.
    if isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError)):
        return True
    sdk = sys.modules.get("openai")  # if it was never imported, the error cannot be one of its own
    return sdk is not None and isinstance(error, tuple(getattr(sdk, name) for name in TRANSIENT_SDK_ERRORS))


def next_delay(config: RetryConfig, attempt: int, error: BaseException, chance: float) -> float | None:
    """Seconds to wait before repetition number `attempt`, or None to give up.

    Args:
        config: The rules.
        attempt: The repetition to decide about, from 1.
        error: What the last try failed with.
        chance: A random number from 0 to 1.
    """
    if attempt > config.max_retries or not is_transient(error):
        return None
    asked = getattr(error, "retry_after", None)
    if asked is not None:
        return float(asked) if asked <= config.max_retry_after else None
    backoff = config.base_delay * 2.0 ** min(attempt - 1, 60)
    return min(backoff, config.max_delay) + config.jitter * chance


def _tell(on_retry: Callable[..., object], about: RetryAttempt) -> object:
    try:
        inspect.signature(on_retry).bind(about)
    except TypeError:
        return on_retry(about.attempt, about.error, about.delay)
    except ValueError:  # a builtin that does not say what it takes
        pass
    return on_retry(about)


class RetryHandler:
    """Calls an async function until it succeeds or repeating it makes no more sense.

    Args:
        config: The rules.
        clock: Where waiting and chance come from.
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
        """Call ``fn(*args, **kwargs)`` under retry.

        Args:
            fn: The function.
            args: Its arguments.
            on_retry: Called (and awaited, if it is async) before each wait, with a `RetryAttempt`; one that
                needs three arguments gets the number of the repetition, the error and the delay in seconds.
            kwargs: Its keyword arguments.

        Raises:
            Exception: Whatever `fn` raised last, unchanged.
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
                    told = _tell(on_retry, RetryAttempt(attempt, delay, error))
                    if inspect.isawaitable(told):
                        await told
            await self._clock.sleep(delay)
