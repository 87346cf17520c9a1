"""Finding out whether an audit log is as it was written: one pass over all lines, whatever is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.folder import default_folder, files_in, open_file
from pure_agent_loop.audit.head import NAME, Found, Head, read_head
from pure_agent_loop.audit.log import AuditLog
from pure_agent_loop.audit.seal import GENESIS, Sealer
from pure_agent_loop.audit.walk import LONGEST_LINE, BrokenChain, Walk

_LOOKS = 5  # at a head that a writer may be writing just now
_LOSSES = {
    "cut": "when this was written, the end of the file was missing",
    "foreign": "what stands before it was not written by an audit log",
    "head": "when this was written, the head was damaged or missing, so lines before it may be missing",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where.

    Args:
        file: The name of the file.
        line: Its line, from 1; 0 if it is about the whole file.
        what: What is wrong with it.
    """

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found.

    Args:
        ok: True if nothing was changed, taken away or put in, as far as this can be known.
        lines: How many lines are good, up to the first problem.
        first_problem: The first one; None if all is well.
        files: How many files were looked at.
        torn: How many lines were left unfinished by a writer that was killed, and are marked as such.
        keyed: True if the lines are sealed with a key.
        last_hash: The hash of the last good line. Kept elsewhere, it proves later what was there now.
        notes: What else people should know.
    """

    ok: bool
    lines: int
    first_problem: Problem | None = None
    files: int = 0
    torn: int = 0
    keyed: bool = False
    last_hash: str = GENESIS
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


def verify(
    log: AuditLog | str | os.PathLike[str] | None = None,
    *,
    key: str | bytes | None = None,
    contains: str = "",
) -> VerifyReport:
    """Check a whole log, or one file of it alone. Takes no lock: it may be done while others write.

    Args:
        log: The log, its folder, or one of its files; None takes the default log.
        key: Its key, as for `AuditLog`; a log given as such brings its own.
        contains: A hash noted earlier (`VerifyReport.last_hash`). A log without that line was cut.

    Returns:
        The report. A damaged log raises nothing, and neither does a missing one.

    Raises:
        ConfigError: The key is too short.
    """
    sealer = log.sealer if isinstance(log, AuditLog) else Sealer(key)
    path = default_folder() if log is None else log.path if isinstance(log, AuditLog) else Path(log)
    check = _Check(sealer, contains)
    try:
        problem = check.file_alone(path) if path.is_file() else check.folder(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        problem = Problem(str(path), 0, f"it cannot be read: {reason}")
    return check.report(problem)


class _Check:
    """One verification."""

    def __init__(self, sealer: Sealer, contains: str) -> None:
        self._sealer = sealer
        self._contains = contains.strip().lower()
        self._walk = Walk(sealer)
        self._heads: dict[int, set[str]] = {}
        self._files = 0
        self._notes: list[str] = []
        self._seen = not self._contains or self._contains == GENESIS

    def report(self, problem: Problem | None) -> VerifyReport:
        if self._walk.torn:
            self._notes.append(f"{self._walk.torn} unfinished by a writer that was killed, marked as such")
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
        """One file. It is not known what has to stand before and behind it."""
        self._notes.append("one file alone: whether lines before it or behind it are missing is not known")
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            try:
                fields, _ = self._sealer.open(file.readline(LONGEST_LINE))
                number, before = fields["n"], fields["prev"]
                if type(number) is int and number > 1 and isinstance(before, str):
                    self._walk = Walk(self._sealer, number - 1, before)
            except (ValueError, KeyError):
                pass  # found again as a problem of the first line
        return self._file(path, is_last=True) or self._noted_line(path.name)

    def folder(self, folder: Path) -> Problem | None:
        found = _settled_head(folder, self._sealer)  # before the lines: they are never behind it
        files = files_in(folder)
        if not files:
            return self._empty(folder, found)
        head_problem = self._take_head(found)
        for due, (number, path) in enumerate(files, 1):
            if number != due:
                return Problem(path.name, 0, f"the file number {due} before it is missing")
            problem = self._file(path, is_last=due == len(files))
            if problem is not None:
                return problem
        name = files[-1][1].name
        return (
            self._short(found, name) or head_problem or self._strange(folder, files) or self._noted_line(name)
        )

    def _empty(self, folder: Path, found: Found | None) -> Problem | None:
        if found is None:
            return Problem(str(folder), 0, "there is no audit log")
        if found.heads and not found.problem and found.heads[0].count == 0:
            return self._noted_line(NAME)
        return Problem(str(folder), 0, "all files of the log are missing")

    def _take_head(self, found: Found | None) -> Problem | None:
        if found is None:
            return Problem(NAME, 0, "it is missing, so the end of the log may be missing too")
        for head in found.heads:
            self._heads.setdefault(head.count, set()).add(head.last)
        return Problem(NAME, 0, found.problem) if found.problem else self._fits(Walk(self._sealer))

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
            self._seen = True
        kind = fields.get("kind")
        if kind not in ("call", "result", "torn"):
            what = _LOSSES.get(kind, "") if isinstance(kind, str) else ""
            return Problem(path.name, number, what or "it is of a kind that no log writes")
        problem = self._fits(self._walk)
        return problem and Problem(path.name, number, f"{problem.what} (number {self._walk.count})")

    def _fits(self, walk: Walk) -> Problem | None:
        noted = self._heads.get(walk.count)
        if noted is None or noted == {walk.last}:
            return None
        return Problem(NAME, 0, "the head was written for another line than this one")

    def _end(self, path: Path, number: int, *, is_last: bool) -> Problem | None:
        """What stands behind the last good line: at the very end, a writer may be at it, or was killed."""
        rest = self._walk.rest
        if not rest.size:
            return None
        is_cut = any(count > self._walk.count for count in self._heads)
        if rest.ends_line or not is_last or is_cut or not self._heads:
            return Problem(path.name, number - rest.lines + 1, rest.why)
        self._notes.append("the last line is unfinished: a writer was killed, or is writing it just now")
        return None

    def _short(self, found: Found | None, name: str) -> Problem | None:
        due = max((head.count for head in found.heads), default=0) if found else 0
        if due <= self._walk.count:
            return None
        return Problem(name, 0, f"the end was cut off: there are {self._walk.count} lines, there were {due}")

    def _strange(self, folder: Path, files: list[tuple[int, Path]]) -> Problem | None:
        number, path = files[-1]
        found = _settled_head(folder, self._sealer)  # again: a new file is told of before it is made
        newest = found.heads[0] if found and found.heads else Head()
        return Problem(path.name, 0, "the head knows of no such file") if number > newest.file else None

    def _noted_line(self, name: str) -> Problem | None:
        if self._seen:
            return None
        return Problem(
            name, 0, f"the line with the hash {self._contains[:12]}... that was noted is not there"
        )


def _settled_head(folder: Path, sealer: Sealer) -> Found | None:
    for _ in range(_LOOKS):
        found = read_head(folder, sealer)
        if found is None or not found.problem:
            break
    return found


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        yield line
