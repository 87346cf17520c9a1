"""Functions that take the run they are called in as their first parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from pure_agent_loop.schema.signature import takes_context
from pure_agent_loop.tool_context import current_run


def contextual(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one that is called without the run; itself if it does not take it."""
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
