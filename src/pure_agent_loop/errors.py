"""What can go wrong, and whose fault it was.

PureAgentLoopError
├── ConfigError            the caller passed something that cannot work (also a ValueError)
├── MissingExtraError      an optional package is not installed (also an ImportError)
├── LLMError               the model, its server or the way there; `kind` says which
├── ToolExecutionError     a tool
├── Retry                  raised by your code: the model should try again, and why
├── LimitExceededError     a limit; used only where a caller asks to have it raised
├── HistoryError           a message history that cannot be repaired (also a ValueError)
├── AuditError             the audit log cannot be written; the call it was for is not made
└── SessionError           a session cannot be used
    ├── SessionNotFoundError   there is none of that name (also a LookupError)
    ├── SessionLockedError     another writer has it open; says who
    ├── SessionReadError       what holds the sessions cannot be read
    └── SessionWriteError      nothing could be written; says where, and what the system said

KeyboardInterrupt
└── RunInterrupted         Ctrl-C in `Agent.run` and its sync siblings; holds the result so far
"""

from __future__ import annotations

from typing import Any, Literal

ErrorKind = Literal[
    "connection",  # refused, reset, cut off
    "timeout",  # silence for too long
    "rate_limit",  # slow down
    "overloaded",  # 5xx, 408, 409: the server's trouble
    "incomplete",  # the answer ended early or was not readable
    "quota",  # no money left; waiting does not help
    "auth",  # 401, 403
    "not_found",  # 404: wrong address or model name
    "context_overflow",  # the request is longer than the model's window
    "bad_request",  # any other 4xx
    "invalid_output",  # an answer that is not of the form that was asked for, after all corrections
    "unknown",
]

TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset(
    {"connection", "timeout", "rate_limit", "overloaded", "incomplete"}
)


class PureAgentLoopError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PureAgentLoopError, ValueError):
    """Something passed in cannot work. The message names the field and the fix."""


class HistoryError(PureAgentLoopError, ValueError):
    """A message history is not a list of chat messages."""


class MissingExtraError(PureAgentLoopError, ImportError):
    """An optional part is not installed.

    Args:
        feature: What the caller wanted, e.g. ``"the embedded model"``.
        extra: The extra that brings it, e.g. ``"local"``.
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(
            f"{feature} needs the extra [{extra}]. Install it beside this package, "
            f"from the project folder: pip install '.[{extra}]'"
        )


class LLMError(PureAgentLoopError):
    """A model request failed.

    Args:
        message: What happened and, where known, what to do.
        original_error: The error underneath, also chained as ``__cause__`` where it was raised.
        kind: One of :data:`ErrorKind`; decides whether a retry can help.
        status: HTTP status, if there was one.
        retry_after: Seconds the server asked us to wait, if it did.
        said: The server's own words, if it said something; without what `message` adds to them.
    """

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
        """True if the same request may well succeed later."""
        return self.kind in TRANSIENT_KINDS


class ToolExecutionError(PureAgentLoopError):
    """A tool failed. The loop turns it into a message for the model; it never ends a run.

    Args:
        tool_name: The tool; left out, the only argument is the message.
        message: What happened.
    """

    def __init__(self, tool_name: str, message: str | None = None) -> None:
        self.tool_name = "" if message is None else tool_name
        self.message = tool_name if message is None else message
        super().__init__(self.message if message is None else f"Tool '{tool_name}' failed: {message}")


class Retry(PureAgentLoopError):  # noqa: N818 - it asks for something, and is no failure of ours
    """Raise it to send the model back: what it wrote cannot be used, and why. The model reads the text.

    A tool raises it about its arguments, an output check about the answer. Each has a number of tries.

    Args:
        why: What is wrong and what would be right.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class LimitExceededError(PureAgentLoopError):
    """A limit was passed. Runs do not raise it (they end with a stop reason); it is there for callers.

    Args:
        limit_type: Which limit, in the words of the stop reasons, e.g. ``"token_limit"``.
        limit_value: What was allowed.
        current_value: What was reached.
    """

    def __init__(self, limit_type: str, limit_value: float, current_value: float) -> None:
        self.limit_type = limit_type
        self.limit_value = limit_value
        self.current_value = current_value
        super().__init__(f"{limit_type}: reached {current_value}, allowed {limit_value}")


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a run that sync code waited for.

    Args:
        result: The `AgentResult` so far; ``stop_reason`` is ``cancelled``, unless the run had just ended.
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        super().__init__("The run was interrupted. The exception's `result` holds what was done.")


class SessionError(PureAgentLoopError):
    """A session cannot be used."""


class SessionNotFoundError(SessionError, LookupError):
    """There is no session of that name."""


class SessionReadError(SessionError):
    """What holds the sessions cannot be read at all. The message says what to do."""


class SessionLockedError(SessionError):
    """Another writer has the session open.

    Args:
        session_id: The session.
        holder: Who has it, in words.
        pid: The process, if it is known.
        host: The machine it runs on, if it is known.
        since: Since when, in seconds since the epoch, if it is known.
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
        self.session_id = session_id
        self.pid = pid
        self.host = host
        self.since = since
        super().__init__(
            f"Session {session_id!r} is open for writing in {holder}. "
            "Close it there, or start another session."
        )


class SessionWriteError(SessionError):
    """Something could not be written. What was written before is whole.

    Args:
        path: The file or folder.
        reason: What the system said.
    """

    def __init__(self, path: object, reason: object) -> None:
        self.path = str(path)
        self.reason = str(reason)
        super().__init__(f"Cannot write to {self.path}: {self.reason}")


class AuditError(PureAgentLoopError):
    """The audit log cannot be written or read. What was written before is whole.

    Args:
        path: The file or folder.
        reason: What is wrong.
        fix: What to do about it.
    """

    def __init__(self, path: object, reason: object, fix: str) -> None:
        self.path = str(path)
        self.reason = str(reason)
        self.fix = fix
        super().__init__(f"Audit log {self.path}: {self.reason}. {fix}")
