"""Audit log of an agent: records each tool call (`Agent(audit=...)`)."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.chain import ChainWriter, Sealer
from pure_agent_loop.audit.folder import default_folder
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.observers import CallRecord, CallStatus
from pure_agent_loop.support.abilities import check_shape, checked_function
from pure_agent_loop.support.account import account
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text, clean_text, shorten, to_jsonable

# -- default redaction of the audit log ------------------------------------------------------------------

Redact = Callable[[Any], Any]
RESULT_CHARS = 2_000
FILE_BYTES = 16 << 20
_NAME_CHARS, _TASK_CHARS, _REASON_CHARS = 200, 500, 1_000
_TEXT_CHARS, _ARGS_CHARS = 2_000, 20_000


def default_redaction() -> Redact:
    """Return a function that removes secrets in this process's environment from any JSON value."""
    return Redactor().redact_value


Notes = Mapping[str, Any] | Callable[[CallRecord], Mapping[str, Any]]


class AuditLog:
    """Log that records every tool call of an agent, as lines of a hash chain.

    Several processes and threads may write the same log.

    Args:
        path: Folder of the log; None for ``audit`` in the data folder. It is created with the first line.
        user: User who runs the agent; None for the user account of this process.
        keep_results: True to record the redacted start and end of each result; False for hash and length
            only.
        result_chars: Approximate number of characters to record of a result.
        redact: Function that replaces secrets in a string or JSON value; applied to arguments, reasons,
            tasks, results and notes before they are shortened. Values on which the function fails are left
            out. None for `default_redaction`.
        key: A secret of at least 16 characters that seals the lines (HMAC); None for
            ``PAL_AUDIT_KEY`` if set, "" for no key.
        notes: Further data about each call, such as the permission mode or sandbox, or a function that
            returns it.
        durable: True if each line must survive a power cut before the call is made.
        file_bytes: Size after which a new file is started.
        now: Function that returns the time for a line, in seconds since the epoch.

    Raises:
        ConfigError: The key is too short, or a number is not positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        user: str | None = None,
        keep_results: bool = True,
        result_chars: int = RESULT_CHARS,
        redact: Redact | None = None,
        key: str | bytes | None = None,
        notes: Notes | None = None,
        durable: bool = True,
        file_bytes: int = FILE_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        for name, value in (("result_chars", result_chars), ("file_bytes", file_bytes)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name}: {value!r} is not a whole number above 0")
        self.path = default_folder() if path is None else Path(path).expanduser().absolute()
        self._origin = {"user": _truncate(user or account(), _NAME_CHARS), "host": socket.gethostname()}
        self._keep_results = keep_results
        self._result_chars = result_chars
        self._redact = checked_function("redact", redact, "value") or default_redaction()
        if callable(notes):
            check_shape("notes", notes, ("call",))
        self._notes = notes
        self.sealer = Sealer(key)
        self._chain = ChainWriter(self.path, self.sealer, durable=durable, max_bytes=file_bytes, now=now)
        # Keyed by the `id` of the call object, because two calls may compare equal.
        self._open_calls: dict[int, tuple[CallRecord, int]] = {}

    def check(self) -> None:
        """Check before the first call that calls can be recorded.

        Raises:
            AuditError: The log cannot be written.
        """
        self._chain.check()

    def begin(self, call: CallRecord) -> str:
        """Record that a call is about to be made, or was denied; return notices for the user.

        Raises:
            AuditError: The log cannot be written; the call must not be made.
        """
        fields = {
            "kind": "call",
            **self._call_fields(call),
            "args": self._value(dict(call.args)),
            "verdict": call.behavior,
            "reason": self._text(call.reason, _REASON_CHARS),
            "task": self._text(call.task, _TASK_CHARS),
            "notes": self._value(self._notes_for(call)),
        }
        self._open_calls[id(call)] = (call, self._chain.append(fields))
        return self._chain.take_notices()

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> str:
        """Record how a call ended; return notices for the user.

        Raises:
            AuditError: The log cannot be written.
        """
        text = clean_text(text)
        fields = {
            "kind": "result",
            "of": self._open_calls.pop(id(call), (call, None))[1],
            **self._call_fields(call),
            "status": status,
            "seconds": round(seconds, 6),
            **({} if call.exit_code is None else {"exit_code": call.exit_code}),
            "result_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "result_length": len(text),
            "result": self._text(text, self._result_chars) if self._keep_results else None,
        }
        self._chain.append(fields)
        return self._chain.take_notices()

    def _call_fields(self, call: CallRecord) -> dict[str, Any]:
        return {
            **self._origin,
            "pid": os.getpid(),
            "agent": _truncate(call.agent, _NAME_CHARS),
            "session": _truncate(call.session_id, _NAME_CHARS),
            "step": call.step,
            "call": _truncate(call.call_id, _NAME_CHARS),
            "tool": _truncate(call.tool, _NAME_CHARS),
        }

    def _notes_for(self, call: CallRecord) -> dict[str, Any]:
        if self._notes is None:
            return {}
        try:
            return dict(self._notes(call) if callable(self._notes) else self._notes)
        except Exception as error:  # noqa: BLE001 - user code; failing notes must not block the call
            return {"notes": f"[left out: they failed with {type(error).__name__}]"}

    def _redacted(self, value: Any) -> Any:
        try:
            return to_jsonable(self._redact(to_jsonable(value)))
        except Exception as error:  # noqa: BLE001 - user code; an unredacted value must not be written
            return f"[left out: the redaction failed with {type(error).__name__}]"

    def _text(self, text: str, limit: int) -> str:
        return shorten(as_text(self._redacted(text)), limit)

    def _value(self, value: Any) -> Any:
        """Redact a value and shorten its long strings; if it is still too long, shorten its JSON."""
        shortened = _shorten_texts(self._redacted(value))
        text = json.dumps(shortened)
        return shortened if len(text) <= _ARGS_CHARS else _shortened(text)


def _shorten_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS else _shortened(value)
    if isinstance(value, dict):
        return {_truncate(key, _NAME_CHARS): _shorten_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten_texts(item) for item in value]
    return value


def _shortened(text: str) -> dict[str, Any]:
    """Return the short form of a long string: its start and end, its hash and its length."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"cut": shorten(text, _TEXT_CHARS), "sha256": digest, "length": len(text)}


def _truncate(text: str, limit: int) -> str:
    text = clean_text(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
