"""Calling a function for a model: whatever happens becomes a `ToolOutcome`, which the model reads."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import Retry, ToolExecutionError
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.outcome import ToolOutcome, failed, outcome_of
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread


async def made(call: Callable[[], Awaitable[Any]], tool: str, prompts: Prompts) -> ToolOutcome:
    """What came of a call. Raises nothing but a real cancellation.

    Args:
        prompts: The words for what goes wrong.
    """
    fail = partial(failed, prompts, tool)
    try:
        return await outcome_of(await call())
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        return fail("CancelledError", say("cancelled_itself"))
    except KeyboardInterrupt:
        return fail("KeyboardInterrupt", say("interrupted"), interrupt=True)
    except Retry as error:  # also of a subclass
        return replace(fail(Retry.__name__, safe_str(error)), is_retry=True)
    except ToolExecutionError as error:  # the message around it names the tool
        return fail(type(error).__name__, safe_str(error.message))
    except BaseException as error:  # noqa: BLE001 - not even SystemExit may end the host program
        return fail(type(error).__name__, safe_str(error))


async def call_function(function: Callable[..., Any], arguments: dict[str, Any], *, is_async: bool) -> Any:
    """Call a function, in a worker thread if it is not async, and await what it returns."""
    return await (function(**arguments) if is_async else call_in_worker(function, **arguments))


async def call_in_worker(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function that is not async in a worker thread, and await what it returns."""
    result = await run_in_thread(partial(function, **arguments))
    if isinstance(result, Raised):
        raise _foreign(result.error)
    return await result if inspect.isawaitable(result) else result


def unwrapped(function: Any) -> Any:
    """The function in a ``partial`` or behind a callable object, to see if it is async."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)  # noqa: B004 - the method itself, to see if it is async


def _foreign(error: BaseException) -> BaseException:
    """An error from a thread, safe to raise here: CancelledError from there is no cancellation of ours."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError(say("raised_cancelled"))
    return error


def _is_being_cancelled() -> bool:
    """True unless it is certain that nobody cancelled the running task (not knowable before 3.11)."""
    if sys.version_info >= (3, 11):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    else:  # noqa: RET505 - so that a type checker skips the branch of the other version
        return True
