"""The audit log: what an agent's `audit` is given."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.chain import Chain
from pure_agent_loop.audit.folder import default_folder
from pure_agent_loop.audit.redact import Redact, default_redaction
from pure_agent_loop.audit.seal import Sealer
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.tools.observers import CallRecord, CallStatus
from pure_agent_loop.support.text import as_text, clean_text, shorten, to_jsonable

RESULT_CHARS = 2_000
FILE_BYTES = 16 << 20
_NAME_CHARS, _TASK_CHARS, _REASON_CHARS = 200, 500, 1_000
_TEXT_CHARS, _ARGS_CHARS = 2_000, 20_000

Notes = Mapping[str, Any] | Callable[[CallRecord], Mapping[str, Any]]


class AuditLog:
    """Writes down every tool call of an agent, in lines that are chained to each other.

    Several processes and threads may write the same log.

    Args:
        path: The folder of the log; ``audit`` in the data folder if None. It is made with the first line.
        user: Who runs the agent; the account of this process if None.
        keep_results: Keep the redacted beginning and end of each result; False: its hash and length only.
        result_chars: How much of a result is kept, in characters, about.
        redact: Replaces secrets in a text or JSON value; applied to arguments, reasons, tasks, results and
            notes before they are cut. What it fails on is left out. None takes `default_redaction`.
        key: A secret of at least 16 characters that seals the lines (HMAC); None takes
            ``PURE_AGENT_LOOP_AUDIT_KEY`` if it is set, "" takes none.
        notes: What else belongs to each call, such as the permission mode or the sandbox; or what gives it.
        durable: Each line would survive a power cut before the call is made.
        file_bytes: A file longer than this is followed by another one.
        now: Gives the time of lines, in seconds since the epoch.

    Raises:
        ConfigError: The key is too short, or a number is not above 0.
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
        self._who = {"user": _cut(user or account(), _NAME_CHARS), "host": socket.gethostname()}
        self._keep_results = keep_results
        self._result_chars = result_chars
        self._redact = default_redaction() if redact is None else redact
        self._notes = notes
        self.sealer = Sealer(key)
        self._chain = Chain(self.path, self.sealer, durable=durable, max_bytes=file_bytes, now=now)
        self._begun: dict[int, tuple[CallRecord, int]] = {}  # by identity: two calls may look the same

    def check(self) -> None:
        """Find out before the first call whether calls can be written down.

        Raises:
            AuditError: They cannot.
        """
        self._chain.check()

    def begin(self, call: CallRecord) -> None:
        """Write down that a call is about to be made, or was denied.

        Raises:
            AuditError: It cannot be written; the call must not be made.
        """
        fields = {
            "kind": "call",
            **self._about(call),
            "args": self._value(dict(call.args)),
            "verdict": call.behavior,
            "reason": self._text(call.reason, _REASON_CHARS),
            "task": self._text(call.task, _TASK_CHARS),
            "notes": self._value(self._noted(call)),
        }
        self._begun[id(call)] = (call, self._chain.append(fields))

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> None:
        """Write down how the same call ended.

        Raises:
            AuditError: It cannot be written.
        """
        text = clean_text(text)
        fields = {
            "kind": "result",
            "of": self._begun.pop(id(call), (call, None))[1],
            **self._about(call),
            "status": status,
            "seconds": round(seconds, 6),
            "result_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "result_length": len(text),
            "result": self._text(text, self._result_chars) if self._keep_results else None,
        }
        self._chain.append(fields)

    def _about(self, call: CallRecord) -> dict[str, Any]:
        return {
            **self._who,
            "pid": os.getpid(),
            "agent": _cut(call.agent, _NAME_CHARS),
            "session": _cut(call.session_id, _NAME_CHARS),
            "step": call.step,
            "call": _cut(call.call_id, _NAME_CHARS),
            "tool": _cut(call.tool, _NAME_CHARS),
        }

    def _noted(self, call: CallRecord) -> dict[str, Any]:
        if self._notes is None:
            return {}
        try:
            return dict(self._notes(call) if callable(self._notes) else self._notes)
        except Exception as error:  # noqa: BLE001 - foreign code; a call is not held up by a remark on it
            return {"notes": f"[left out: they failed with {type(error).__name__}]"}

    def _redacted(self, value: Any) -> Any:
        try:
            return to_jsonable(self._redact(to_jsonable(value)))
        except Exception as error:  # noqa: BLE001 - foreign code; what it was to redact must not get out
            return f"[left out: the redaction failed with {type(error).__name__}]"

    def _text(self, text: str, limit: int) -> str:
        return shorten(as_text(self._redacted(text)), limit)

    def _value(self, value: Any) -> Any:
        """A value without secrets, its long texts cut; if it is still long, the beginning of its JSON."""
        found = _cut_texts(self._redacted(value))
        text = json.dumps(found)
        return found if len(text) <= _ARGS_CHARS else _shortened(text)


def _cut_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS else _shortened(value)
    if isinstance(value, dict):
        return {_cut(key, _NAME_CHARS): _cut_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut_texts(each) for each in value]
    return value


def _shortened(text: str) -> dict[str, Any]:
    """What stands for a long text: its beginning and end, and what it takes to recognise the whole."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"cut": shorten(text, _TEXT_CHARS), "sha256": digest, "length": len(text)}


def _cut(text: str, limit: int) -> str:
    text = clean_text(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def account() -> str:
    """The account this process runs as: what the system says, not what a variable claims."""
    try:
        if sys.platform == "win32":
            return getpass.getuser()
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError, ImportError):
        return str(getattr(os, "getuid", lambda: "unknown")())
