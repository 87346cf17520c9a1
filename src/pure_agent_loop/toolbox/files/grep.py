"""The ``grep`` tool: find lines in files."""

from __future__ import annotations

import bisect
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.encoding import UTF16, is_binary
from pure_agent_loop.toolbox.files.matching import LinePattern, MatchedLine, Matcher, find_ripgrep
from pure_agent_loop.toolbox.files.patterns import PathPattern, is_skipped
from pure_agent_loop.toolbox.files.walking import FileEntry, TreeWalk
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_FILE_BYTES = 10_000_000
MAX_LINE_CHARS = 400
MAX_PATTERN_CHARS = 1_000
MAX_LINES = 1_000
MAX_CHARS = 100_000
MAX_CONTEXT = 20
MAX_FOUND = 500
MAX_LINKS = 5  # maximum links named in a note
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class GrepOptions:
    """The query of a search; see `SearchTools.grep`."""

    pattern: LinePattern
    path: str
    glob: str
    hidden: bool
    files_only: bool
    limit: int
    seconds: float
    use_ripgrep: bool


def grep(workspace: Workspace, options: GrepOptions) -> str:
    """Return the matching lines, each with its file and number."""
    text = options.pattern.pattern
    if not text or len(text) > MAX_PATTERN_CHARS or "\n" in text or "\0" in text:
        raise WorkspaceError(model_text("grep_pattern", limit=MAX_PATTERN_CHARS))
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
        source.notes.add(model_text("search_failed"))
    if matcher.too_slow:
        source.notes.add(model_text("stopped", seconds=options.seconds))
    return clean_text(report.text(source.notes))


class SearchScope:
    """Walks a folder for a search, and decides which names to search, until the time is up.

    Args:
        path: The folder to search.
        hidden: Include names that a search usually skips.
    """

    def __init__(
        self, workspace: Workspace, path: str, pattern: PathPattern, hidden: bool, seconds: float
    ) -> None:
        self._workspace = workspace
        self.start = workspace.parts(path)
        self._pattern = pattern
        self._hidden = hidden
        self._deadline = time.monotonic() + seconds
        self._links: list[str] = []
        self._complete = True

    def entries(self, reads_files: bool) -> Iterator[FileEntry]:
        """Yield the entries. Links are followed only in the path and in the names the pattern begins with.

        Args:
            reads_files: True if the search reads files, so that a skipped link to a file is reported.

        Raises:
            WorkspaceError: The path is not a folder, or cannot be opened.
        """
        with ExitStack() as stack:
            fixed: tuple[str, ...] = ()
            folder = stack.enter_context(self._workspace.folder("/".join(self.start)))
            with suppress(WorkspaceError):
                inner = self._workspace.folder("/".join((*self.start, *self._pattern.fixed)))
                folder, fixed = stack.enter_context(inner), self._pattern.fixed
            walk = TreeWalk(folder, self.enters, fixed)
            for entry in walk:
                if entry.kind == "link" and not self.is_late():
                    with suppress(OSError):  # replaced meanwhile
                        if self._leaves_out(entry.parts, reads_files):
                            self._links.append("/".join((*self.start, *entry.parts)))
                yield entry
            self._complete = walk.complete

    def _leaves_out(self, parts: tuple[str, ...], reads_files: bool) -> bool:
        """Return True if the search wants a link's target, but does not reach the target by its own path."""
        base = os.path.realpath(self._workspace.root.joinpath(*self.start))
        target = Path(os.path.realpath(Path(base, *parts)))
        if not target.is_relative_to(self._workspace.root):
            return False
        is_wanted = self.enters if target.is_dir() else self.has if reads_files and target.is_file() else None
        if is_wanted is None or not is_wanted(parts):
            return False
        names = target.relative_to(base).parts if target.is_relative_to(base) else None
        if names is None or not all(self.enters(names[:end]) for end in range(1, len(names))):
            return True
        return bool(names) and not is_wanted(names)

    def notes(self) -> list[str]:
        """Return notes about entries and links that the search left out."""
        notes = [] if self._complete else [model_text("not_all_folders")]
        if self._links:
            names = ", ".join(shown(name) for name in self._links[:MAX_LINKS])
            notes.append(model_text("links_left_out", count=len(self._links), names=names))
        return notes

    def is_late(self) -> bool:
        """Return True if the time is up."""
        return time.monotonic() >= self._deadline

    def enters(self, parts: tuple[str, ...]) -> bool:
        """Return True if a folder is to be searched."""
        return not self.is_late() and not self._skips(parts[-1]) and self._pattern.may_contain(parts)

    def has(self, parts: tuple[str, ...]) -> bool:
        """Return True if a file is to be searched."""
        return not self._skips(parts[-1]) and self._pattern.matches(parts)

    def _skips(self, name: str) -> bool:
        return not self._hidden and is_skipped(name) and not self._pattern.names_it(name)


