"""Exceptions raised by this package.

PureAgentLoopError
├── ConfigError            an argument or setting is invalid (also a ValueError)
│   └── AlreadyAnsweredError   the question or external result already has an answer
├── MissingExtraError      an optional package is not installed (also an ImportError)
├── LLMError               the model, its server or the connection failed; see `kind`
├── ToolExecutionError     a tool failed
├── Retry                  raised by your code to make the model try again, with a reason
├── LimitExceededError     a run reached a limit between the attempts of a request
├── HistoryError           a message history that cannot be repaired (also a ValueError)
├── AuditError             the audit log cannot be written; the call is not made
└── SessionError           a session cannot be used
    ├── SessionNotFoundError   the session does not exist (also a LookupError)
    ├── SessionLockedError     another writer has the session open; names the writer
    ├── SessionReadError       the session store cannot be read
    └── SessionWriteError      the write failed; names the path and the system error

KeyboardInterrupt
└── RunInterrupted         Ctrl-C in `Agent.run` and its sync siblings; holds the result so far
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

ErrorKind = Literal[
    "connection",  # the connection was refused, reset or cut off
    "timeout",  # no data arrived in time
    "rate_limit",  # 429: too many requests
    "overloaded",  # 5xx, 408, 409: a server-side failure
    "incomplete",  # the response ended early or was unreadable
    "quota",  # the account has no credit left; a retry cannot help
    "auth",  # 401, 403
    "not_found",  # 404: wrong URL or model name
    "context_overflow",  # the request exceeds the context window
    "bad_request",  # any other 4xx
    "invalid_output",  # the answer does not match the output type even after all corrections
    "unknown",
]

TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset(
    {"connection", "timeout", "rate_limit", "overloaded", "incomplete"}
)


class _Portable(BaseException):
    """Error that keeps its fields when pickled. pickle alone would call `__init__` with `args`."""

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: portable(value) for name, value in vars(self).items()}
        return _rebuilt, (type(self), self.args, fields, portable(self.__cause__))

    def __copy__(self) -> Any:
        return _rebuilt(type(self), self.args, vars(self), self.__cause__)


def _rebuilt(
    kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any], cause: Any
) -> BaseException:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    error.__cause__ = cause
    return error


def portable(value: Any) -> Any:
    """Return the value if it can be pickled, else None; an error becomes a `RuntimeError` with its text."""
    if value is None or isinstance(value, (str, int, float, _Portable)):
        return value
    import pickle

    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301 - it was made here
    except Exception:  # noqa: BLE001 - foreign code may raise anything
        return RuntimeError(f"{type(value).__name__}: {value}") if isinstance(value, BaseException) else None
    return value


class PureAgentLoopError(_Portable, Exception):
    """Base class of all errors of this package."""


class ConfigError(PureAgentLoopError, ValueError):
    """Argument or setting is invalid. The message names the field and the fix."""


class AlreadyAnsweredError(ConfigError):
    """Question or external result already has an answer. Nothing was changed.

    Args:
        call_id: Id of the call.
        by: Name of the first respondent, if known.
        answer: ``allow`` or ``deny``; for an external result, its text.
        at: Time of the answer in seconds since the epoch; None if unknown.
        message: Reason given with the answer.
        what: ``question`` or ``result``.
    """

    def __init__(
        self,
        call_id: str,
        by: str,
        answer: str,
        at: float | None = None,
        *,
        message: str = "",
        what: str = "question",
    ) -> None:
        self.call_id, self.by, self.answer, self.at = call_id, by, answer, at
        self.message, self.what = message, what
        when = "" if at is None else f" at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(at))}"
        verb = "answered" if what == "question" else "returned"
        super().__init__(
            f"Call {call_id!r:.80} has no pending {what}: {by or 'somebody'} already {verb} "
            f"{answer!r:.80}{when}. That answer stays valid; nothing was changed."
        )


class HistoryError(PureAgentLoopError, ValueError):
    """Message history is not a list of chat messages."""


class MissingExtraError(PureAgentLoopError, ImportError):
    """Optional package is not installed.

    Args:
        feature: Missing feature, e.g. ``"the embedded model"``.
        extra: Extra that installs it, e.g. ``"local"``.
    """

    def __init__(self, feature: str, extra: str) -> None:
        from pure_agent_loop.support.install import install_command

        self.feature = feature
        self.extra = extra
        self.install = install_command(extra)
        super().__init__(f"{feature} needs the extra [{extra}]. Install it: {self.install}")


class LLMError(PureAgentLoopError):
    """Model request failed.

    Args:
        message: Description of the failure and, if known, the fix.
        original_error: Underlying error, also chained as ``__cause__`` where it was raised.
        kind: One of :data:`ErrorKind`; decides whether a retry can help.
        status: HTTP status, if any.
        retry_after: Seconds the server asked to wait, if any.
        said: Error text from the server, if any, without the text that `message` adds.
    """

    spent: Any = None  # a `TokenUsage` of interrupted attempts
    # Details for an explanation, if known: ``url``, ``model``, ``key`` (its origin), and ``sizes`` (tokens of
    # the request and of the context window).
    about: Mapping[str, Any] | None = None

    def __init__(
        self,
        message: str,
        original_error: BaseException | None = None,
        *,
        kind: ErrorKind = "unknown",
        status: int | None = None,
        retry_after: float | None = None,
        said: str = "",
    ) -> None:
        self.message = message
        self.said = said or message
        self.original_error = original_error
        self.kind: ErrorKind = kind
        self.status = status
        self.retry_after = retry_after
        super().__init__(message)

    @property
    def is_transient(self) -> bool:
        """True if the same request may succeed later."""
        return self.kind in TRANSIENT_KINDS


class ToolExecutionError(PureAgentLoopError):
    """Tool failed. The loop turns the error into a message for the model; the error never ends the run.

    Args:
        tool_name: Name of the tool; if only this argument is given, it is the message.
        message: Description of the failure.
    """

    def __init__(self, tool_name: str, message: str | None = None) -> None:
        self.tool_name = "" if message is None else tool_name
        self.message = tool_name if message is None else message
        super().__init__(self.message if message is None else f"Tool '{tool_name}' failed: {message}")


class Retry(PureAgentLoopError):  # noqa: N818 - a request to the model, not a failure
    """Reject the model's arguments or answer and make it try again. The model reads the text.

    A tool raises `Retry` to reject its arguments, an output check to reject the answer. Attempts are limited.

    Args:
        why: The mistake and its correction.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class LimitExceededError(PureAgentLoopError):
    """Run reached a limit between the attempts of a request.

    Args:
        limit_type: Stop reason of the limit, e.g. ``"token_limit"``.
        limit_value: Allowed value; None for a shared `Budget`.
        current_value: Reached value; None for a shared `Budget`.
        message: Description and fix; if empty, the values.
    """

    spent: Any = None  # a `TokenUsage` of interrupted attempts
    note: str = ""  # why the run ended, as a note for the answer; empty for the default note

    def __init__(
        self, limit_type: str, limit_value: float | None, current_value: float | None, message: str = ""
    ) -> None:
        self.limit_type = limit_type
        self.limit_value = limit_value
        self.current_value = current_value
        super().__init__(message or f"{limit_type}: reached {current_value}, allowed {limit_value}")


