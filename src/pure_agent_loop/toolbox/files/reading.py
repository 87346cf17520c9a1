"""The tools ``list_dir`` and ``read_file``, which change nothing."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from typing import BinaryIO

from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.encoding import UTF16, is_binary
from pure_agent_loop.toolbox.files.known import MAX_HASHED_BYTES, state_of
from pure_agent_loop.toolbox.files.workspace import FolderEntry, Workspace

MAX_ENTRIES = 500
MAX_LINES = 2_000
MAX_BYTES = 100_000
# In a larger file, the lines after the page are not counted, because counting would take seconds.
MAX_COUNTED_BYTES = 20_000_000
# Maximum bytes read in search of a page. A sparse file can be larger than any disk, and a file
# can grow while it is being read.
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
    """The tools that read files in one workspace.

    Args:
        workspace: The folder the tools are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        workspace.known.is_readable = True

    def tools(self) -> list[Tool]:
        """Return the tools, for ``Agent(tools=...)``; they are ``read_only``."""
        return [
            Tool(
                function,
                read_only=True,
                untrusted=True,
                words=TOOLS[function.__name__],
                examples=_EXAMPLES[function.__name__],
                root=self._workspace.named,
            )
            for function in (self.list_dir, self.read_file)
        ]

    def list_dir(self, path: str = ".") -> str:
        """List the files and folders in a folder. Folders end with a slash; files show their size.

        Args:
            path: The folder, relative to the workspace. "." is the workspace itself.
        """
        listing = self._workspace.list(path, MAX_ENTRIES)
        if not listing.total:
            return model_text("empty_folder")
        lines = [_entry_line(entry) for entry in listing.entries]
        left_out = listing.total - len(lines)
        if left_out > 0:
            lines.append(model_text("more_entries", count=left_out))
        return clean_text("\n".join(lines))

    def read_file(self, path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
        """Read a text file. Long files come in pages; the end of a page says how to get the next one.

        Args:
            path: The file, relative to the workspace, for example "docs/guide.md".
            offset: The first line to read, counted from 1.
            limit: The greatest number of lines to read.
        """
        with self._workspace.open_for_reading(path) as file:
            data, status = file.read(MAX_HASHED_BYTES + 1), os.fstat(file.fileno())
            head, name = data[:_SNIFFED], "/".join(self._workspace.parts(path))
            seen, state = self._workspace.known.state(name), state_of(data, status)
            self._workspace.known.note(name, state, data)
            if is_binary(head):
                return _describe_binary(path, head, status.st_size)
            file.seek(0)
            # Read the same bytes again, so that the page shows the content whose state was noted.
            source = file if len(data) > MAX_HASHED_BYTES else io.BytesIO(data)
            encoding = "utf-16" if head.startswith(UTF16) else "utf-8-sig"
            page = _read_page(source, encoding, max(1, offset), max(1, limit))
        return _format_page(page, path, is_changed=seen not in (None, state))


def _entry_line(entry: FolderEntry) -> str:
    name = quoted_path(entry.name)
    if entry.kind == "folder":
        return f"{name}/"
    if entry.kind == "file":
        return model_text("entry_size", name=name, size=entry.size)
    return model_text("entry_link" if entry.kind == "link" else "entry_other", name=name)


def _describe_binary(path: str, head: bytes, size: int) -> str:
    kind = next((name for start, name in _SIGNATURES.items() if head.startswith(start)), "binary")
    return clean_text(model_text("no_text", path=path, kind=model_text(kind), size=size))


@dataclass
class _LinePage:
    """A page of lines from a file.

    Args:
        first: Number of the first requested line.
        lines: The lines, with their ends.
        all_counted: True if `total` covers the whole file.
        cut: True if the last line was truncated.
    """

    first: int
    lines: list[str] = field(default_factory=list)
    size: int = 0
    total: int = 0
    all_counted: bool = True
    cut: bool = False

    def add_line(self, line: str) -> bool:
        """Add a line if there is room. If the first line of a page is too long, it is truncated."""
        size = len(line.encode("utf-8", "replace"))
        if self.size + size > MAX_BYTES:
            if not self.lines:
                self.lines.append(line.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore"))
                self.cut = True
            return False
        self.lines.append(line)
        self.size += size
        return True


def _read_page(file: BinaryIO, encoding: str, offset: int, limit: int) -> _LinePage:
    page = _LinePage(offset)
    room = at_start = True
    with io.TextIOWrapper(file, encoding=encoding, errors="replace") as reader:
        # Read pieces of bounded size, not lines: a file may consist of one line of a gigabyte.
        for piece in iter(lambda: reader.readline(MAX_BYTES + 1), ""):
            page.total += at_start
            if at_start and room and page.total >= offset:
                room = len(page.lines) < limit and page.add_line(piece)
            at_start = piece.endswith("\n")
            if file.tell() > (MAX_SEARCHED_BYTES if room else MAX_COUNTED_BYTES):
                page.all_counted = False
                break
    return page


def _format_page(page: _LinePage, path: str, *, is_changed: bool) -> str:
    if not page.total:
        return model_text("empty_file")
    if not page.lines and not page.all_counted:
        raise WorkspaceError(model_text("line_too_far", path=path, line=page.first, total=page.total))
    if not page.lines:
        raise WorkspaceError(model_text("offset_past", path=path, total=page.total, line=page.first))
    last = page.first + len(page.lines) - 1
    text = clean_text("".join(page.lines))
    if page.first == 1 and last == page.total and not page.cut:
        return text
    which = "page_lines" if page.all_counted else "page_lines_more"
    notes = [model_text(which, first=page.first, last=last, total=page.total)]
    if page.cut:
        notes.append(model_text("line_cut", line=last))
    if is_changed:
        notes.append(model_text("changed_elsewhere"))
    if last < page.total:
        notes.append(model_text("read_on", offset=last + 1))
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{'; '.join(notes)}]"
