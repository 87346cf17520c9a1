"""The tool that finds lines in files: ``grep``."""

from __future__ import annotations

import bisect
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from pure_agent_loop.support.text import clean_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.encoded import UTF16, is_binary
from pure_agent_loop.toolbox.files.matching import Line, LinePattern, Matcher, find_ripgrep
from pure_agent_loop.toolbox.files.patterns import PathPattern, is_skipped
from pure_agent_loop.toolbox.files.walking import Found, Walk
from pure_agent_loop.toolbox.files.words import say
from pure_agent_loop.toolbox.files.workspace import Workspace

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
        raise WorkspaceError(say("grep_pattern", limit=MAX_PATTERN_CHARS))
    ripgrep = find_ripgrep(workspace.root) if options.use_ripgrep else None
    matcher = Matcher(options.pattern, ripgrep, options.seconds)
    source = Source(workspace, options)
    report = _Report(options)
    with matcher.lines(source.pieces(), MAX_LINE_CHARS) as lines:
        for line in lines:
            place = source.place(line.number)
            if place is not None and not report.add(line, *place):
                break
    if source.error is not None:
        raise source.error
    if matcher.failed:
        source.notes.add(say("search_failed"))
    if matcher.too_slow:
        source.notes.add(say("stopped", seconds=options.seconds))
    return clean_text(report.text(source.notes))


class Source:
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
        self._sizes: list[int] = []
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
                size = text.count(b"\n")
                self._names.append(name)
                self._sizes.append(size)
                self._starts.append(self._next)  # last: another thread looks here first
                # Empty lines between, so that lines near the end of one are none of the next.
                gap = b"\n" * self._options.pattern.context
                self._next += size + len(gap)
                yield text + gap
        except WorkspaceError as error:
            self.error = error

    def place(self, number: int) -> tuple[str, int] | None:
        """The file and the line in it; None between two files."""
        index = bisect.bisect_right(self._starts, number) - 1
        within = number - self._starts[index] + 1
        return (self._names[index], within) if within <= self._sizes[index] else None

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
            self.notes.add(say("not_all_folders"))

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
            self.notes.add(say("unread_files"))
            return None

    def _content(self, opened: BinaryIO) -> bytes | None:
        with opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) <= MAX_FILE_BYTES:
            return data
        self.notes.add(say("large_files", limit=MAX_FILE_BYTES))
        return None


class _Report:
    """What the model reads.

    Args:
        options: How much of it, and whether only the files are named.
    """

    def __init__(self, options: GrepOptions) -> None:
        self._limit = options.limit
        self._files_only = options.files_only
        self._context = options.pattern.context
        self._lines: list[str] = []
        self._count = self._chars = 0
        self._shown = self._matched = ("", 0)  # the last line of each kind
        self._before: deque[tuple[Line, str, int]] = deque(maxlen=self._context)
        self._more = False

    def add(self, line: Line, name: str, number: int) -> bool:
        """Take a line; False if there is no room for more."""
        if self._files_only and name == self._matched[0]:
            return True
        if not line.matches:
            self._take_context(line, name, number)
            return True
        if self._count == self._limit or self._chars > MAX_CHARS:
            self._more = True
            return False
        # What stands near an empty line between two files is near no match.
        for other, its_name, its_number in self._before:
            if its_name == name and its_number >= number - self._context:
                self._show(other, its_name, its_number)
        self._before.clear()
        self._show(line, name, number)
        self._matched = (name, number)
        self._count += 1
        return True

    def _take_context(self, line: Line, name: str, number: int) -> None:
        if name == self._matched[0] and number <= self._matched[1] + self._context:
            self._show(line, name, number)
        else:
            self._before.append((line, name, number))

    def _show(self, line: Line, name: str, number: int) -> None:
        mark = ":" if line.matches else "-"
        if self._context and self._lines and self._shown != (name, number - 1):
            self._lines.append("--")
        self._lines.append(name if self._files_only else f"{name}{mark}{number}{mark}{line.text}")
        self._shown = (name, number)
        self._chars += len(self._lines[-1])

    def text(self, notes: set[str]) -> str:
        """All of it."""
        lines = list(self._lines) or [say("no_line")]
        if self._more:
            notes = notes | {say("first_files" if self._files_only else "first_matches", count=self._count)}
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
