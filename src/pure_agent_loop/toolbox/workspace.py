"""The folder that file tools may use, and nothing outside it."""

from __future__ import annotations

import difflib
import errno
import heapq
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.toolbox import beneath

MAX_PATH_CHARS = 4_096
SHOWN_PATH_CHARS = 200
SUGGESTIONS = 5

Kind = Literal["file", "folder", "link", "other"]
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class WorkspaceError(PureAgentLoopError):
    """A path cannot be used. The message is for the model: it names the path as given and the way out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder.

    Args:
        name: Its name.
        kind: ``file``, ``folder``, ``link`` (not followed) or ``other`` (a pipe, a device, ...).
        size: Bytes, for a file.
    """

    name: str
    kind: Kind
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The first entries of a folder by name, and how many there are in all."""

    entries: list[Entry]
    total: int


class Workspace:
    """Opens files below one folder, however the path is written and whatever changes meanwhile.

    ``..``, absolute paths, links and races cannot lead outside: see :mod:`.beneath`. A hard link to an
    outside file is a file like any other here; whoever made it could read that file already.

    Args:
        root: An existing folder. It is resolved once; the way to it is trusted.
        opener: How to open files below it; the safest way of this machine if None.

    Raises:
        ConfigError: It is no folder.
    """

    def __init__(self, root: str | os.PathLike[str] = ".", opener: beneath.Opener | None = None) -> None:
        given = Path(root).expanduser()
        if not given.is_dir():
            raise ConfigError(f"The workspace {str(root)!r} is not an existing folder. Create it first.")
        self.root = given.resolve()
        self._open = opener or beneath.best_opener()
        # Where the way to the root holds links, the model may know it by either name.
        self._names = (self.root, Path(os.path.abspath(given)))  # noqa: PTH100 - keeps the links

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    def parts(self, path: str) -> tuple[str, ...]:
        """The names that lead from the root to `path`, which need not exist.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: It lies outside, or can be no path.
        """
        if "\0" in path or len(path) > MAX_PATH_CHARS or not _encodable(path):
            raise WorkspaceError(f"{_shown(path)} is not a valid path. Use a plain relative path.")
        relative = self._relative(path)
        names: list[str] = []
        for name in relative.parts:
            if name != "..":
                names.append(name)
            elif names:
                names.pop()
            else:
                raise _outside(path)
        return tuple(names)

    def _relative(self, path: str) -> Path:
        relative = Path(path)
        if not relative.anchor:  # on Windows also "C:x" and "\\x" have one
            return relative
        relative = Path(os.path.normpath(relative))
        inside = next((name for name in self._names if relative.is_relative_to(name)), None)
        if inside is None:
            raise _outside(path)
        return relative.relative_to(inside)

    def open_for_reading(self, path: str) -> BinaryIO:
        """Open a regular file.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: There is no such file, or it must not or cannot be read.
        """
        with self._telling(path):
            descriptor = self._open(self.root, self.parts(path), os.O_RDONLY, 0)
        try:
            _require_regular(descriptor, path)
        except WorkspaceError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")

    def list(self, path: str = ".", limit: int = 500) -> Listing:
        """List a folder, sorted by name.

        Args:
            path: Relative to the root, or absolute and inside it.
            limit: Greatest number of entries to return.

        Raises:
            WorkspaceError: There is no such folder, or it must not or cannot be read.
        """
        with self._telling(path):
            return self._listing(self.parts(path), limit)

    def _listing(self, parts: tuple[str, ...], limit: int) -> Listing:
        if self._open is beneath.open_by_checking:  # Windows has no descriptors for folders
            return _scan(str(beneath.require_below(self.root, self.root.joinpath(*parts))), limit)
        descriptor = self._open(self.root, parts, os.O_RDONLY | os.O_DIRECTORY, 0)
        try:
            return _scan(descriptor, limit)
        finally:
            os.close(descriptor)

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        """Turn the errors of the operating system into words for the model."""
        try:
            yield
        except OSError as error:
            raise WorkspaceError(self._words(path, error)) from error

    def _words(self, path: str, error: OSError) -> str:
        shown = _shown(path)
        missing = error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and not self._opens(path))
        if missing:
            return f"There is no {shown}. {self._nearest(path)}"
        return {
            errno.ENOTDIR: f"{shown} is a file, not a folder. Use read_file.",
            errno.EXDEV: f"{shown} leads outside the workspace. Only what is inside can be used.",
            errno.ELOOP: f"{shown} goes through a symbolic link that is not followed. Use the real path.",
            errno.EACCES: f"{shown} cannot be opened: permission denied. Use another one.",
            errno.ENAMETOOLONG: f"{shown} is too long for a path.",
            errno.ENXIO: f"{shown} is not a regular file (a socket or pipe). Only files can be read.",
        }.get(error.errno or 0, f"{shown} cannot be opened: {error.strerror or error}.")

    def _opens(self, path: str) -> bool:
        try:
            os.close(self._open(self.root, self.parts(path), os.O_RDONLY, 0))
        except OSError:
            return False
        return True

    def _nearest(self, path: str) -> str:
        """What there is instead, in the deepest folder on the way that exists."""
        parts = self.parts(path)
        for depth in range(len(parts) - 1, -1, -1):
            try:
                found = self._listing(parts[:depth], 10_000).entries
            except OSError:
                continue
            return _suggestion("/".join(parts[:depth]), parts[depth], {each.name: each for each in found})
        return "Use list_dir to see what there is."


def _suggestion(folder: str, wanted: str, entries: dict[str, Entry]) -> str:
    place = _shown(folder) if folder else "The workspace"
    before = f"{folder}/" if folder else ""
    if not entries:
        return f"{place} is empty."
    if wanted in entries:
        link = entries[wanted].kind == "link"
        what = "a symbolic link to something that does not exist" if link else "not a folder"
        return f"{_shown(before + wanted)} is {what}."
    lower = {name.lower(): name for name in entries}
    close = difflib.get_close_matches(wanted.lower(), lower, n=SUGGESTIONS, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(repr(before + lower[name]) for name in close)}?"
    # Hidden names come first in the order and are hardly ever meant.
    names = sorted(entries, key=lambda name: (name.startswith("."), name))
    more = ", ..." if len(names) > SUGGESTIONS else ""
    return f"{place} has: {', '.join(names[:SUGGESTIONS])}{more}. Use list_dir to see everything."


def _scan(folder: int | str, limit: int) -> Listing:
    total = 0

    def counted(entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        nonlocal total
        for entry in entries:
            total += 1
            yield entry

    # A folder of a million files must not become a million objects, nor a million stat calls.
    with os.scandir(folder) as entries:
        first = heapq.nsmallest(limit, counted(entries), key=lambda entry: entry.name)
        return Listing([_entry(each) for each in first], total)


def _entry(found: os.DirEntry[str]) -> Entry:
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:  # deleted since
        return Entry(found.name, "other")
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return Entry(found.name, kind, status.st_size if kind == "file" else None)


def _require_regular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise WorkspaceError(f"{_shown(path)} is a folder. Use list_dir to see what is in it.")
    if not stat.S_ISREG(mode):
        raise WorkspaceError(
            f"{_shown(path)} is not a regular file (a pipe or device). Only files can be read."
        )


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _outside(path: str) -> WorkspaceError:
    return WorkspaceError(
        f"{_shown(path)} is outside the workspace. Use a path relative to it, for example 'docs/guide.md'; "
        "'.' is the workspace itself."
    )


def _shown(path: str) -> str:
    return repr(path if len(path) <= SHOWN_PATH_CHARS else path[:SHOWN_PATH_CHARS] + "...")
