"""The folder that file tools may use, and nothing outside it."""

from __future__ import annotations

import errno
import heapq
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.complaints import WorkspaceError, in_words, instead, outside, shown
from pure_agent_loop.toolbox.files import beneath
from pure_agent_loop.toolbox.files.folder import Folder, unlinked_folder
from pure_agent_loop.toolbox.files.protected import Protection, protected_below
from pure_agent_loop.toolbox.files.walking import Kind, kind_of
from pure_agent_loop.toolbox.files.words import say
from pure_agent_loop.toolbox.files.writing import replace_file, require_replaceable

MAX_PATH_CHARS = 4_096

HardLinks = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder.

    Args:
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
    """Reads and writes files below one folder, however the path is written and whatever changes meanwhile.

    ``..``, absolute paths, links and races cannot lead outside: see :mod:`.beneath`. Reading follows links
    that stay inside, where the system can; writing follows none, so a path is what it says.

    Args:
        root: An existing folder. It is resolved once; the way to it is trusted.
        opener: How to open files below it; the safest way of this machine if None.
        protected: Names that cannot be written, at any depth and with all that is in them; one with slashes
            protects where these names follow. `PROTECTED` and our own data folder if None.
        hard_links: What to do when asked to read a file with several names, as the others may lie outside:
            ``refuse`` or ``allow``.

    Raises:
        ConfigError: The root is no folder, or an argument has no meaning.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        opener: beneath.Opener | None = None,
        *,
        protected: Iterable[str] | None = None,
        hard_links: HardLinks = "refuse",
    ) -> None:
        given = Path(root).expanduser()
        if not given.is_dir():
            raise ConfigError(f"The workspace {str(root)!r} is not an existing folder. Create it first.")
        if hard_links not in ("refuse", "allow"):
            raise ConfigError(f"hard_links={hard_links!r} is unknown. Use 'refuse' or 'allow'.")
        if isinstance(protected, str):
            raise ConfigError(f"protected={protected!r} must be a list of names, such as ['.git'].")
        self.root = given.resolve()
        self._open = opener or beneath.best_opener()
        self._protection = Protection(protected_below(self.root) if protected is None else protected)
        self._hard_links = hard_links
        # Where the way to the root holds links, the model may know it by either name.
        self._names = (self.root, Path(os.path.abspath(given)))  # noqa: PTH100 - keeps the links
        self.changing = threading.RLock()
        """Held while a file is read and written again, so that two calls at once do not lose one change."""

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    @property
    def named(self) -> str:
        """The absolute path of the root by the name it was given, which may go through links."""
        return str(self._names[1])

    @property
    def protected(self) -> tuple[str, ...]:
        """The names that cannot be written; see the argument. A sandbox should make them read-only too."""
        return self._protection.names

    def parts(self, path: str) -> tuple[str, ...]:
        """The names that lead from the root to `path`, which need not exist.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: It lies outside, or can be no path.
        """
        if "\0" in path or len(path) > MAX_PATH_CHARS or not _encodable(path):
            raise WorkspaceError(say("no_path", path=shown(path)))
        relative = self._relative(path)
        names: list[str] = []
        for name in relative.parts:
            if name != "..":
                names.append(name)
            elif names:
                names.pop()
            else:
                raise outside(path)
        return tuple(names)

    def _relative(self, path: str) -> Path:
        relative = Path(path)
        if not relative.anchor:  # on Windows also "C:x" and "\\x" have one
            return relative
        relative = Path(os.path.normpath(relative))
        inside = next((name for name in self._names if relative.is_relative_to(name)), None)
        if inside is None:
            raise outside(path)
        return relative.relative_to(inside)

    # -- Reading -----------------------------------------------------------------------------------

    def open_for_reading(self, path: str) -> BinaryIO:
        """Open a regular file.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: There is no such file, or it must not or cannot be read.
        """
        with self._telling(path):
            descriptor = self._open(self.root, self.parts(path), os.O_RDONLY, 0)
        return self.readable(descriptor, path)

    def readable(self, descriptor: int, path: str) -> BinaryIO:
        """Check that what was opened may be read, and close it if not.

        Args:
            descriptor: An open file from inside.
            path: As the model knows it.

        Raises:
            WorkspaceError: It is no regular file, or has several names.
        """
        try:
            self._require_readable(os.fstat(descriptor), path)
        except WorkspaceError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")

    def _require_readable(self, status: os.stat_result, path: str) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise WorkspaceError(say("use_list_dir", path=shown(path)))
        if not stat.S_ISREG(status.st_mode):
            raise WorkspaceError(say("a_pipe", path=shown(path)))
        if status.st_nlink > 1 and self._hard_links == "refuse":
            raise WorkspaceError(say("hard_links", path=shown(path), count=status.st_nlink))

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
        with self._folder(parts) as folder:
            return _scan(folder, limit)

    def folder(self, path: str = ".") -> Folder:
        """Open a folder, to walk through it.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: There is no such folder, or it must not or cannot be read.
        """
        with self._telling(path):
            return self._folder(self.parts(path))

    def _folder(self, parts: tuple[str, ...]) -> Folder:
        if self._open is beneath.open_by_checking:  # Windows has no descriptors for folders
            path = beneath.require_below(self.root, self.root.joinpath(*parts))
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            return Folder(None, path)
        return Folder(self._open(self.root, parts, beneath.FOLDER_FLAGS, 0))

    # -- Writing -----------------------------------------------------------------------------------

    def write(self, path: str, data: bytes, *, make_folders: bool = True) -> os.stat_result | None:
        """Write a file whole or not at all: one that is there is replaced in one moment.

        Its permissions and, if possible, its owner are kept. Its other names (hard links) keep the old
        content. No link is followed, neither on the way nor at the end.

        Args:
            path: Relative to the root, or absolute and inside it.
            data: What is in it.
            make_folders: Make the folders on the way that are missing.

        Returns:
            What was known of the file that was replaced; None if there was none.

        Raises:
            WorkspaceError: It is protected, goes through a link, or cannot be written.
        """
        parts = self.parts(path)
        self._require_unprotected(parts, path)
        if not parts:
            raise WorkspaceError(say("itself", path=shown(path)))
        with (
            self._telling(path),
            self.changing,
            unlinked_folder(self.root, self._open, parts[:-1], make=make_folders) as folder,
        ):
            before = folder.status(parts[-1])
            require_replaceable(before, path)
            replace_file(folder, parts[-1], data, before)
            return before

    def _require_unprotected(self, parts: tuple[str, ...], path: str) -> None:
        name = self._protection.found(parts)
        if name is not None:
            raise WorkspaceError(say("protected", path=shown(path), name=name))

    # -- Errors ------------------------------------------------------------------------------------

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        """Turn the errors of the operating system into words for the model."""
        try:
            yield
        except OSError as error:
            raise WorkspaceError(self._words(path, error)) from error

    def _words(self, path: str, error: OSError) -> str:
        missing = error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and not self._opens(path))
        if missing:
            return say("missing", path=shown(path), instead=self._nearest(path))
        return in_words(path, error)

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
            kinds: dict[str, str] = {each.name: each.kind for each in found}
            return instead("/".join(parts[:depth]), parts[depth], kinds)
        return say("see_list")


def _scan(folder: Folder, limit: int) -> Listing:
    total = 0

    def counted() -> Iterator[os.DirEntry[str]]:
        nonlocal total
        for entry in folder.scan():
            total += 1
            yield entry

    # A folder of a million files must not become a million objects, nor a million stat calls.
    first = heapq.nsmallest(limit, counted(), key=lambda entry: entry.name)
    return Listing([_entry(each, folder) for each in first], total)


def _entry(found: os.DirEntry[str], folder: Folder) -> Entry:
    kind = kind_of(found)
    if kind != "file":
        return Entry(found.name, kind)
    status = folder.status(found.name)
    return Entry(found.name, "other") if status is None else Entry(found.name, kind, status.st_size)


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True
