"""An open folder: what is done by name in it happens in it, wherever its path leads meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from pure_agent_loop.toolbox.files import beneath


class Folder:
    """A folder held by a descriptor; on Windows, which has none for folders, by its path.

    No method follows a link: it raises OSError with ``ELOOP`` instead. Names are single names, never paths.

    Args:
        descriptor: An open folder; it is closed with this object.
        path: Instead of a descriptor: a resolved path.
    """

    def __init__(self, descriptor: int | None, path: Path | None = None) -> None:
        self._descriptor = descriptor
        self._path = path

    def __enter__(self) -> Folder:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def enter(self, name: str) -> Folder:
        """Open a folder in it."""
        if self._path is None:
            return Folder(beneath.open_unlinked(name, beneath.FOLDER_FLAGS, 0, self._descriptor))
        path = self._path / name
        if beneath.require_below(self._path, path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        return Folder(None, path)

    def open(self, name: str, flags: int, mode: int = 0) -> int:
        """Open a file in it, as ``os.open`` does."""
        if self._path is None:
            return beneath.open_unlinked(name, flags | beneath.SAFE_FLAGS, mode, self._descriptor)
        found = self.status(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return beneath.open_by_checking(self._path, (name,), flags, mode)

    def status(self, name: str) -> os.stat_result | None:
        """What lies there under a name; None if nothing."""
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def make(self, name: str) -> None:
        """Make a folder in it unless there is something of that name."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Give a file in it another name; a file that has that name is gone in the same moment."""
        os.replace(self._at(old), self._at(new), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file in it."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def scan(self) -> Iterator[os.DirEntry[str]]:
        """What is in it, in no order."""
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as entries:
            yield from entries

    def sync(self) -> None:
        """Bring renames to the disk, where the system can."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.fsync(self._descriptor)

    def _at(self, name: str) -> str:
        return name if self._path is None else str(self._path / name)


def root_folder(root: Path, opener: beneath.Opener) -> Folder:
    """The workspace itself."""
    if opener is beneath.open_by_checking:
        return Folder(None, root)
    return Folder(os.open(root, beneath.FOLDER_FLAGS))


@contextmanager
def unlinked_folder(
    root: Path, opener: beneath.Opener, parts: tuple[str, ...], *, make: bool = False
) -> Iterator[Folder]:
    """Open a folder below the root with no link on the way, so that its path is what it says.

    Step by step, as a missing folder can only be made in one that is open.

    Args:
        parts: The names that lead to it.
        make: Make what is missing.

    Raises:
        OSError: There is none, or a link is on the way.
    """
    at = root_folder(root, opener)
    try:
        for part in parts:
            if make and at.status(part) is None:
                at.make(part)
            deeper = at.enter(part)
            at.close()
            at = deeper
        yield at
    finally:
        at.close()
