"""Writing to a shared Markdown file: one writer at a time, and the whole new file or the old one."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_FILE = "MEMORY.md"
PATIENCE_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.01
FIRST_LINE = b"# Memory\n"

if sys.platform == "win32":
    import msvcrt

    def _open_lock(path: Path) -> int:
        return os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_BINARY)

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _open_lock(path: Path) -> int:
        """The folder itself is locked: the file is replaced at each writing, and a lock file would stay."""
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle, begun = _open_lock(path), time.monotonic()
    try:
        while not _try_lock(handle):  # the system's own waiting could not be given up
            if time.monotonic() - begun > PATIENCE_SECONDS:
                raise TimeoutError(f"another program has been writing to {path.name} for too long")
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield
    finally:
        os.close(handle)


def change_file(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Put what `change` makes of a file in its place, while nobody else does.

    Args:
        path: The file; it may be missing, and counts as a heading then.
        change: From the old bytes to the new ones; None leaves the file as it is.

    Raises:
        OSError: It cannot be written, it is a link, or another program does not let go of it.
    """
    with _locked(path):
        if path.is_symlink():  # it may lead out of the workspace
            raise OSError(f"{path.name} is a symbolic link")
        new = change(path.read_bytes() if path.exists() else FIRST_LINE)
        if new is not None:
            _replace(path, new)


def append_section(path: Path, section: str) -> None:
    """Add a section to a Markdown file.

    Args:
        path: The file; made if missing.
        section: Its text, heading included.

    Raises:
        OSError: See `change_file`.
    """
    change_file(path, lambda old: with_section(old, section))


def with_section(old: bytes, section: str) -> bytes:
    """The file with one section more at its end."""
    return old.rstrip() + b"\n\n" + section.encode("utf-8", "replace")


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
