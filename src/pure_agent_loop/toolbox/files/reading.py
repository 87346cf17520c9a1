"""Tools to look at files: ``list_dir`` and ``read_file``. They change nothing."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from typing import BinaryIO

from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.encoded import UTF16, is_binary
from pure_agent_loop.toolbox.files.words import say
from pure_agent_loop.toolbox.files.workspace import Entry, Workspace
from pure_agent_loop.toolbox.words import TOOLS

MAX_ENTRIES = 500
MAX_LINES = 2_000
MAX_BYTES = 100_000
# In a larger file the lines behind the page are not counted: that would take seconds.
MAX_COUNTED_BYTES = 20_000_000
# So far a page is looked for. A file can be larger than any disk (with holes), or grow while it is read.
MAX_SEARCHED_BYTES = 1_000_000_000
_SNIFFED = 8_192
_SIGNATURES = {
    b"\x89PNG": "PNG image",
    b"\xff\xd8\xff": "JPEG image",
    b"GIF8": "GIF image",
    b"%PDF": "PDF document",
    b"PK\x03\x04": "ZIP archive or Office document",
    b"\x1f\x8b": "gzip archive",
    b"\x7fELF": "program",
    b"MZ": "Windows program",
    b"SQLite format 3": "SQLite database",
    b"GGUF": "GGUF model",
}

_EXAMPLES = {
    "list_dir": [
        ("Which files are in the music folder?", {"path": "music"}),
        ("What is in this folder?", {"path": "."}),
    ],
    "read_file": [
        ("What does todo.txt say?", {"path": "todo.txt"}),
        ("Show me notes/plan.md", {"path": "notes/plan.md"}),
    ],
}


class FileTools:
    """The file tools of one workspace.

    Args:
        workspace: The folder they are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Tool]:
        """The tools, for ``Agent(tools=...)``; marked as ``read_only``."""
        return [
            Tool(
                each,
                read_only=True,
                untrusted=True,
                words=TOOLS[each.__name__],
                examples=_EXAMPLES[each.__name__],
                root=self._workspace.named,
            )
            for each in (self.list_dir, self.read_file)
        ]

    def list_dir(self, path: str = ".") -> str:
        """List the files and folders in a folder. Folders end with a slash; files show their size.

        Args:
            path: The folder, relative to the workspace. "." is the workspace itself.
        """
        listing = self._workspace.list(path, MAX_ENTRIES)
        if not listing.total:
            return say("empty_folder")
        lines = [_line(entry) for entry in listing.entries]
        more = listing.total - len(lines)
        if more > 0:
            lines.append(say("more_entries", count=more))
        return clean_text("\n".join(lines))

    def read_file(self, path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
        """Read a text file. Long files come in pages; the end of a page says how to get the next one.

        Args:
            path: The file, relative to the workspace, for example "docs/guide.md".
            offset: The first line to read, counted from 1.
            limit: The greatest number of lines to read.
        """
        with self._workspace.open_for_reading(path) as file:
            head = file.read(_SNIFFED)
            size = os.fstat(file.fileno()).st_size
            if is_binary(head):
                return _described(path, head, size)
            file.seek(0)
            page = _read_page(file, _encoding(head), max(1, offset), max(1, limit))
        return _shown(page, path)


def _line(entry: Entry) -> str:
    if entry.kind == "folder":
        return f"{entry.name}/"
    if entry.kind == "file":
        return say("entry_size", name=entry.name, size=entry.size)
    return say("entry_link" if entry.kind == "link" else "entry_other", name=entry.name)


def _described(path: str, head: bytes, size: int) -> str:
    kind = next((name for start, name in _SIGNATURES.items() if head.startswith(start)), "binary")
    return clean_text(say("no_text", path=path, kind=say(kind), size=size))


def _encoding(head: bytes) -> str:
    return "utf-16" if head.startswith(UTF16) else "utf-8-sig"


@dataclass
class _Page:
    """Some lines of a file.

    Args:
        first: Number of the first line wanted.
        lines: The lines, with their ends.
        size: Their bytes.
        total: Number of lines seen in the file.
        all_counted: Whether that is all of them.
        cut: Whether the last line was too long to be shown in full.
    """

    first: int
    lines: list[str] = field(default_factory=list)
    size: int = 0
    total: int = 0
    all_counted: bool = True
    cut: bool = False

    def take(self, line: str) -> bool:
        """Add a line if there is room. A single one that is too long is shown as far as it goes."""
        size = len(line.encode("utf-8", "replace"))
        if self.size + size > MAX_BYTES:
            if not self.lines:
                self.lines.append(line.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore"))
                self.cut = True
            return False
        self.lines.append(line)
        self.size += size
        return True


def _read_page(file: BinaryIO, encoding: str, offset: int, limit: int) -> _Page:
    page = _Page(offset)
    room = at_start = True
    with io.TextIOWrapper(file, encoding=encoding, errors="replace") as reader:
        # Pieces of bounded size, not lines: a file may be one line of a gigabyte.
        for piece in iter(lambda: reader.readline(MAX_BYTES + 1), ""):
            page.total += at_start
            if at_start and room and page.total >= offset:
                room = len(page.lines) < limit and page.take(piece)
            at_start = piece.endswith("\n")
            if file.tell() > (MAX_SEARCHED_BYTES if room else MAX_COUNTED_BYTES):
                page.all_counted = False
                break
    return page


def _shown(page: _Page, path: str) -> str:
    if not page.total:
        return say("empty_file")
    if not page.lines and not page.all_counted:
        raise WorkspaceError(say("line_too_far", path=path, line=page.first, total=page.total))
    if not page.lines:
        raise WorkspaceError(say("offset_past", path=path, total=page.total, line=page.first))
    last = page.first + len(page.lines) - 1
    text = clean_text("".join(page.lines))
    if page.first == 1 and last == page.total and not page.cut:
        return text
    which = "page_lines" if page.all_counted else "page_lines_more"
    notes = [say(which, first=page.first, last=last, total=page.total)]
    if page.cut:
        notes.append(say("line_cut", line=last))
    if last < page.total:
        notes.append(say("read_on", offset=last + 1))
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{'; '.join(notes)}]"
