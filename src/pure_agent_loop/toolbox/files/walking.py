"""Walk a tree by descriptors: no link is followed, and no path is opened twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pure_agent_loop.toolbox.files.folder import FolderHandle

MAX_WALKED = 200_000
MAX_DEPTH = 64  # each level of folders keeps a descriptor open
Kind = Literal["file", "folder", "link", "other"]


def kind_of(entry: os.DirEntry[str]) -> Kind:
    """Return the kind of an entry, without following links."""
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, link or other entry of a tree, but not a folder.

    Args:
        parts: The names that lead to the entry from the start.
        folder: The folder that contains the entry; open until the next step of the walk.
    """

    parts: tuple[str, ...]
    kind: Kind
    folder: FolderHandle


class TreeWalk:
    """All entries of a tree except folders, sorted by name within each folder.

    Args:
        start: The folder to begin with; the walk does not close it.
        before: Names to put before all `parts`.
        enter: Returns True if the folder with these names is to be walked.
        most: Maximum number of entries.
    """

    def __init__(
        self,
        start: FolderHandle,
        enter: Callable[[tuple[str, ...]], bool],
        before: tuple[str, ...] = (),
        most: int = MAX_WALKED,
    ) -> None:
        self._start, self._before = start, before
        self._enter = enter
        self._left = most
        self.complete = True
        """False once entries were left out: too many, too deep, or in an unreadable folder."""

    def __iter__(self) -> Iterator[FileEntry]:
        return self._walk(self._start, self._before)

    def _walk(self, folder: FolderHandle, parts: tuple[str, ...]) -> Iterator[FileEntry]:
        for name, kind in self._entries(folder):
            here = (*parts, name)
            if kind != "folder":
                yield FileEntry(here, kind, folder)
            elif self._enter(here):
                yield from self._walk_subfolder(folder, here)

    def _entries(self, folder: FolderHandle) -> list[tuple[str, Kind]]:
        try:
            entries = [(entry.name, kind_of(entry)) for entry in islice(folder.scan(), self._left + 1)]
        except OSError:
            self.complete = False
            return []
        if len(entries) > self._left:
            self.complete = False
        del entries[self._left :]
        self._left -= len(entries)
        return sorted(entries)

    def _walk_subfolder(self, folder: FolderHandle, parts: tuple[str, ...]) -> Iterator[FileEntry]:
        if len(parts) >= MAX_DEPTH:
            self.complete = False
            return
        try:
            inner = folder.enter(parts[-1])
        except OSError:  # the folder was removed or replaced by a link, or access is not permitted
            self.complete = False
            return
        with inner:
            yield from self._walk(inner, parts)
