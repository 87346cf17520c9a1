"""The files of a folder through the editor: what is open there and not saved is read, and written, by it.

Our own guards come first and are not loosened: a path that may not be read or written here never reaches
the editor. What the editor does with it afterwards goes by the name alone, so no other call may run at that
time (`Tool.exclusive`).
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from pure_agent_loop.acp.calls import as_diff
from pure_agent_loop.acp.host import Editor, Planned
from pure_agent_loop.acp.wire import RpcError
from pure_agent_loop.acp.words import say
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.folder import Folder, unlinked_folder
from pure_agent_loop.toolbox.files.workspace import Workspace
from pure_agent_loop.toolbox.files.writing import require_replaceable

MOST_BYTES = 10_000_000  # of a file that the editor is asked about
THROUGH_EDITOR = ("read_file", "write_file", "edit_file")  # the tools that must run alone then


class EditorFiles(Workspace):
    """A workspace whose texts are those of the editor, where it lends them.

    Args:
        root: The folder.
        editor: The other side; a change is shown with its call there.
    """

    def __init__(self, root: Path, editor: Editor) -> None:
        super().__init__(root)
        self._editor = editor

    def open_for_reading(self, path: str) -> BinaryIO:
        """See `Workspace`. A text comes from the editor, if it has it."""
        file = super().open_for_reading(path)
        if not self._editor.reads or os.fstat(file.fileno()).st_size > MOST_BYTES:
            return file
        on_disk = _text(file.read())
        file.seek(0)
        if on_disk is None:
            return file
        try:
            text = self._editor.read(self._absolute(path))
        except RpcError:  # it does not know the file, so nothing of it is unsaved
            return file
        with file, super().open_for_reading(path) as again:
            if not os.path.samestat(os.fstat(file.fileno()), os.fstat(again.fileno())):
                raise WorkspaceError(say("editor_changed", path=shown(path)))
        copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
        copy.write(text.encode("utf-8", "replace"))
        copy.seek(0)
        return copy

    def write(self, path: str, data: bytes, *, make_folders: bool = True) -> os.stat_result | None:
        """See `Workspace`. A text is written by the editor, if it does that."""
        before, after = self._before(path), _text(data)
        if after is not None and self._editor.writes:
            found = self._by_editor(path, data, after, make_folders=make_folders)
        else:
            found = super().write(path, data, make_folders=make_folders)
        call = current_call()
        if call is not None and after is not None:
            self._editor.attach(call.call_id, as_diff(Planned(path, before, after), self.root))
        return found

    def _before(self, path: str) -> str | None:
        try:
            with self.open_for_reading(path) as file:
                return _text(file.read(MOST_BYTES))
        except (WorkspaceError, OSError):  # there is none, or writing it will say what is wrong
            return None

    def _by_editor(self, path: str, data: bytes, text: str, *, make_folders: bool) -> os.stat_result | None:
        parts = self.parts(path)
        self._require_unprotected(parts, path)
        if not parts:
            return super().write(path, data)  # which says what is wrong
        with (
            self._telling(path),
            self.changing,
            unlinked_folder(self.root, self._open, parts[:-1], make=make_folders) as folder,
        ):
            status = folder.status(parts[-1])
            require_replaceable(status, path)
            if status is not None and (status.st_nlink > 1 or not self._is_text(path)):
                return super().write(
                    path, data
                )  # the editor would write its other names, or in another encoding
            try:
                self._editor.write(self._absolute(path), text)
            except RpcError as error:
                why = safe_str(error)
                raise WorkspaceError(say("editor_failed", path=shown(path), why=why)) from error
            self._require_same(folder, parts, path)
            return status

    def _is_text(self, path: str) -> bool:
        with super().open_for_reading(path) as file:
            return _text(file.read(MOST_BYTES)) is not None

    def _require_same(self, folder: Folder, parts: tuple[str, ...], path: str) -> None:
        """The name still leads to where it led, through no link."""
        with unlinked_folder(self.root, self._open, parts[:-1]) as again:
            here, there = folder.status("."), again.status(".")
            found = again.status(parts[-1])
            is_same = here is not None and there is not None and os.path.samestat(here, there)
            if not is_same or found is None or not stat.S_ISREG(found.st_mode):
                raise WorkspaceError(say("editor_changed", path=shown(path)))

    def _absolute(self, path: str) -> str:
        return str(self.root.joinpath(*self.parts(path)))


def _text(data: bytes) -> str | None:
    """What is plain UTF-8; None for anything else, which editors read in their own way."""
    if b"\0" in data or data.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
