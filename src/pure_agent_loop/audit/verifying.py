"""Verify an audit log: one pass over all lines, whatever their content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.chain import (
    GENESIS,
    MAX_LINE_BYTES,
    NAME,
    BrokenChain,
    Head,
    HeadFile,
    Sealer,
    Walk,
    read_head,
)
from pure_agent_loop.audit.folder import default_folder, files_in, open_file
from pure_agent_loop.audit.log import AuditLog
from pure_agent_loop.support.text import PlainForm

_READ_ATTEMPTS = 5  # repeated, because another process may be writing the head
_LOSSES = {
    "cut": "when this was written, the end of the file was missing",
    "foreign": "the bytes before it were not written by an audit log",
    "lost": "when this was written, earlier lines of its writer were missing",
    "head": "when this was written, the head was damaged or missing, so earlier lines may be missing",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem in an audit log.

    Args:
        file: Name of the file.
        line: Line number, from 1; 0 for the whole file.
        what: Description.
    """

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass(frozen=True, slots=True)
class VerifyReport(PlainForm):
    """Result of `verify`.

    Args:
        ok: True if no change, removal or insertion was detected.
        lines: Number of valid lines, up to the first problem.
        first_problem: First problem; None if there is none.
        files: Number of files checked.
        torn: Number of lines that a killed writer left unfinished, and that are marked as such.
        keyed: True if the lines are sealed with a key.
        last_hash: Hash of the last valid line. If stored elsewhere, this hash can later prove what the log
            contains now.
        notes: Further notices for the user.
    """

    ok: bool
    lines: int
    first_problem: Problem | None = None
    files: int = 0
    torn: int = 0
    keyed: bool = False
    last_hash: str = GENESIS
    notes: tuple[str, ...] = ()


