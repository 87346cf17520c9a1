"""The tools ``write_file`` and ``edit_file``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pure_agent_loop.prompts import current_prompts
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.schema.calling import call_user
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import clean_text, excerpt_around
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.differences import common_ends
from pure_agent_loop.toolbox.files.encoding import EncodedText
from pure_agent_loop.toolbox.files.known import ABSENT, KnownFiles, size_of, written_state
from pure_agent_loop.toolbox.files.nearest import why_not_found
from pure_agent_loop.toolbox.files.protected import obeyed_name
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_FILE_BYTES = 10_000_000
CONTEXT_LINES = 2
MAX_SHOWN_LINES = 40  # maximum number of removed lines shown, and of added lines
MAX_SHOWN_CHARS = 300  # maximum characters shown of a line
MAX_PLACES = 20
_TEXTS = ("content", "old_text", "new_text")
MAX_REPLACED = 1_000_000  # maximum places replaced in one call


class ChangeTools:
    """The tools that change files in one workspace.

    Args:
        workspace: The folder the tools are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Tool]:
        """Return the tools, for ``Agent(tools=...)``; their calls run in the order of the response."""
        root = self._workspace.named
        return [
            _ChangeTool(function, self, words=TOOLS[function.__name__], root=root, exclusive=True)
            for function in (self.write_file, self.edit_file)
        ]

    def write_file(self, path: str, content: str) -> str:
        """Create a text file or replace a whole one. Makes missing folders. To change a part use edit_file.

        Args:
            path: The file, relative to the workspace, for example "docs/guide.md".
            content: All of its new text.
        """
        data = _encoded(content, path)
        with self._workspace.changing:
            state = self._require_known(path, [content], data)
            before = self._workspace.write(path, data)
            self._note(path, state, data, knows=True)
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        length = model_text("one_line") if lines == 1 else model_text("many_lines", count=lines)
        key = "created" if before is None else "replaced"
        text = model_text(key, path=shown(path), lines=length, size=len(data))
        if before is not None and before.st_nlink > 1:
            text += model_text("kept_names", count=before.st_nlink - 1)
        return clean_text(text)

    def edit_file(self, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace text in a file. The old text must occur exactly, and once unless replace_all is set.

        Args:
            path: The file, relative to the workspace.
            old_text: What to replace, with its indentation, and with enough lines around it to be unique.
            new_text: What to put there.
            replace_all: Replace it everywhere.
        """
        with self._workspace.changing:
            state = self._require_known(path, [old_text, new_text], None)
            change, data = _edited(self._read(path), path, old_text, new_text, replace_all=replace_all)
            knows = self._workspace.known.state(self._name(path)) is not None
            self._workspace.write(path, data, make_folders=False)
            self._note(path, state, data, knows=knows)
        return clean_text(model_text("edited", path=shown(path)) + change.shown())

    def reason_to_ask(self, args: Mapping[str, Any]) -> str:
        """Return why a call needs a person's approval in every mode but ``bypass``, or "".

        Args:
            args: The arguments of the call.
        """
        path = str(args.get("path"))
        try:
            self._workspace.require_unprotected(path)
            name = obeyed_name(self._workspace.parts(path))
        except WorkspaceError:  # the call itself will raise this error again
            return ""
        return "" if name is None else model_text("obeyed_name", name=name)

    def objection(self, args: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> str:
        """Return why a call would fail, or "".

        If the call would succeed, the file's state is recorded, because a person will be asked about it.

        Args:
            args: Valid arguments of the call.
            earlier: Arguments of the earlier calls in the same response.
        """
        contents: dict[str, bytes] = {}  # contents of files after the earlier calls
        for other in earlier:
            with suppress(WorkspaceError):  # the earlier call will fail
                contents[self._name(other["path"])] = self._planned(other, contents)
        path = args["path"]
        try:
            planned = self._planned(args, contents)
            data = planned if "content" in args else None
            state, objection = self._find_objection(path, data, is_asked=True)
        except WorkspaceError as error:
            return str(error)
        if not objection:
            texts = [text for text in map(args.get, _TEXTS) if text is not None]
            self._workspace.known.note_question(self._name(path), texts, state)
        return clean_text(objection)

    def _planned(self, args: Mapping[str, Any], contents: Mapping[str, bytes]) -> bytes:
        """Return the content that a call would write.

        Raises:
            WorkspaceError: The call would fail.
        """
        path = args["path"]
        self._workspace.require_writable(path)
        if "content" in args:
            return _encoded(args["content"], path)
        before = contents.get(self._name(path))
        return _edited(self._read(path) if before is None else before, **args)[1]

    def _name(self, path: str) -> str:
        return "/".join(self._workspace.parts(path))

    def _require_known(self, path: str, texts: list[str], data: bytes | None) -> str:
        """Check that the file is still as the model saw it, and as any person who was asked saw it.

        Args:
            texts: Strings that, with the path, identify the call.
            data: The whole new content; None if only a part of the file is changed.

        Returns:
            The state of the file; see `KnownFiles`.
        """
        asked = self._workspace.known.take_question(self._name(path), texts)
        state, objection = self._find_objection(path, data, asked)
        if objection:
            raise WorkspaceError(clean_text(objection))
        return state

    def _find_objection(
        self, path: str, data: bytes | None, asked: str | None = None, *, is_asked: bool = False
    ) -> tuple[str, str]:
        self._workspace.require_unprotected(path)
        known, name = self._workspace.known, self._name(path)
        state, content = self._workspace.read_state(path)
        seen = known.state(name)
        objection = ""
        if asked is not None and asked != state:
            objection = model_text(
                "changed_since_asked", path=shown(path), what=_what_changed(known, asked, content)
            )
        elif state == ABSENT or content == data:
            return state, ""
        elif seen is not None and seen != state:
            objection = model_text(
                "changed_since_read", path=shown(path), what=_what_changed(known, seen, content)
            )
        elif is_asked or asked is not None:  # no objection: the person sees the content to be replaced
            return state, ""
        elif seen is None and data is not None and content and known.has_reader:
            objection = model_text("not_read", path=shown(path), size=len(content))
        if objection and not known.has_reader:
            # Without a read tool, this error is how the model reads the file, so the file counts as read.
            known.note(name, state, content)
        return state, objection

    def _note(self, path: str, before: str, data: bytes, *, knows: bool) -> None:
        known, name, state = self._workspace.known, self._name(path), written_state(data)
        known.note_change(name, before, state)
        if knows:  # otherwise the file has parts that the model has not seen
            known.note(name, state, data)

    def _read(self, path: str) -> bytes:
        with self._workspace.open_for_reading(path) as opened:
            return opened.read(MAX_FILE_BYTES + 1)


class _ChangeTool(Tool):
    """A tool of `ChangeTools` that records the file's state when a person is asked about a call."""

    def __init__(self, function: Callable[..., str], changes: ChangeTools, **options: Any) -> None:
        super().__init__(function, destructive=changes.reason_to_ask, **options)
        self._changes = changes

    async def objection(
        self, args: dict[str, Any], earlier: Sequence[tuple[Tool, dict[str, Any]]] = ()
    ) -> tuple[str, str] | None:
        """Return why a call would fail, such as that the model has not seen the file; see `Tool`."""
        own = [(tool, given) for tool, given in earlier if getattr(tool, "_changes", None) is self._changes]
        found = (tool._checked(given, current_prompts()) for tool, given in own)
        valid = [each for each in found if isinstance(each, dict)]  # invalid calls change nothing
        text = await call_user(self._changes.objection, self.schema.validate(args), valid)
        # Other tools may also change the file, so the call may succeed after all.
        return (WorkspaceError.__name__, text) if text and len(own) == len(earlier) else None


def _what_changed(known: KnownFiles, state: str, content: bytes) -> str:
    """Describe how a file has changed, as a diff if its old content was kept."""
    if state == ABSENT:
        return model_text("is_new")
    kept = known.text(state)
    old, new = (None if data is None else EncodedText.of(data) for data in (kept, content))
    if old is not None and new is not None:
        before, after = old.text.splitlines(), new.text.splitlines()
        head, tail = common_ends(before, after)
        before, after = before[head : len(before) - tail], after[head : len(after) - tail]
        if before or after:
            title = f"@@ -{head + 1},{len(before)} +{head + 1},{len(after)} @@"
            return "\n".join([model_text("what_changed"), title, *_hunk(before, after)])
    return model_text("size_changed", old=size_of(state), new=len(content))


def _encoded(content: str, path: str) -> bytes:
    data = clean_text(content).encode()
    _require_size(len(data), path)
    return data


def _edited(
    before: bytes, path: str, old_text: str, new_text: str, replace_all: bool = False
) -> tuple[_Change, bytes]:
    """Return the change that an edit makes, and the content after it.

    Raises:
        WorkspaceError: The edit would fail.
    """
    _require_size(len(before), path)
    file = EncodedText.of(before)
    if file is None:
        raise WorkspaceError(model_text("not_editable", path=shown(path)))
    places = _places(file.text, old_text, path, overlapping=not replace_all)
    if len(places) > 1 and not replace_all:
        raise WorkspaceError(_ambiguous(file.text, places, path))
    if len(places) > MAX_REPLACED:
        raise WorkspaceError(model_text("old_text_often", limit=MAX_REPLACED, path=shown(path)))
    change = _Change(file.text, places, _with_line_ends_of(clean_text(new_text), file.text))
    _require_size(change.size, path)  # check before the text is built, which may not fit in memory
    after = change.after()
    if after == file.text:
        raise WorkspaceError(model_text("no_change", path=shown(path)))
    data = file.bytes_of(after)
    _require_size(len(data), path)
    return change, data


def _require_size(size: int, path: str) -> None:
    if size > MAX_FILE_BYTES:
        raise WorkspaceError(model_text("too_large", path=shown(path), limit=MAX_FILE_BYTES))


def _places(text: str, old_text: str, path: str, *, overlapping: bool) -> list[tuple[int, int]]:
    """Find the old text, treating all line ends as equal. Return at most one place over the limit."""
    if not old_text:
        raise WorkspaceError(model_text("old_text_empty"))
    plain, old = text.replace("\r\n", "\n"), old_text.replace("\r\n", "\n")
    step, limit = (1, MAX_PLACES) if overlapping else (len(old), MAX_REPLACED)
    starts = list(islice(_starts(plain, old, step), limit + 1))
    if not starts:
        raise WorkspaceError(clean_text(why_not_found(text, old, path)))
    # Each "\r\n" that became "\n" shifts the text after it by one.
    removed = [at - number for number, at in enumerate(_starts(text, "\r\n", 2))]
    return [
        (start + bisect_left(removed, start), start + len(old) + bisect_left(removed, start + len(old)))
        for start in starts
    ]


def _starts(text: str, wanted: str, step: int) -> Iterator[int]:
    """Yield where a string occurs. Unlike a regular expression, ``str.find`` always takes linear time."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


def _with_line_ends_of(new_text: str, text: str) -> str:
    """Return the new text with the prevailing line ends of the file."""
    new_text = new_text.replace("\r\n", "\n")
    windows = text.count("\r\n")
    return new_text.replace("\n", "\r\n") if windows * 2 > text.count("\n") else new_text


def _ambiguous(text: str, places: list[tuple[int, int]], path: str) -> str:
    numbers = _line_numbers(text, [start for start, _ in places[:MAX_PLACES]])
    many = len(places) > MAX_PLACES
    count, ellipsis = (model_text("more_than", count=MAX_PLACES), ", ...") if many else (str(len(places)), "")
    return model_text("ambiguous", count=count, path=shown(path), numbers=numbers + ellipsis)


def _line_numbers(text: str, starts: list[int]) -> str:
    return ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)


@dataclass(frozen=True)
class _Change:
    """A string, the places to replace in it, and the replacement."""

    before: str
    places: list[tuple[int, int]]
    new: str

    @property
    def size(self) -> int:
        """Length of the changed text in characters."""
        return len(self.before) + sum(len(self.new) - (end - start) for start, end in self.places)

    def after(self) -> str:
        """Return the changed text."""
        pieces, at = [], 0
        for start, end in self.places:
            pieces += [self.before[at:start], self.new]
            at = end
        return "".join([*pieces, self.before[at:]])

    def shown(self) -> str:
        """Return the number of places, and a unified diff of the first one."""
        start, end = self.places[0]
        text = self.before
        first = text.rfind("\n", 0, start) + 1
        last = _line_end(text, end)
        old = text[first:last].splitlines()
        new = (text[first:start] + self.new + text[end:last]).splitlines()
        above = text[:first].splitlines()
        below = text[last : last + 10_000].splitlines()
        head, tail = common_ends(old, new)
        above = [*above, *old[:head]][-CONTEXT_LINES:]
        below = [*old[len(old) - tail :], *below][:CONTEXT_LINES]
        line = text.count("\n", 0, first) + 1 + head - len(above)
        old, new = old[head : len(old) - tail], new[head : len(new) - tail]
        around = len(above) + len(below)
        title = f"@@ -{line},{len(old) + around} +{line},{len(new) + around} @@"
        body = [*_diff_lines(" ", above), *_hunk(old, new), *_diff_lines(" ", below)]
        return "\n".join([self._count_text(), title, *body])

    def _count_text(self) -> str:
        if len(self.places) == 1:
            return model_text("one_place")
        starts = [start for start, _ in self.places[:MAX_PLACES]]
        ellipsis = ", ..." if len(self.places) > MAX_PLACES else ""
        numbers = _line_numbers(self.before, starts) + ellipsis
        return model_text("many_places", count=len(self.places), numbers=numbers)


def _line_end(text: str, at: int) -> int:
    """Return where the next line starts; `at` itself if it is just after a line break."""
    if at and text[at - 1] == "\n":
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _hunk(old: list[str], new: list[str]) -> list[str]:
    """Return removed and added lines; long lines are cut to the part where they begin to differ."""
    at = common_ends(old[0], new[0])[0] if old and new else 0
    return [*_diff_lines("-", old, at), *_diff_lines("+", new, at)]


def _diff_lines(mark: str, lines: list[str], at: int = 0) -> list[str]:
    shown_lines = [f"{mark}{excerpt_around(line, at, MAX_SHOWN_CHARS)}" for line in lines[:MAX_SHOWN_LINES]]
    if len(lines) > MAX_SHOWN_LINES:
        shown_lines.append(mark + model_text("more_lines", count=len(lines) - MAX_SHOWN_LINES))
    return shown_lines
