"""Calling a function for a model: whatever happens becomes a `ToolOutcome`, which the model reads."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import Retry, ToolExecutionError
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import as_text, safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of one call.

    Args:
        text: What the model reads.
        is_error: True if the call failed.
        is_interrupt: True if the tool was stopped by Ctrl-C: the run should end.
        spent: What models behind the tool used, for the account of the run and its `Budget`: ``usage`` (the
            plain form of a `TokenUsage`), ``cost``, ``tool_calls``; ``in_budget``: True if that budget has
            counted it already. A tool that says something here, or about `is_error`, returns a `ToolOutcome`.
        is_background: True if the work goes on beside the run, and a message will tell what came of it.
        is_retry: True if the tool has sent the model back; see `Retry`.
        found: Names of tools that the model may call from the next step on.
    """

    text: str
    is_error: bool = False
    is_interrupt: bool = False
    spent: dict[str, Any] | None = None
    is_background: bool = False
    is_retry: bool = False
    found: list[str] | None = None


def failed(prompts: Prompts, tool: str, kind: str, error: str, *, interrupt: bool = False) -> ToolOutcome:
    """The outcome of a call that failed, in the words the model reads.

    Args:
        prompts: The words.
        tool: Name of the tool.
        kind: Name of the error's type.
        error: What happened.
        interrupt: True if it was Ctrl-C.
    """
    text = prompts.tool_error.format(tool=tool, type=kind, error=error, hint=prompts.tool_hint)
    return ToolOutcome(text, is_error=True, is_interrupt=interrupt)


async def outcome_of(call: Callable[[], Awaitable[Any]], tool: str, prompts: Prompts) -> ToolOutcome:
    """What came of a call. Raises nothing but a real cancellation.

    Args:
        call: Makes it.
        tool: Name of the tool.
        prompts: The words for what goes wrong.
    """
    fail = partial(failed, prompts, tool)
    try:
        result = await call()
        return result if isinstance(result, ToolOutcome) else ToolOutcome(as_text(result))
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
    if is_async:
        return await function(**arguments)
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