class Source:
    """The text of all searched files, concatenated, and the file of each line."""

    def __init__(self, workspace: Workspace, options: GrepOptions) -> None:
        self._workspace = workspace
        self._options = options
        # A glob without a slash matches names in any folder.
        glob = options.glob if "/" in options.glob else f"**/{options.glob}"
        self._scope = SearchScope(workspace, options.path, PathPattern(glob), options.hidden, options.seconds)
        self._starts: list[int] = []
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._next = 1
        self.notes: set[str] = set()
        self.error: WorkspaceError | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield the text. Unreadable files are skipped, and mentioned in `notes`."""
        try:
            for name, data in self._files():
                text = _lines_of(data)
                if text is None:
                    continue
                size = text.count(b"\n")
                self._names.append(name)
                self._sizes.append(size)
                self._starts.append(self._next)  # appended last, because another thread reads this list first
                # Empty lines between files keep a match's context within its file.
                gap = b"\n" * self._options.pattern.context
                self._next += size + len(gap)
                yield text + gap
        except WorkspaceError as error:
            self.error = error

    def place(self, number: int) -> tuple[str, int] | None:
        """Return the file and line number of a line in the joined text; None for a line between two files."""
        index = bisect.bisect_right(self._starts, number) - 1
        within = number - self._starts[index] + 1
        return (self._names[index], within) if within <= self._sizes[index] else None

    def _files(self) -> Iterator[tuple[str, bytes]]:
        entries = self._scope.entries(reads_files=True)
        try:
            entry = next(entries, None)
        except WorkspaceError:  # not a folder, so search the path as a file
            content = self._content(self._workspace.open_for_reading(self._options.path))
            if content is not None:
                yield "/".join(self._scope.start), content
            return
        while entry is not None:
            name = "/".join((*self._scope.start, *entry.parts))
            content = self._entry_content(entry, name)
            if content is not None:
                yield name, content
            entry = next(entries, None)
        self.notes.update(self._scope.notes())

    def _entry_content(self, entry: FileEntry, name: str) -> bytes | None:
        if entry.kind != "file" or self._scope.is_late() or not self._scope.has(entry.parts):
            return None
        try:
            return self._content(
                self._workspace.readable(entry.folder.open(entry.parts[-1], os.O_RDONLY), name)
            )
        except (OSError, WorkspaceError):  # removed or replaced since the listing, unreadable, or a hard link
            self.notes.add(model_text("unread_files"))
            return None

    def _content(self, opened: BinaryIO) -> bytes | None:
        with opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) <= MAX_FILE_BYTES:
            return data
        self.notes.add(model_text("large_files", limit=MAX_FILE_BYTES))
        return None


class _Report:
    """The search result as text for the model.

    Args:
        options: The limits and the format of the text.
    """

    def __init__(self, options: GrepOptions) -> None:
        self._limit = options.limit
        self._files_only = options.files_only
        self._context = options.pattern.context
        self._lines: list[str] = []
        self._count = self._chars = 0
        self._shown = self._matched = ("", 0)  # places of the last shown and the last matching line
        self._before: deque[tuple[MatchedLine, str, int]] = deque(maxlen=self._context)
        self._is_full = False

    def add(self, line: MatchedLine, name: str, number: int) -> bool:
        """Add a line; return False if the report is full."""
        if self._files_only and name == self._matched[0]:
            return True
        if not line.matches:
            self._add_context(line, name, number)
            return True
        if self._count == self._limit or self._chars > MAX_CHARS:
            self._is_full = True
            return False
        # Show only lines of the same file that are close enough to the match.
        for other, its_name, its_number in self._before:
            if its_name == name and its_number >= number - self._context:
                self._show(other, its_name, its_number)
        self._before.clear()
        self._show(line, name, number)
        self._matched = (name, number)
        self._count += 1
        return True

    def _add_context(self, line: MatchedLine, name: str, number: int) -> None:
        if name == self._matched[0] and number <= self._matched[1] + self._context:
            self._show(line, name, number)
        else:
            self._before.append((line, name, number))

    def _show(self, line: MatchedLine, name: str, number: int) -> None:
        mark = ":" if line.matches else "-"
        if self._context and self._lines and self._shown != (name, number - 1):
            self._lines.append("--")
        name, place = quoted_path(name), (name, number)
        self._lines.append(name if self._files_only else f"{name}{mark}{number}{mark}{line.text}")
        self._shown = place
        self._chars += len(self._lines[-1])

    def text(self, notes: set[str]) -> str:
        """Return the whole report."""
        lines = list(self._lines) or [model_text("no_line")]
        if self._is_full:
            notes = notes | {
                model_text("first_files" if self._files_only else "first_matches", count=self._count)
            }
        return "\n".join([*lines, *(f"[{note}]" for note in sorted(notes))])


def _lines_of(data: bytes) -> bytes | None:
    """Return a file's text as UTF-8 in whole lines; None if it is binary or empty."""
    if not data or is_binary(data):
        return None
    text = data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")


