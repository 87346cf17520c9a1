"""Call a user's function: in a thread if it may block, with the run's context; errors become outcomes."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from pure_agent_loop.errors import Retry, ToolExecutionError
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.schema.outcome import ToolOutcome, failed, outcome_of
from pure_agent_loop.schema.signature import takes_context
from pure_agent_loop.support.abilities import check_shape, checked_function
from pure_agent_loop.support.failures import is_meant, log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool_context import current_run


async def outcome_of_call(call: Callable[[], Awaitable[Any]], tool: str, prompts: Prompts) -> ToolOutcome:
    """Return the outcome of a call. Raises only if the task itself is being cancelled."""
    fail = partial(failed, prompts, tool)
    try:
        return await outcome_of(await call())
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        return cancelled_itself(error, tool, prompts)
    except KeyboardInterrupt:
        return fail("KeyboardInterrupt", model_text("interrupted"), interrupt=True)
    except Retry as error:  # or a subclass
        return replace(fail(Retry.__name__, safe_str(error)), is_retry=True)
    except ToolExecutionError as error:  # use the bare message, because `failed` adds the tool's name
        return fail(type(error).__name__, safe_str(error.message))
    except BaseException as error:  # noqa: BLE001 - even SystemExit must not end the host program
        return _logged(error, tool, fail(type(error).__name__, safe_str(error)))


def cancelled_itself(error: asyncio.CancelledError, tool: str, prompts: Prompts) -> ToolOutcome:
    """Return the outcome of a call that raised CancelledError although its task was not cancelled."""
    return _logged(error, tool, failed(prompts, tool, type(error).__name__, model_text("cancelled_itself")))


def _logged(error: BaseException, tool: str, outcome: ToolOutcome) -> ToolOutcome:
    log_failure(f"The tool {tool!r}", error)
    return outcome if is_meant(error) else replace(outcome, error=error)


async def call_user(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """Call a user's function; one that is not async may block, so it runs in a worker thread."""
    is_async = inspect.iscoroutinefunction(unwrapped(function))
    return await (function if is_async else partial(call_in_worker, function))(*args, **arguments)


async def call_in_worker(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """Call a sync function in a worker thread, and await its result if necessary."""
    result = await run_in_thread(partial(function, *args, **arguments))
    if isinstance(result, Raised):
        raise _foreign(result.error)
    return await result if inspect.isawaitable(result) else result


def unwrapped(function: Any) -> Any:
    """Return the function inside a ``partial`` or callable object, to see if it is async."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)  # noqa: B004 - the method itself, to see if it is async


def _foreign(error: BaseException) -> BaseException:
    """Make a thread's error safe to raise in this task: a CancelledError would cancel the task."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError(model_text("raised_cancelled")).with_traceback(error.__traceback__)
    return error


def _is_being_cancelled() -> bool:
    """Return False only if the task is certainly not being cancelled; Python before 3.11 cannot tell."""
    if sys.version_info >= (3, 11):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    else:  # noqa: RET505 - so that a type checker skips the branch of the other version
        return True


def checked_in_run(name: str, function: Any, *parameters: str) -> Any:
    """Check a function as `checked_function` does; a `RunContext` may precede the parameters.

    Raises:
        ConfigError: The value is not a function, or cannot be called with these parameters.
    """
    if function is None or not callable(function):
        return checked_function(name, function)
    leading = ("context",) if takes_context(function) else ()
    check_shape(name, function, parameters, leading, "; an annotated RunContext may come first")
    return function


def contextual(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that supplies the `RunContext` if the given one takes it; others unchanged."""
    if not takes_context(function):
        return function
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def in_task(*args: Any, **kwargs: Any) -> Any:
            return await function(current_run(), *args, **kwargs)

        return in_task

    @wraps(function)
    def in_context(*args: Any, **kwargs: Any) -> Any:
        return function(current_run(), *args, **kwargs)

    return in_context
