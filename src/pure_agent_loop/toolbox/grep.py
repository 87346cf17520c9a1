"""The tool that finds lines in files: ``grep``."""

from __future__ import annotations

import bisect
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from pure_agent_loop.text import clean_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.encoded import UTF16, is_binary
from pure_agent_loop.toolbox.matching import Line, LinePattern, Matcher, find_ripgrep
from pure_agent_loop.toolbox.patterns import PathPattern, is_skipped
from pure_agent_loop.toolbox.walking import Found, Walk
from pure_agent_loop.toolbox.workspace import Workspace

MAX_FILE_BYTES = 10_000_000
MAX_LINE_CHARS = 400
MAX_PATTERN_CHARS = 1_000
MAX_LINES = 1_000
MAX_CHARS = 100_000
MAX_CONTEXT = 20
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class GrepOptions:
    """What to look for and where; see `SearchTools.grep`."""

    pattern: LinePattern
    path: str
    glob: str
    hidden: bool
    files_only: bool
    limit: int
    seconds: float
    use_ripgrep: bool


def grep(workspace: Workspace, options: GrepOptions) -> str:
    """The lines that fit, each behind its file and number."""
    text = options.pattern.pattern
    if not text or len(text) > MAX_PATTERN_CHARS or "\n" in text or "\0" in text:
        raise WorkspaceError(
            f"The pattern must have 1 to {MAX_PATTERN_CHARS} characters and stand in one line: grep looks at "
            "each line alone."
        )
    ripgrep = find_ripgrep(workspace.root) if options.use_ripgrep else None
    matcher = Matcher(options.pattern, ripgrep, options.seconds)
    source = _Source(workspace, options)
    report = _Report(options.limit, options.files_only, options.pattern.context > 0)
    with matcher.lines(source.pieces(), MAX_LINE_CHARS) as lines:
        for line in lines:
            if not report.add(line, *source.place(line.number)):
                break
    if source.error is not None:
        raise source.error
    if matcher.failed:
        source.notes.add("the search ended early: its program failed")
    if matcher.too_slow:
        source.notes.add(
            f"stopped after {options.seconds:g} seconds: use a simpler pattern or a narrower path"
        )
    return clean_text(report.text(source.notes))


class _Source:
    """The text of all files that are searched, one behind the other, and which line belongs to which file.

    Args:
        workspace: Where they lie.
        options: Which they are.
    """

    def __init__(self, workspace: Workspace, options: GrepOptions) -> None:
        self._workspace = workspace
        self._options = options
        self._glob = _anywhere(options.glob) if options.glob else None
        self._starts: list[int] = []
        self._names: list[str] = []
        self._next = 1
        self._deadline = time.monotonic() + options.seconds
        self.notes: set[str] = set()
        self.error: WorkspaceError | None = None

    def pieces(self) -> Iterator[bytes]:
        """The text. What cannot be read is left out and noted."""
        try:
            for name, data in self._files():
                text = _lines_of(data)
                if text is None:
                    continue
                self._starts.append(self._next)
                self._names.append(name)
                # Empty lines between, so that lines near the end of one are none of the next.
                gap = b"\n" * self._options.pattern.context
                self._next += text.count(b"\n") + len(gap)
                yield text + gap
        except WorkspaceError as error:
            self.error = error

    def place(self, number: int) -> tuple[str, int]:
        """The file and the line in it."""
        index = bisect.bisect_right(self._starts, number) - 1
        return self._names[index], number - self._starts[index] + 1

    def _files(self) -> Iterator[tuple[str, bytes]]:
        path = self._options.path
        start = self._workspace.parts(path)
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(self._workspace.folder(path))
            except WorkspaceError:  # no folder; a file it may be
                content = self._content(self._workspace.open_for_reading(path))
                if content is not None:
                    yield "/".join(start), content
                return
            walk = Walk(folder, self._enters)
            for each in walk:
                content = self._found(each, "/".join((*start, *each.parts)))
                if content is not None:
                    yield "/".join((*start, *each.parts)), content
        if not walk.complete:
            self.notes.add("not every folder was searched: too many, too deep, or not readable")

    def _enters(self, parts: tuple[str, ...]) -> bool:
        if self._is_late() or self._leaves_out(parts[-1]):
            return False
        return self._glob is None or self._glob.may_contain(parts)

    def _leaves_out(self, name: str) -> bool:
        if self._options.hidden or not is_skipped(name):
            return False
        return self._glob is None or not self._glob.names_it(name)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _found(self, each: Found, name: str) -> bytes | None:
        if each.kind != "file" or self._is_late() or self._leaves_out(each.parts[-1]):
            return None
        if self._glob is not None and not self._glob.matches(each.parts):
            return None
        try:
            return self._content(
                self._workspace.readable(each.folder.open(each.parts[-1], os.O_RDONLY), name)
            )
        except (OSError, WorkspaceError):  # gone, replaced by a link, not for us, or with several names
            self.notes.add("some files could not be read; read_file says why")
            return None

    def _content(self, opened: BinaryIO) -> bytes | None:
        with opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) <= MAX_FILE_BYTES:
            return data
        self.notes.add(f"files larger than {MAX_FILE_BYTES:,} bytes were not searched")
        return None


class _Report:
    """What the model reads.

    Args:
        limit: Greatest number of lines that match, or of files.
        files_only: Whether only the files are named.
        context: Whether lines around are shown, so that groups have to be told apart.
    """

    def __init__(self, limit: int, files_only: bool, context: bool) -> None:
        self._limit = limit
        self._files_only = files_only
        self._context = context
        self._lines: list[str] = []
        self._count = self._chars = 0
        self._last: tuple[str, int] | None = None
        self._more = False

    def add(self, line: Line, name: str, number: int) -> bool:
        """Take a line; False if there is no room for more."""
        if self._files_only and (not line.matches or (self._last is not None and self._last[0] == name)):
            return True
        if line.matches and (self._count == self._limit or self._chars > MAX_CHARS):
            self._more = True
            return False
        if self._files_only:
            self._lines.append(name)
        else:
            if self._context and self._last not in (None, (name, number - 1)):
                self._lines.append("--")
            mark = ":" if line.matches else "-"
            self._lines.append(f"{name}{mark}{number}{mark}{line.text}")
        self._last = (name, number)
        self._count += line.matches
        self._chars += len(self._lines[-1])
        return True

    def text(self, notes: set[str]) -> str:
        """All of it."""
        lines = list(self._lines) or ["No line matches."]
        if self._more:
            what = "files" if self._files_only else "matches"
            notes = notes | {f"only the first {self._count} {what} are shown; there are more"}
        return "\n".join([*lines, *(f"[{note}]" for note in sorted(notes))])


def _anywhere(glob: str) -> PathPattern:
    """A plain name pattern fits in every folder."""
    return PathPattern(glob if "/" in glob else f"**/{glob}")


def _lines_of(data: bytes) -> bytes | None:
    """The text of a file as UTF-8 in whole lines; None if it is no text, or empty."""
    if not data or is_binary(data):
        return None
    text = data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")