class RunInterrupted(_Portable, KeyboardInterrupt):
    """Ctrl-C interrupted a run that sync code was waiting for.

    Args:
        result: `AgentResult` so far; its ``stop_reason`` is ``cancelled``, unless the run had just ended.
            For an evaluation, its `EvaluationReport` so far.
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        super().__init__(
            "The run was interrupted. The work done so far is in `result` of this exception; "
            "in a notebook or at a prompt: import sys; sys.last_value.result"
        )


class SessionError(PureAgentLoopError):
    """Session cannot be used."""


class SessionNotFoundError(SessionError, LookupError):
    """Session does not exist."""


class SessionReadError(SessionError):
    """Session store cannot be read. The message names the fix."""


class SessionLockedError(SessionError):
    """Session is open in another writer.

    Args:
        session_id: Id of the session.
        holder: Description of the other writer.
        pid: Process id of the writer, if known.
        host: Host name of the writer, if known.
        since: Time of the lock in seconds since the epoch, if known.
    """

    def __init__(
        self,
        session_id: str,
        holder: str,
        *,
        pid: int | None = None,
        host: str | None = None,
        since: float | None = None,
    ) -> None:
        self.session_id, self.holder = session_id, holder
        self.pid = pid
        self.host = host
        self.since = since
        super().__init__(
            f"Session {session_id!r} is open for writing in {holder}. "
            "Close it there, or start another session."
        )


class SessionWriteError(SessionError):
    """Write to a session failed. Earlier records are intact.

    Args:
        path: File or folder.
        reason: Error text from the system.
    """

    def __init__(self, path: object, reason: object) -> None:
        self.path = str(path)
        self.reason = str(reason)
        super().__init__(f"Cannot write to {self.path}: {self.reason}")


class AuditError(PureAgentLoopError):
    """Audit log cannot be written or read. Earlier entries are intact.

    Args:
        path: File or folder.
        reason: Description of the failure.
        fix: Instruction to fix it.
    """

    def __init__(self, path: object, reason: object, fix: str) -> None:
        self.path = str(path)
        self.reason = str(reason)
        self.fix = fix
        super().__init__(f"Audit log {self.path}: {self.reason}. {fix}")
