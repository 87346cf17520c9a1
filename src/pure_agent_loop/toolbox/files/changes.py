"""Tools that change files: ``write_file`` and ``edit_file``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.encoded import EncodedText
from pure_agent_loop.toolbox.files.not_found import why_not_found
from pure_agent_loop.toolbox.files.words import say
from pure_agent_loop.toolbox.files.workspace import Workspace
from pure_agent_loop.toolbox.words import TOOLS

MAX_FILE_BYTES = 10_000_000
CONTEXT_LINES = 2
MAX_SHOWN_LINES = 40  # of what was removed, and of what was added
MAX_SHOWN_CHARS = 300  # of one line
MAX_PLACES = 20
MAX_REPLACED = 1_000_000  # places in one call


class ChangeTools:
    """The tools of one workspace that change files.

    Args:
        workspace: The folder they are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Tool]:
        """The tools, for ``Agent(tools=...)``."""
        root = self._workspace.named
        return [
            Tool(each, words=TOOLS[each.__name__], root=root) for each in (self.write_file, self.edit_file)
        ]

    def write_file(self, path: str, content: str) -> str:
        """Create a text file or replace a whole one. Makes missing folders. To change a part use edit_file.

        Args:
            path: The file, relative to the workspace, for example "docs/guide.md".
            content: All of its new text.
        """
        data = clean_text(content).encode()
        _require_size(len(data), path)
        before = self._workspace.write(path, data)
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        length = say("one_line") if lines == 1 else say("many_lines", count=lines)
        what = "created" if before is None else "replaced"
        text = say(what, path=shown(path), lines=length, size=len(data))
        if before is not None and before.st_nlink > 1:
            text += say("kept_names", count=before.st_nlink - 1)
        return clean_text(text)

    def edit_file(self, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace text in a file. The old text must stand there exactly, and once unless replace_all is set.

        Args:
            path: The file, relative to the workspace.
            old_text: What to replace, with its indentation, and with enough lines around it to be unique.
            new_text: What to put there.
            replace_all: Replace it everywhere.
        """
        with self._workspace.changing:
            file = self._read(path)
            places = _places(file.text, old_text, path, overlapping=not replace_all)
            if len(places) > 1 and not replace_all:
                raise WorkspaceError(_ambiguous(file.text, places, path))
            if len(places) > MAX_REPLACED:
                raise WorkspaceError(say("old_text_often", limit=MAX_REPLACED, path=shown(path)))
            change = _Change(file.text, places, _fitting(clean_text(new_text), file.text))
            _require_size(change.size, path)  # before it is made: it may be larger than the memory
            after = change.after()
            if after == file.text:
                raise WorkspaceError(say("no_change", path=shown(path)))
            data = file.bytes_of(after)
            _require_size(len(data), path)
            self._workspace.write(path, data, make_folders=False)
        return clean_text(say("edited", path=shown(path)) + change.shown())

    def _read(self, path: str) -> EncodedText:
        with self._workspace.open_for_reading(path) as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        _require_size(len(data), path)
        file = EncodedText.of(data)
        if file is None:
            raise WorkspaceError(say("not_editable", path=shown(path)))
        return file


def _require_size(size: int, path: str) -> None:
    if size > MAX_FILE_BYTES:
        raise WorkspaceError(say("too_large", path=shown(path), limit=MAX_FILE_BYTES))


def _places(text: str, old_text: str, path: str, *, overlapping: bool) -> list[tuple[int, int]]:
    """Where the old text stands, up to one place more than is used; line ends of all kinds are the same."""
    if not old_text:
        raise WorkspaceError(say("old_text_empty"))
    plain, old = text.replace("\r\n", "\n"), old_text.replace("\r\n", "\n")
    step, most = (1, MAX_PLACES) if overlapping else (len(old), MAX_REPLACED)
    starts = list(islice(_starts(plain, old, step), most + 1))
    if not starts:
        raise WorkspaceError(clean_text(why_not_found(text, old, path)))
    # Each "\r\n" that became "\n" moves what stands behind it by one.
    removed = [at - number for number, at in enumerate(_starts(text, "\r\n", 2))]
    return [
        (start + bisect_left(removed, start), start + len(old) + bisect_left(removed, start + len(old)))
        for start in starts
    ]


def _starts(text: str, wanted: str, step: int) -> Iterator[int]:
    """Where a text stands. ``str.find`` takes linear time, which no regular expression promises."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


def _fitting(new_text: str, text: str) -> str:
    """The new text with the line ends that most lines of the file have."""
    new_text = new_text.replace("\r\n", "\n")
    windows = text.count("\r\n")
    return new_text.replace("\n", "\r\n") if windows * 2 > text.count("\n") else new_text


def _ambiguous(text: str, places: list[tuple[int, int]], path: str) -> str:
    numbers = _line_numbers(text, [start for start, _ in places[:MAX_PLACES]])
    many = len(places) > MAX_PLACES
    count, more = (say("more_than", count=MAX_PLACES), ", ...") if many else (str(len(places)), "")
    return say("ambiguous", count=count, path=shown(path), numbers=numbers + more)


def _line_numbers(text: str, starts: list[int]) -> str:
    return ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)


@dataclass(frozen=True)
class _Change:
    """A text, the places in it to replace, and with what."""

    before: str
    places: list[tuple[int, int]]
    new: str

    @property
    def size(self) -> int:
        """How many characters there will be."""
        return len(self.before) + sum(len(self.new) - (end - start) for start, end in self.places)

    def after(self) -> str:
        """The text with the new one in its places."""
        pieces, at = [], 0
        for start, end in self.places:
            pieces += [self.before[at:start], self.new]
            at = end
        return "".join([*pieces, self.before[at:]])

    def shown(self) -> str:
        """How many places, and the first of them as in a unified diff."""
        start, end = self.places[0]
        text = self.before
        first = text.rfind("\n", 0, start) + 1
        last = _line_end(text, end)
        old = text[first:last].splitlines()
        new = (text[first:start] + self.new + text[end:last]).splitlines()
        above = text[:first].splitlines()
        below = text[last : last + 10_000].splitlines()
        head, tail = _same(old, new)
        above = [*above, *old[:head]][-CONTEXT_LINES:]
        below = [*old[len(old) - tail :], *below][:CONTEXT_LINES]
        line = text.count("\n", 0, first) + 1 + head - len(above)
        old, new = old[head : len(old) - tail], new[head : len(new) - tail]
        around = len(above) + len(below)
        title = f"@@ -{line},{len(old) + around} +{line},{len(new) + around} @@"
        body = [*_marked(" ", above), *_marked("-", old), *_marked("+", new), *_marked(" ", below)]
        return "\n".join([self._count(), title, *body])

    def _count(self) -> str:
        if len(self.places) == 1:
            return say("one_place")
        starts = [start for start, _ in self.places[:MAX_PLACES]]
        more = ", ..." if len(self.places) > MAX_PLACES else ""
        numbers = _line_numbers(self.before, starts) + more
        return say("many_places", count=len(self.places), numbers=numbers)


def _same(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines are the same at the start and at the end."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    return head, tail


def _line_end(text: str, at: int) -> int:
    """Behind the line that `at` stands in; `at` itself at the start of one."""
    if at and text[at - 1] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _marked(mark: str, lines: list[str]) -> list[str]:
    shown_lines = [f"{mark}{line[:MAX_SHOWN_CHARS]}" for line in lines[:MAX_SHOWN_LINES]]
    if len(lines) > MAX_SHOWN_LINES:
        shown_lines.append(mark + say("more_lines", count=len(lines) - MAX_SHOWN_LINES))
    return shown_lines
