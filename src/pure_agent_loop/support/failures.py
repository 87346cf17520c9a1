"""Log errors from user functions, with a traceback; the model gets only the error's message."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.text import FAILURE_LOGS, clean_text, raised_at, safe_str

if TYPE_CHECKING:
    from pure_agent_loop.support.secrets.redaction import Redactor

LOG = logging.getLogger("pure_agent_loop")
_REDACTOR: ContextVar[Redactor | None] = ContextVar("pure_agent_loop_log_redactor", default=None)


@contextmanager
def logging_without(redactor: Redactor | None) -> Iterator[None]:
    """Redact known secrets in log entries made in this block, including its tasks and tool threads."""
    token = _REDACTOR.set(redactor)
    try:
        yield
    finally:
        _REDACTOR.reset(token)


def current_redactor() -> Redactor | None:
    """Return the redactor of the current run; None outside of runs, or if the run has none."""
    return _REDACTOR.get()


def is_meant(error: BaseException) -> bool:
    """True if an error carries a message for the model: an error from this package or a subclass."""
    if isinstance(error, PureAgentLoopError):
        return not isinstance(error, ConfigError)
    # Python converts these to RuntimeError in a coroutine.
    if isinstance(error.__cause__, (StopIteration, StopAsyncIteration)):
        error = error.__cause__
    trace = raised_at(error)
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("pure_agent_loop.")


def log_failure(owner: str, error: BaseException) -> None:
    """Log an exception of a function with its traceback, unless it is an error from this package.

    The place in the log record, such as ``%(filename)s``, is the place where the error was raised.

    Args:
        owner: The function, such as ``The tool 'look'``.
    """
    if is_meant(error) or not LOG.isEnabledFor(logging.ERROR):
        return
    redactor = _REDACTOR.get()
    if redactor is not None:
        redactor.clean_error(error)
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - a log entry must not fail the run
        text = f"{type(error).__name__} (its traceback cannot be formatted)"
    text, words = (line if redactor is None else redactor.redact(line) for line in (text, safe_str(error)))
    details = (owner, f"{type(error).__name__}: {words}")
    raised = (type(error), error, error.__traceback__)
    trace = raised_at(error)
    code, line = (log_failure.__code__, 0) if trace is None else (trace.tb_frame.f_code, trace.tb_lineno)
    place = (code.co_filename, line)
    record = LOG.makeRecord(
        LOG.name, logging.ERROR, *place, "%s failed: %s", details, raised, func=code.co_name
    )
    # A handler's text may hold a lone surrogate, which no file or stream can encode.
    record.exc_text = clean_text(text).rstrip("\n")
    LOG.handle(record)


FAILURE_LOGS.append(log_failure)