def _no_match_text(pattern: str, hidden: bool) -> str:
    hints = []
    if "/" not in pattern:
        hints.append(model_text("into_folders", pattern=pattern))
    if not hidden:
        hints.append(model_text("also_hidden"))
    return model_text("no_match", pattern=pattern) + (
        model_text("ways", ways="; ".join(hints)) if hints else ""
    )


# -- the search tools: ``glob`` by name and ``grep`` by content ------------------------------------------


class SearchTools:
    """The search tools of one workspace.

    Args:
        workspace: The folder the tools are restricted to.
        seconds: Time limit of each call.
        use_ripgrep: Search with ripgrep if installed; otherwise with Python.
    """

    def __init__(self, workspace: Workspace, *, seconds: float = SECONDS, use_ripgrep: bool = True) -> None:
        self._workspace = workspace
        self._seconds = seconds
        self._use_ripgrep = use_ripgrep

    def tools(self) -> list[Tool]:
        """Return the tools, for ``Agent(tools=...)``; they are ``read_only``."""
        return [
            Tool(
                function,
                read_only=True,
                untrusted=True,
                words=TOOLS[function.__name__],
                root=self._workspace.named,
            )
            for function in (self.glob, self.grep)
        ]

    def glob(self, pattern: str, path: str = ".", hidden: bool = False) -> str:
        """Find files by name. Gives their paths, sorted.

        Args:
            pattern: For example "**/*.py" (any folder), "src/*.{js,ts}" or "README*".
            path: The folder the pattern starts from, relative to the workspace.
            hidden: Also look at names that begin with a dot, node_modules and __pycache__.
        """
        scope = SearchScope(self._workspace, path, PathPattern(pattern), hidden, self._seconds)
        lines: list[str] = []
        for entry in scope.entries(reads_files=False):
            if scope.is_late():
                break
            if not scope.has(entry.parts):
                continue
            if len(lines) == MAX_FOUND:
                lines.append(model_text("only_first", count=MAX_FOUND))
                break
            lines.append(quoted_path("/".join((*scope.start, *entry.parts))))
        if not lines:
            lines.append(_no_match_text(pattern, hidden))
        if scope.is_late():
            lines.append(f"[{model_text('stopped', seconds=self._seconds)}]")
        lines += [f"[{note}]" for note in scope.notes()]
        return clean_text("\n".join(lines))

    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str = "",
        ignore_case: bool = False,
        context: int = 0,
        files_only: bool = False,
        hidden: bool = False,
        limit: int = 100,
    ) -> str:
        """Find lines in files by a regular expression. Gives "file:line:text" for each.

        Args:
            pattern: A regular expression for a part of one line, for example "def \\w+_test".
            path: The folder or file to search, relative to the workspace.
            glob: Only search files of this name, for example "*.py".
            ignore_case: Take upper and lower case as the same.
            context: Number of lines to show before and after each.
            files_only: Only give the names of the files.
            hidden: Also search names that begin with a dot, node_modules and __pycache__.
            limit: The greatest number of matches, or files, to show.
        """
        wanted = LinePattern(pattern, ignore_case, 0 if files_only else min(max(context, 0), MAX_CONTEXT))
        options = GrepOptions(
            pattern=wanted,
            path=path,
            glob=glob,
            hidden=hidden,
            files_only=files_only,
            limit=min(max(limit, 1), MAX_LINES),
            seconds=self._seconds,
            use_ripgrep=self._use_ripgrep,
        )
        return grep(self._workspace, options)
