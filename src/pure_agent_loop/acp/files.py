"""Workspace files through the editor, including unsaved changes.

The workspace's own checks come first: a forbidden path never reaches the editor. The editor then opens the
file by name, so no other call may run at the same time (`Tool.exclusive`).
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
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox import Workspace, WorkspaceError
from pure_agent_loop.toolbox.complaints import shown
from pure_agent_loop.toolbox.files.folder import FolderHandle, unlinked_folder
from pure_agent_loop.toolbox.files.replacing import require_replaceable

MAX_BYTES = 10_000_000  # maximum size of a file to request from the editor
THROUGH_EDITOR = ("read_file", "write_file", "edit_file")  # these tools run exclusively if there is an editor


class EditorFiles(Workspace):
    """A workspace that reads and writes text files through the editor, if the editor supports it.

    Args:
        root: The folder.
        editor: The editor, which also shows each change as a diff in its call.
    """

    def __init__(self, root: Path, editor: Editor) -> None:
        super().__init__(root)
        self._editor = editor

    def open_for_reading(self, path: str) -> BinaryIO:
        """See `Workspace`. The text is read from the editor if possible."""
        file = super().open_for_reading(path)
        if not self._editor.reads or os.fstat(file.fileno()).st_size > MAX_BYTES:
            return file
        on_disk = _text(file.read())
        file.seek(0)
        if on_disk is None:
            return file
        try:
            text = self._editor.read(self._absolute(path))
        except RpcError:  # not open in the editor, so there are no unsaved changes
            return file
        with file, super().open_for_reading(path) as reopened:
            if not os.path.samestat(os.fstat(file.fileno()), os.fstat(reopened.fileno())):
                raise WorkspaceError(model_text("editor_changed", path=shown(path)))
        copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
        copy.write(text.encode("utf-8", "replace"))
        copy.seek(0)
        return copy

    def write(self, path: str, data: bytes, *, make_folders: bool = True) -> os.stat_result | None:
        """See `Workspace`. The editor writes the text if possible."""
        before, after = self._read_text(path), _text(data)
        if after is not None and self._editor.writes:
            status = self._write_by_editor(path, data, after, make_folders=make_folders)
        else:
            status = super().write(path, data, make_folders=make_folders)
        call = current_call()
        if call is not None and after is not None:
            self._editor.attach(call.call_id, as_diff(Planned(path, before, after), self.root))
        return status

    def _read_text(self, path: str) -> str | None:
        try:
            with self.open_for_reading(path) as file:
                return _text(file.read(MAX_BYTES))
        except (WorkspaceError, OSError):  # the file is missing; `write` will report any other error
            return None

    def _write_by_editor(
        self, path: str, data: bytes, text: str, *, make_folders: bool
    ) -> os.stat_result | None:
        self.require_unprotected(path)
        parts = self.parts(path)
        if not parts:
            return super().write(path, data)  # raises the error for an empty path
        with (
            self._translate_errors(path),
            self.changing,
            unlinked_folder(self.root, self._open, parts[:-1], make=make_folders) as folder,
        ):
            status = folder.status(parts[-1])
            require_replaceable(status, path)
            if status is not None and (status.st_nlink > 1 or not self._is_text(path)):
                # An editor would also write to the file's other hard links, or change its encoding.
                return super().write(path, data)
            try:
                self._editor.write(self._absolute(path), text)
            except RpcError as error:
                why = safe_str(error)
                raise WorkspaceError(model_text("editor_failed", path=shown(path), why=why)) from error
            self._require_same(folder, parts, path)
            return status

    def _is_text(self, path: str) -> bool:
        with super().open_for_reading(path) as file:
            return _text(file.read(MAX_BYTES)) is not None

    def _require_same(self, folder: FolderHandle, parts: tuple[str, ...], path: str) -> None:
        """Check that the path still resolves to the same folder and contains no symbolic links."""
        with unlinked_folder(self.root, self._open, parts[:-1]) as reopened:
            before, after = folder.status("."), reopened.status(".")
            status = reopened.status(parts[-1])
            is_same = before is not None and after is not None and os.path.samestat(before, after)
            if not is_same or status is None or not stat.S_ISREG(status.st_mode):
                raise WorkspaceError(model_text("editor_changed", path=shown(path)))

    def _absolute(self, path: str) -> str:
        return str(self.root.joinpath(*self.parts(path)))


def _text(data: bytes) -> str | None:
    """Decode plain UTF-8; None for other data, which editors may decode differently."""
    if b"\0" in data or data.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
