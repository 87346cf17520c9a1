"""Walk a tree by descriptors: no link is followed, and no path is opened twice."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal

from pure_agent_loop.support.disk import data_folder
from pure_agent_loop.toolbox.files import beneath

MAX_WALKED = 200_000
MAX_DEPTH = 64  # each level holds a descriptor
# A sandbox protects these names too, at the top of a workspace. The list is short because each missing name
# costs a mount there.
_AT_TOP = (
    *(".pal", "pal.toml", ".agents", ".mcp.json", "mcp.json", ".claude", ".codex", ".gemini", ".cursor"),
    *(".vscode", ".idea", ".zed", ".husky", ".envrc"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
)
# Commits must work, so only the parts of `.git` that run, or hold or name a configuration.
PROTECTED_IN_SANDBOX = (".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", *_AT_TOP)
_VERSION_CONTROL = (".git", ".gitmodules", ".gitconfig", ".hg", ".hgrc", ".svn", ".jj", ".githooks")
_SHELLS = (
    *(".bash_login", ".bash_logout", ".bash_aliases", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc"),
    *(".tcshrc", ".login", ".logout", ".xprofile", ".xinitrc", ".xsession", "config.fish", "profile.ps1"),
    "Microsoft.PowerShell_profile.ps1",
)
_EDITORS = (
    *(".fleet", ".devcontainer", ".devcontainer.json"),
    *(".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".emacs.d", ".dir-locals.el"),
    *(".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".Rprofile"),
)
_HOME = (".ssh", ".gnupg", ".config/fish", ".config/autostart", ".config/systemd", "Library/LaunchAgents")
PROTECTED: tuple[str, ...] = (*_AT_TOP, *_VERSION_CONTROL, *_SHELLS, *_EDITORS, *_HOME)
_GIT_SHORT = "git~1"  # the short name of .git on Windows
# Characters that macOS ignores in names.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


# -- an open folder: operations by name act on it even if its path changes meanwhile ---------------------


class FolderHandle:
    """An open folder, held by a descriptor, or by its path on Windows, which has no folder descriptors.

    No method follows a link: it raises OSError with ``ELOOP`` instead. Names are single names, never paths.

    Args:
        descriptor: An open folder; `close` closes it.
        path: A resolved path, instead of a descriptor.
    """

    def __init__(self, descriptor: int | None, path: Path | None = None) -> None:
        self._descriptor = descriptor
        self._path = path

    def __enter__(self) -> FolderHandle:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def enter(self, name: str) -> FolderHandle:
        """Open a subfolder."""
        if self._path is None:
            return FolderHandle(beneath.open_unlinked(name, beneath.FOLDER_FLAGS, 0, self._descriptor))
        path = self._path / name
        if beneath.require_below(self._path, path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        return FolderHandle(None, path)

    def open(self, name: str, flags: int, mode: int = 0) -> int:
        """Open a file as ``os.open`` does."""
        if self._path is None:
            return beneath.open_unlinked(name, flags | beneath.SAFE_FLAGS, mode, self._descriptor)
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return beneath.open_by_checking(self._path, (name,), flags, mode)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry; None if missing."""
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def make(self, name: str) -> None:
        """Make a subfolder if the name is free."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, atomically replacing a file that has the new name."""
        os.replace(self._at(old), self._at(new), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file or link."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def target(self, name: str) -> str:
        """Return the target of a link."""
        return os.readlink(self._at(name), dir_fd=self._descriptor)

    def link(self, target: str, name: str) -> None:
        """Create a symbolic link."""
        os.symlink(target, self._at(name), dir_fd=self._descriptor)

    def add_name(self, other: FolderHandle, source: str, name: str) -> None:
        """Add a hard link in this folder to a file of another folder."""
        os.link(
            other._at(source),
            self._at(name),
            src_dir_fd=other._descriptor,
            dst_dir_fd=self._descriptor,
            follow_symlinks=False,
        )

    def make_writable(self, name: str) -> None:
        """Make a file writable for its owner."""
        handle = self.open(name, os.O_RDONLY)
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | stat.S_IWUSR)
        finally:
            os.close(handle)

    def scan(self) -> Iterator[os.DirEntry[str]]:
        """Yield the entries in no particular order."""
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as entries:
            yield from entries

    def sync(self) -> None:
        """Flush renames to the disk, if the system can."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.fsync(self._descriptor)

    def _at(self, name: str) -> str:
        return name if self._path is None else str(self._path / name)


def root_folder(root: Path, opener: beneath.Opener) -> FolderHandle:
    """Open the root of the workspace."""
    if opener is beneath.open_by_checking:
        return FolderHandle(None, root)
    return FolderHandle(os.open(root, beneath.FOLDER_FLAGS))


@contextmanager
def unlinked_folder(
    root: Path, opener: beneath.Opener, parts: Sequence[str], *, make: bool = False
) -> Iterator[FolderHandle]:
    """Open a folder below the root without following any link, so that its path is its real path.

    Folders are opened one by one, because a missing folder can only be made in an open one.

    Raises:
        OSError: The folder is missing, or a part of the path is a link.
    """
    folder = root_folder(root, opener)
    try:
        for part in parts:
            if make and folder.status(part) is None:
                folder.make(part)
            child = folder.enter(part)
            folder.close()
            folder = child
        yield folder
    finally:
        folder.close()


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
    """An entry of a tree that is not a folder.

    Args:
        parts: The names that lead to the entry from the start.
        folder: Its folder; open until the next step of the walk.
    """

    parts: tuple[str, ...]
    kind: Kind
    folder: FolderHandle


class TreeWalk:
    """All entries of a tree except folders, sorted by name within each folder.

    Args:
        start: The first folder; it stays open.
        enter: Returns True if the folder with these names is to be walked.
        most: Maximum number of entries.
    """

    def __init__(
        self, start: FolderHandle, enter: Callable[[tuple[str, ...]], bool], most: int = MAX_WALKED
    ) -> None:
        self._start = start
        self._enter = enter
        self._left = most
        self.complete = True
        """False once entries were left out: too many, too deep, or in an unreadable folder."""

    def __iter__(self) -> Iterator[FileEntry]:
        return self._walk(self._start, ())

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
        except OSError:  # gone, replaced by a link, or not permitted
            self.complete = False
            return
        with inner:
            yield from self._walk(inner, parts)


# -- names that tools may read but never write, because programs run or obey the content without asking ---
# A model that writes ``.git/hooks/pre-commit`` or ``.bashrc`` gets a command run later, outside every
# check.
# A name is protected if a common program reads it in a folder and executes its content unasked. Not
# protected: files run only by an explicit command (``Makefile``, ``package.json``, ``conftest.py``) or on
# another machine (``.github``), and files that only list names (``.gitignore``, ``.gitattributes``).


"""Names protected at any depth, with everything in them. A name with slashes protects that sequence."""


def plain_name(name: str) -> str:
    """Return a name as the most lenient file systems read it: no case, trailing dots or streams."""
    name = unicodedata.normalize("NFKC", name.translate(_IGNORED)).casefold()
    name = name.split(":")[0].rstrip(". ") if name.strip(". ") else name
    return ".git" if name == _GIT_SHORT else name


class Protection:
    """A check for protected paths.

    Args:
        names: As in `PROTECTED`.
    """

    def __init__(self, names: Iterable[str] = PROTECTED) -> None:
        self.names = tuple(names)
        runs = (tuple(plain_name(part) for part in name.split("/") if part) for name in self.names)
        self._runs = {run: name for run, name in zip(runs, self.names, strict=True) if run}
        self._lengths = sorted({len(run) for run in self._runs})

    def found(self, parts: Sequence[str]) -> str | None:
        """Return the entry that protects a path, or None.

        Args:
            parts: The names that lead to the path from the root.
        """
        plain = tuple(plain_name(part) for part in parts)
        for length in self._lengths:
            for start in range(len(plain) - length + 1):
                name = self._runs.get(plain[start : start + length])
                if name is not None:
                    return name
        return None


def protected_below(root: Path) -> tuple[str, ...]:
    """Return `PROTECTED`, plus the data folder of this package if it is below `root`."""
    data = data_folder().resolve()
    own = (data.relative_to(root).as_posix(),) if data != root and data.is_relative_to(root) else ()
    return (*PROTECTED, *own)
