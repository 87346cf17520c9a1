"""What the exit code of a command says."""

from __future__ import annotations

from pure_agent_loop.errors import (
    TRANSIENT_KINDS,
    ConfigError,
    LLMError,
    MissingExtraError,
    SessionLockedError,
    SessionNotFoundError,
)
from pure_agent_loop.stop_reasons import STOP_REASONS

DONE = 0
FAILED = 1
USAGE = 2
LIMIT = 3
DENIED = 4
TRANSIENT = 75  # EX_TEMPFAIL: the same command may succeed later
INTERRUPTED = 130  # 128 + SIGINT

_BY_KIND = {"done": DONE, "limit": LIMIT, "denied": DENIED, "cancelled": INTERRUPTED}


def code_for_stop(stop_reason: str, error_kind: str = "") -> int:
    """The exit code of a run.

    Args:
        error_kind: What failed, if it ended with an error.
    """
    if stop_reason == "error" and error_kind in TRANSIENT_KINDS:
        return TRANSIENT
    reason = STOP_REASONS.get(stop_reason)  # type: ignore[call-overload] # a word from elsewhere is none of them
    return FAILED if reason is None else _BY_KIND.get(reason.kind, FAILED)


def code_for_error(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    if isinstance(error, (ConfigError, MissingExtraError, SessionNotFoundError)):
        return USAGE
    if isinstance(error, SessionLockedError) or (isinstance(error, LLMError) and error.is_transient):
        return TRANSIENT
    return FAILED
