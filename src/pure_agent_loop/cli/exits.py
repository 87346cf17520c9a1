"""Exit codes of commands."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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
    """Return the exit code for a stop reason; for "error", it also depends on `error_kind`."""
    if stop_reason == "error" and error_kind in TRANSIENT_KINDS:
        return TRANSIENT
    reason = STOP_REASONS.get(stop_reason)  # type: ignore[call-overload] # may be an unknown reason
    return FAILED if reason is None else _BY_KIND.get(reason.kind, FAILED)


def folder_trouble(error: BaseException, folder: Path | None = None) -> str:
    """Return an explanation of an error that the working folder caused; empty for other causes.

    Args:
        error: The error that ended the command.
        folder: The working folder; the current one if None.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    from pure_agent_loop.support.language import user_text  # imported lazily: only needed after an error

    kind = "folder" if folder is None else "other_folder"
    with suppress(OSError):
        path = Path.cwd() if folder is None else folder
        if path.is_dir() and os.access(path, os.R_OK | os.X_OK):
            return ""
        if path.is_dir():
            return user_text(f"cli.{kind}_unreadable", folder=folder)
    return user_text(f"cli.{kind}_gone", folder=folder)


def code_for_error(error: BaseException) -> int:
    """Return the exit code for an error that ended a command."""
    if isinstance(error, (ConfigError, MissingExtraError, SessionNotFoundError)):
        return USAGE
    if isinstance(error, SessionLockedError) or (isinstance(error, LLMError) and error.is_transient):
        return TRANSIENT
    return FAILED
