"""History of tool calls and their results."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.folder import default_folder, files_in, open_file
from pure_agent_loop.audit.log import AuditLog
from pure_agent_loop.errors import AuditError, ConfigError
from pure_agent_loop.support.language import checked_choice
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.text import PlainForm

STATUSES = ("ok", "error", "denied", "stopped", "unfinished")
_RESULT = re.compile(rb'\{"n":\d+,"time":[-+.e\d]+,"kind":"result","of":(\d+),')


@dataclass(frozen=True, slots=True)
class ToolCallEntry(PlainForm):
    """Tool call with its result.

    Args:
        number: Number of the call's line in the log.
        time: Time before the call was made, in seconds since the epoch.
        session: Session id; empty if none.
        tool: Name of the tool.
        args: Arguments, redacted and shortened; almost always an object.
        status: ``ok``, ``error``, ``denied``, ``stopped`` (cancelled or timed out), or ``unfinished``: no
            result was written, because the call is running or its process was killed.
        user_message: Task of the run, shortened.
        result: Recorded part of the result, redacted; None if there is none or results are not recorded.
        result_sha256: SHA-256 of the whole result.
        result_length: Length of the result in characters.
        seconds: Duration; None if unknown.
        verdict: ``allow`` or ``deny``.
        reason: Reason for the verdict.
        user: User who ran the agent.
        host: Machine.
        pid: Process id.
        agent: Name of the agent.
        step: Step of the run.
        call_id: Id of the call in the session.
        notes: Further data about the call; see `AuditLog`.
        exit_code: Exit code of the command that the call ran; None if the call ran no command, or if an older
            version wrote the line.
    """

    number: int
    time: float
    session: str
    tool: str
    args: Any
    status: str
    user_message: str = ""
    result: str | None = None
    result_sha256: str = ""
    result_length: int | None = None
    seconds: float | None = None
    verdict: str = ""
    reason: str = ""
    user: str = ""
    host: str = ""
    pid: int = 0
    agent: str = ""
    step: int = 0
    call_id: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None


def history(
    log: AuditLog | str | os.PathLike[str] | None = None,
    *,
    session: str | None = None,
    tool: str | None = None,
    since: float | datetime | None = None,
    until: float | datetime | None = None,
    status: str | None = None,
    text: str | None = None,
    limit: int | None = None,
) -> list[ToolCallEntry]:
    """Return the calls that match, in the order in which they were started.

    This function does not check the log; see `verify`.

    Args:
        log: The log, its folder, or one of its files; None uses the default log.
        session: Session id to match.
        tool: Tool name to match.
        since: Match calls started at or after this time: seconds since the epoch, or a datetime.
        until: Match calls started before this time.
        status: Status to match.
        text: Text to find in arguments, task, reason or result, ignoring case.
        limit: Maximum number of calls; the newest are returned.

    Raises:
        ConfigError: The status is unknown, or the limit is below 1.
        AuditError: A file cannot be read.
    """
    if status is not None:
        checked_choice("status", status, STATUSES)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit: {limit} is not a whole number above 0")
    path = default_folder() if log is None else log.path if isinstance(log, AuditLog) else Path(log)
    call_filter = _CallFilter(
        session, tool, _seconds(since), _seconds(until), status, text and text.casefold()
    )
    newest_first = (entry for entry, _ in _with_results(path, call_filter) if call_filter.matches(entry))
    return [*islice(newest_first, limit)][::-1]


def find_call(log: AuditLog | str | os.PathLike[str] | None, number: int) -> ToolCallEntry | None:
    """Return the call whose own line or result line has this number; None if no call has it.

    Raises:
        AuditError: A file cannot be read.
    """
    path = default_folder() if log is None else log.path if isinstance(log, AuditLog) else Path(log)
    calls = _with_results(path, _CallFilter())
    return next((entry for entry, result in calls if number in (entry.number, result)), None)


def _seconds(moment: float | datetime | None) -> float | None:
    return moment.timestamp() if isinstance(moment, datetime) else moment


@dataclass(frozen=True, slots=True)
class _CallFilter:
    session: str | None = None
    tool: str | None = None
    since: float | None = None
    until: float | None = None
    status: str | None = None
    text: str | None = None

    def marks(self) -> list[bytes]:
        """Return strings that every matching line contains, so that most other lines need not be parsed."""
        filters = {"session": self.session, "tool": self.tool}
        return [f'"{name}":{_quoted(value)}'.encode() for name, value in filters.items() if value is not None]

    def matches(self, entry: ToolCallEntry) -> bool:
        return (
            self.session in (None, entry.session)
            and self.tool in (None, entry.tool)
            and self.status in (None, entry.status)
            and (self.since is None or entry.time >= self.since)
            and (self.until is None or entry.time < self.until)
            and (self.text is None or self.text in _all_text(entry))
        )


def _quoted(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


def _all_text(entry: ToolCallEntry) -> str:
    args = json.dumps(entry.args, ensure_ascii=False)
    return "\n".join((args, entry.user_message, entry.reason, entry.result or "")).casefold()


def _with_results(path: Path, call_filter: _CallFilter) -> Iterator[tuple[ToolCallEntry, int]]:
    """Yield calls, newest first, each with the line number of its result, or 0 if it has none."""
    results: dict[int, bytes] = {}
    marks = call_filter.marks()
    for line in _lines_backwards(path):
        if any(mark not in line for mark in marks):
            continue
        if b'"kind":"result"' in line[:80]:
            match = _RESULT.match(line)
            if match is not None:
                results[int(match[1])] = line
            continue
        fields = _parse(line)
        if fields is None or fields.get("kind") != "call":
            continue
        result = _parse(results.pop(fields["n"], b"")) or {}
        yield _entry(fields, result), result.get("n", 0)


def _lines_backwards(path: Path) -> Iterator[bytes]:
    try:
        files = [path] if path.is_file() else [file for _, file in files_in(path)]
        for file in reversed(files):
            with os.fdopen(open_file(file, os.O_RDONLY), "rb") as stream:
                lines = stream.read().split(b"\n")
            while lines:
                yield lines.pop()
    except OSError as error:
        fix = "Make it readable for this user, or use another log"
        raise AuditError(error.filename or path, error.strerror or error, fix) from error


def _parse(line: bytes) -> dict[str, Any] | None:
    """Parse a line; return None for an unusable one, which `verify` reports."""
    fields = parsed_object(line) or {}
    usable = (
        type(fields.get("n")) is int
        and type(fields.get("time")) in (int, float)
        and isinstance(fields.get("tool"), str)
        and isinstance(fields.get("session"), str)
    )
    return fields if usable else None


def _entry(call: dict[str, Any], result: dict[str, Any]) -> ToolCallEntry:
    return ToolCallEntry(
        number=call["n"],
        time=call["time"],
        session=call["session"],
        tool=call["tool"],
        args=call.get("args"),
        status=str(result.get("status", "unfinished")),
        user_message=str(call.get("task", "")),
        result=result.get("result"),
        result_sha256=str(result.get("result_sha256", "")),
        result_length=result.get("result_length"),
        seconds=result.get("seconds"),
        verdict=str(call.get("verdict", "")),
        reason=str(call.get("reason", "")),
        user=str(call.get("user", "")),
        host=str(call.get("host", "")),
        pid=call.get("pid", 0),
        agent=str(call.get("agent", "")),
        step=call.get("step", 0),
        call_id=str(call.get("call", "")),
        notes=call["notes"] if isinstance(call.get("notes"), dict) else {"notes": call.get("notes")},
        exit_code=code if isinstance(code := result.get("exit_code"), int) else None,
    )