def verify(
    log: AuditLog | str | os.PathLike[str] | None = None,
    *,
    key: str | bytes | None = None,
    contains: str = "",
) -> VerifyReport:
    """Verify a whole log, or one of its files. No lock is taken, so other processes may write meanwhile.

    Args:
        log: The log, its folder, or one of its files; None for the default log.
        key: Key of the log, as for `AuditLog`; unused if `log` is an `AuditLog`.
        contains: A hash noted earlier (`VerifyReport.last_hash`). If no line has this hash, the log was
            truncated.

    Returns:
        The report. A damaged or missing log does not raise.

    Raises:
        ConfigError: The key is too short.
    """
    sealer = log.sealer if isinstance(log, AuditLog) else Sealer(key)
    path = default_folder() if log is None else log.path if isinstance(log, AuditLog) else Path(log)
    check = _Verification(sealer, contains)
    try:
        problem = check.file_alone(path) if path.is_file() else check.folder(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        problem = Problem(str(path), 0, f"cannot be read: {reason}")
    return check.report(problem)


class _Verification:
    """Verification of one log."""

    def __init__(self, sealer: Sealer, contains: str) -> None:
        self._sealer = sealer
        self._contains = contains.strip().lower()
        self._walk = Walk(sealer)
        self._heads: dict[int, set[str]] = {}
        self._files = 0
        self._notes: list[str] = []
        self._open: dict[Any, tuple[Any, ...]] = {}  # calls without a result, by number
        self._first = 1  # number of the first line checked
        self._contains_found = not self._contains or self._contains == GENESIS

    def report(self, problem: Problem | None) -> VerifyReport:
        if self._walk.torn:
            self._notes.append(f"{self._walk.torn} left unfinished by a killed writer, and marked as such")
        return VerifyReport(
            ok=problem is None,
            lines=self._walk.count,
            first_problem=problem,
            files=self._files,
            torn=self._walk.torn,
            keyed=self._sealer.key_id is not None,
            last_hash=self._walk.last,
            notes=tuple(self._notes),
        )

    def file_alone(self, path: Path) -> Problem | None:
        """Verify one file. The lines in earlier and later files are unknown."""
        self._notes.append("one file alone: missing lines before or after it cannot be detected")
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            try:
                fields, _ = self._sealer.open(file.readline(MAX_LINE_BYTES))
                number, before = fields["n"], fields["prev"]
                if type(number) is int and number > 1 and isinstance(before, str):
                    self._walk, self._first = Walk(self._sealer, number - 1, before), number
            except (ValueError, KeyError):
                pass  # an unreadable first line is reported below
        return self._file(path, is_last=True) or self._check_contains(path.name)

    def folder(self, folder: Path) -> Problem | None:
        # The head is read before the lines, so that it is never ahead of them.
        head_file = _settled_head(folder, self._sealer)
        files = files_in(folder)
        if not files:
            return self._empty(folder, head_file)
        head_problem = self._read_heads(head_file)
        for number_due, (number, path) in enumerate(files, 1):
            if number != number_due:
                return Problem(path.name, 0, f"file number {number_due} before it is missing")
            problem = self._file(path, is_last=number_due == len(files))
            if problem is not None:
                return problem
        name = files[-1][1].name
        return (
            self._check_end(head_file, name)
            or head_problem
            or self._check_newest_file(folder, files)
            or self._check_contains(name)
        )

    def _empty(self, folder: Path, head_file: HeadFile | None) -> Problem | None:
        if head_file is None:
            return Problem(str(folder), 0, "there is no audit log")
        if head_file.heads and not head_file.problem and head_file.heads[0].count == 0:
            return self._check_contains(NAME)
        return Problem(str(folder), 0, "all log files are missing")

    def _read_heads(self, head_file: HeadFile | None) -> Problem | None:
        if head_file is None:
            return Problem(NAME, 0, "it is missing, so the end of the log may be missing too")
        for head in head_file.heads:
            self._heads.setdefault(head.count, set()).add(head.last)
        return (
            Problem(NAME, 0, head_file.problem) if head_file.problem else self._check_head(Walk(self._sealer))
        )

    def _file(self, path: Path, *, is_last: bool) -> Problem | None:
        self._files += 1
        number = 0
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            for number, line in enumerate(_lines(file), 1):
                try:
                    fields = self._walk.step(line)
                except BrokenChain as error:
                    return Problem(path.name, number - error.at, str(error))
                if fields is not None and (problem := self._line(path, number, fields)) is not None:
                    return problem
        return self._end(path, number, is_last=is_last)

    def _line(self, path: Path, number: int, fields: dict[str, Any]) -> Problem | None:
        if self._walk.last == self._contains:
            self._contains_found = True
        kind = fields.get("kind")
        if kind not in ("call", "result", "torn"):
            what = _LOSSES.get(kind, "") if isinstance(kind, str) else ""
            return Problem(path.name, number, what or "its kind is unknown")
        if not self._has_call(fields):
            return Problem(path.name, number, "it is the result of a call that is not in this log")
        problem = self._check_head(self._walk)
        return problem and Problem(path.name, number, f"{problem.what} (number {self._walk.count})")

    def _has_call(self, fields: dict[str, Any]) -> bool:
        """Return False for a result whose call is missing, as when the log is removed during the call."""
        call_key = tuple(fields.get(name) for name in ("pid", "session", "step", "call", "tool"))
        if fields["kind"] == "call":
            self._open[self._walk.count] = call_key
            return True
        of = fields.get("of")
        is_before = type(of) is int and 0 < of < self._first
        return fields["kind"] != "result" or is_before or self._open.pop(of, None) == call_key

    def _check_head(self, walk: Walk) -> Problem | None:
        recorded = self._heads.get(walk.count)
        if recorded is None or recorded == {walk.last}:
            return None
        return Problem(NAME, 0, "the head was written for a different line")

    def _end(self, path: Path, number: int, *, is_last: bool) -> Problem | None:
        """Check the bytes after the last valid line.

        At the end of the log, they may come from a writer that is still writing, or was killed.
        """
        unread = self._walk.rest
        if not unread.size:
            return None
        is_cut = any(count > self._walk.count for count in self._heads)
        if unread.ends_line or not is_last or is_cut or not self._heads:
            return Problem(path.name, number - unread.lines + 1, unread.why)
        self._notes.append("the last line is unfinished: a writer was killed, or is writing it now")
        return None

    def _check_end(self, head_file: HeadFile | None, name: str) -> Problem | None:
        expected = max((head.count for head in head_file.heads), default=0) if head_file else 0
        if expected <= self._walk.count:
            return None
        return Problem(name, 0, f"the end is missing: {self._walk.count} lines remain of {expected}")

    def _check_newest_file(self, folder: Path, files: list[tuple[int, Path]]) -> Problem | None:
        number, path = files[-1]
        # Read the head again, because a new file is announced before it is created.
        head_file = _settled_head(folder, self._sealer)
        newest = head_file.heads[0] if head_file and head_file.heads else Head()
        return Problem(path.name, 0, "the head does not list this file") if number > newest.file else None

    def _check_contains(self, name: str) -> Problem | None:
        if self._contains_found:
            return None
        return Problem(name, 0, f"the line with the hash {self._contains[:12]}... was noted but is missing")


def _settled_head(folder: Path, sealer: Sealer) -> HeadFile | None:
    for _ in range(_READ_ATTEMPTS):
        head_file = read_head(folder, sealer)
        if head_file is None or not head_file.problem:
            break
    return head_file


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        yield line
