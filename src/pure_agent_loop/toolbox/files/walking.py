"""Walking a tree from descriptor to descriptor: no link is followed, and no path is opened twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pure_agent_loop.toolbox.files.folder import Folder

MAX_WALKED = 200_000
MAX_DEPTH = 64  # each level holds a descriptor

Kind = Literal["file", "folder", "link", "other"]


def kind_of(entry: os.DirEntry[str]) -> Kind:
    """What an entry of a folder is, links not followed."""
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


@dataclass(frozen=True, slots=True)
class Found:
    """Something in a tree, of a kind other than ``folder``.

    Args:
        parts: The names that lead to it from where the walk began.
        kind: What it is.
        folder: Where it lies; open until the walk goes on.
    """

    parts: tuple[str, ...]
    kind: Kind
    folder: Folder


class Walk:
    """Everything in a tree but folders, sorted by name within each folder.

    Args:
        start: Where it begins; stays open.
        enter: Whether to look into the folder with these names.
        most: Greatest number of entries to look at.
    """

    def __init__(
        self, start: Folder, enter: Callable[[tuple[str, ...]], bool], most: int = MAX_WALKED
    ) -> None:
        self._start = start
        self._enter = enter
        self._left = most
        self.complete = True
        """False once something was left out: too many entries, too deep, or a folder that cannot be read."""

    def __iter__(self) -> Iterator[Found]:
        return self._in(self._start, ())

    def _in(self, folder: Folder, parts: tuple[str, ...]) -> Iterator[Found]:
        for name, kind in self._entries(folder):
            here = (*parts, name)
            if kind != "folder":
                yield Found(here, kind, folder)
            elif self._enter(here):
                yield from self._deeper(folder, here)

    def _entries(self, folder: Folder) -> list[tuple[str, Kind]]:
        try:
            found = [(entry.name, kind_of(entry)) for entry in islice(folder.scan(), self._left + 1)]
        except OSError:
            self.complete = False
            return []
        if len(found) > self._left:
            self.complete = False
        del found[self._left :]
        self._left -= len(found)
        return sorted(found)

    def _deeper(self, folder: Folder, parts: tuple[str, ...]) -> Iterator[Found]:
        if len(parts) >= MAX_DEPTH:
            self.complete = False
            return
        try:
            inner = folder.enter(parts[-1])
        except OSError:  # gone, replaced by a link, or not for us
            self.complete = False
            return
        with inner:
            yield from self._in(inner, parts)
