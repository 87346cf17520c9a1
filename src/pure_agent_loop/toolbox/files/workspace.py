"""The folder that file tools are confined to."""

from __future__ import annotations

import errno
import heapq
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.quoted_paths import unquoted_path
from pure_agent_loop.toolbox.complaints import (
    WorkspaceError,
    describe_os_error,
    outside_error,
    shown,
    suggest_entries,
)
from pure_agent_loop.toolbox.files import beneath
from pure_agent_loop.toolbox.files.folder import FolderHandle, unlinked_folder
from pure_agent_loop.toolbox.files.known import ABSENT, MAX_HASHED_BYTES, KnownFiles, state_of
from pure_agent_loop.toolbox.files.protected import Protection, protected_below
from pure_agent_loop.toolbox.files.replacing import replace_file, require_replaceable
from pure_agent_loop.toolbox.files.walking import Kind, kind_of

MAX_PATH_CHARS = 4_096

HardLinks = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder.

    Args:
        kind: ``file``, ``folder``, ``link`` (not followed) or ``other`` (a pipe, a device, ...).
        size: Bytes, for a file.
    """

    name: str
    kind: Kind
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The first entries of a folder by name, and the number of all entries."""

    entries: list[FolderEntry]
    total: int


class Workspace:
    """Reads and writes files below one folder.

    ``..``, absolute paths, links and races cannot lead outside: see :mod:`.beneath`. Reading follows links
    that stay inside, if the system supports it. Writes follow no links, so the path given is the path
    written.

    Args:
        root: An existing folder. The path of the folder is resolved once and trusted.
        opener: The function that opens files below the root; None for the safest function on this machine.
        protected: Names that cannot be written, at any depth and with everything in them; a name with slashes
            protects that sequence of names. None for `PROTECTED` and the data folder of this package.
        hard_links: Whether to ``refuse`` or ``allow`` reads of files with several hard links. Another link
            may be outside the workspace.

    Raises:
        ConfigError: The root is not a folder, or an argument is invalid.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        opener: beneath.Opener | None = None,
        *,
        protected: Iterable[str] | None = None,
        hard_links: HardLinks = "refuse",
    ) -> None:
        path = Path(root).expanduser()
        if not path.is_dir():
            raise ConfigError(f"The workspace {str(root)!r} is not an existing folder. Create it first.")
        if hard_links not in ("refuse", "allow"):
            raise ConfigError(f"hard_links={hard_links!r} is invalid. Use 'refuse' or 'allow'.")
        if isinstance(protected, str):
            raise ConfigError(f"protected={protected!r} must be a list of names, such as ['.git'].")
        self.root = path.resolve()
        self._open = opener or beneath.best_opener()
        self._protection = Protection(protected_below(self.root) if protected is None else protected)
        self._hard_links = hard_links
        # If the given path has links, the model may use that path or the resolved one.
        self._names = (self.root, Path(os.path.abspath(path)))  # noqa: PTH100 - keeps the links
        self.known = KnownFiles(self.root)
        """The file states that the model has seen."""
        self.changing = threading.RLock()
        """Held during read-modify-write, so that concurrent calls do not lose a change."""

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    @property
    def named(self) -> str:
        """The absolute path of the root as given, with its links."""
        return str(self._names[1])

    @property
    def protected(self) -> tuple[str, ...]:
        """The names that cannot be written; a sandbox should make them read-only too."""
        return self._protection.names

    def parts(self, path: str) -> tuple[str, ...]:
        """Return the names that lead from the root to `path`, which may be missing.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: The path lies outside or is not valid.
        """
        path = unquoted_path(path)
        if "\0" in path or len(path) > MAX_PATH_CHARS or not _encodable(path):
            raise WorkspaceError(model_text("no_path", path=shown(path)))
        relative = self._relative(path)
        names: list[str] = []
        for name in relative.parts:
            if name != "..":
                names.append(name)
            elif names:
                names.pop()
            else:
                raise outside_error(path)
        return tuple(names)

    def _relative(self, path: str) -> Path:
        relative = Path(path)
        if not relative.anchor:  # on Windows, "C:x" and "\\x" have an anchor too
            return relative
        relative = Path(os.path.normpath(relative))
        inside = next((name for name in self._names if relative.is_relative_to(name)), None)
        if inside is None:
            raise outside_error(path)
        return relative.relative_to(inside)

    # -- Reading -----------------------------------------------------------------------------------

    def open_for_reading(self, path: str) -> BinaryIO:
        """Open a regular file.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: The file is missing, or must not be read, or cannot be read.
        """
        with self._translate_errors(path):
            descriptor = self._open(self.root, self.parts(path), os.O_RDONLY, 0)
        return self.readable(descriptor, path)

    def read_state(self, path: str) -> tuple[str, bytes]:
        """Return a file's state, in the form that `known` stores, and its content up to a limit.

        An unreadable file counts as absent here; writing the file will raise the error.
        """
        try:
            with self.open_for_reading(path) as file:
                data = file.read(MAX_HASHED_BYTES + 1)
                return state_of(data, os.fstat(file.fileno())), data
        except (WorkspaceError, OSError):
            return ABSENT, b""

    def readable(self, descriptor: int, path: str) -> BinaryIO:
        """Return the opened file if it may be read; otherwise close it.

        Args:
            descriptor: An open file below the root.
            path: The path that the model uses.

        Raises:
            WorkspaceError: The file is not a regular one, or has several names.
        """
        try:
            self._require_readable(os.fstat(descriptor), path)
        except WorkspaceError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")

    def _require_readable(self, status: os.stat_result, path: str) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise WorkspaceError(model_text("use_list_dir", path=shown(path)))
        if not stat.S_ISREG(status.st_mode):
            raise WorkspaceError(model_text("a_pipe", path=shown(path)))
        if status.st_nlink > 1 and self._hard_links == "refuse":
            raise WorkspaceError(model_text("hard_links", path=shown(path), count=status.st_nlink))

    def list(self, path: str = ".", limit: int = 500) -> Listing:
        """List a folder, sorted by name.

        Args:
            path: Relative to the root, or absolute and inside it.
            limit: Maximum number of entries to return.

        Raises:
            WorkspaceError: The folder is missing, or must not be read, or cannot be read.
        """
        with self._translate_errors(path):
            return self._listing(self.parts(path), limit)

    def _listing(self, parts: tuple[str, ...], limit: int) -> Listing:
        with self._folder(parts) as folder:
            return _scan(folder, limit)

    def folder(self, path: str = ".") -> FolderHandle:
        """Open a folder to walk it.

        Args:
            path: Relative to the root, or absolute and inside it.

        Raises:
            WorkspaceError: The folder is missing, or must not be read, or cannot be read.
        """
        with self._translate_errors(path):
            return self._folder(self.parts(path))

    def _folder(self, parts: tuple[str, ...]) -> FolderHandle:
        if self._open is beneath.open_by_checking:  # Windows has no descriptors for folders
            path = beneath.require_below(self.root, self.root.joinpath(*parts))
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            return FolderHandle(None, path)
        return FolderHandle(self._open(self.root, parts, beneath.FOLDER_FLAGS, 0))

    # -- Writing -----------------------------------------------------------------------------------

    def write(self, path: str, data: bytes, *, make_folders: bool = True) -> os.stat_result | None:
        """Write a file whole or not at all; an existing file is replaced atomically.

        The permissions and, if possible, the owner of the file are kept. Other names of the file (hard links)
        keep the old content. No link in the path is followed.

        Args:
            path: Relative to the root, or absolute and inside it.
            data: The content.
            make_folders: Make missing folders.

        Returns:
            The status of the replaced file; None if there was none.

        Raises:
            WorkspaceError: The path is protected, goes through a link, or cannot be written.
        """
        parts = self._writable_parts(path)
        with (
            self._translate_errors(path),
            self.changing,
            unlinked_folder(self.root, self._open, parts[:-1], make=make_folders) as folder,
        ):
            before = folder.status(parts[-1])
            require_replaceable(before, path)
            replace_file(folder, parts[-1], data, before)
            return before

    def require_writable(self, path: str) -> None:
        """Check that `write` can write a file; missing folders do not matter.

        Raises:
            WorkspaceError: The path is protected, goes through a link, or cannot be written.
        """
        parts = self._writable_parts(path)
        with self._translate_errors(path):
            for depth in reversed(range(len(parts))):
                with (
                    suppress(FileNotFoundError),
                    unlinked_folder(self.root, self._open, parts[:depth]) as folder,
                ):
                    folder.require_writable()
                    if depth == len(parts) - 1:
                        require_replaceable(folder.status(parts[depth]), path)
                    return

    def _writable_parts(self, path: str) -> tuple[str, ...]:
        self.require_unprotected(path)
        parts = self.parts(path)
        if not parts:
            raise WorkspaceError(model_text("itself", path=shown(path)))
        return parts

    def require_unprotected(self, path: str) -> None:
        """Check that a path may be written.

        Raises:
            WorkspaceError: The path lies outside or is protected.
        """
        name = self._protection.found(self.parts(path))
        if name is not None:
            raise WorkspaceError(model_text("protected", path=shown(path), name=name))

    # -- Errors ------------------------------------------------------------------------------------

    @contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        """Translate errors from the operating system for the model."""
        try:
            yield
        except OSError as error:
            raise WorkspaceError(self._error_text(path, error)) from error

    def _error_text(self, path: str, error: OSError) -> str:
        missing = error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and not self._opens(path))
        if missing and not self.root.is_dir():
            return model_text("root_gone", root=shown(str(self.root)))
        if missing:
            return model_text("missing", path=shown(path), instead=self._suggestion(path))
        return describe_os_error(path, error)

    def _opens(self, path: str) -> bool:
        try:
            os.close(self._open(self.root, self.parts(path), os.O_RDONLY, 0))
        except OSError:
            return False
        return True

    def _suggestion(self, path: str) -> str:
        """Suggest entries of the deepest existing folder in a path."""
        parts = self.parts(path)
        for depth in range(len(parts) - 1, -1, -1):
            try:
                entries = self._listing(parts[:depth], 10_000).entries
            except OSError:
                continue
            kinds: dict[str, str] = {entry.name: entry.kind for entry in entries}
            return suggest_entries("/".join(parts[:depth]), parts[depth], kinds)
        return model_text("see_list")


def _scan(folder: FolderHandle, limit: int) -> Listing:
    total = 0

    def counted() -> Iterator[os.DirEntry[str]]:
        nonlocal total
        for entry in folder.scan():
            total += 1
            yield entry

    # A folder of a million files must not become a million objects, or a million stat calls.
    first = heapq.nsmallest(limit, counted(), key=lambda entry: entry.name)
    return Listing([_entry(entry, folder) for entry in first], total)


def _entry(entry: os.DirEntry[str], folder: FolderHandle) -> FolderEntry:
    kind = kind_of(entry)
    if kind != "file":
        return FolderEntry(entry.name, kind)
    status = folder.status(entry.name)
    return (
        FolderEntry(entry.name, "other") if status is None else FolderEntry(entry.name, kind, status.st_size)
    )


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True
