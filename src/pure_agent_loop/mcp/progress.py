"""Report messages and the progress of a call to the person who is using the run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.tool_context import RunContext, current_run

LOG = logging.getLogger("pure_agent_loop.mcp")
TELL_SECONDS = 0.1  # minimum interval between progress reports


def run_here() -> RunContext[Any] | None:
    """Return the current run; None outside of a run."""
    try:
        return current_run()
    except ConfigError:
        return None


def tell_person(text: str) -> None:
    """Report a message to the person who is using the current run; outside of a run, log it."""
    run = run_here()
    if run is None:
        LOG.warning("%s", text)
    else:
        run.progress(text)


def teller(run: RunContext[Any] | None) -> Callable[..., Awaitable[None]] | None:
    """Return a function that reports a call's progress to the run, rate-limited."""
    if run is None:
        return None
    context, next_time = copy_context(), 0.0

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal next_time
        now = asyncio.get_running_loop().time()
        if now >= next_time:
            next_time = now + TELL_SECONDS
            far = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            context.run(run.progress, one_line(f"{far} {message or ''}".strip()))

    return tell
