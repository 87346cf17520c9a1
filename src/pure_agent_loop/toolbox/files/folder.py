"""An open folder: operations by name act on this folder even if its path changes meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from pure_agent_loop.toolbox.files import beneath


class FolderHandle:
    """An open folder, held by a descriptor, or by its path on Windows, which has no folder descriptors.

    No method follows a link; for a link, methods raise OSError with ``ELOOP``. Names are single names, never
    paths.

    Args:
        descriptor: Descriptor of the open folder; `close` closes the descriptor.
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

    def require_writable(self) -> None:
        """Fail if the system reports that entries may not be added.

        Raises:
            PermissionError: The system forbids adding entries.
        """
        if not os.access(self._at("."), os.W_OK, dir_fd=self._descriptor):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

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
        """Add a hard link in this folder to a file in another folder."""
        os.link(
            other._at(source),
            self._at(name),
            src_dir_fd=other._descriptor,
            dst_dir_fd=self._descriptor,
            follow_symlinks=False,
        )

    def make_writable(self, name: str) -> None:
        """Make a file writable by its owner."""
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

    Folders are opened one by one, because a missing folder can only be made inside an open folder.

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
