"""Writing to a shared Markdown file: one writer at a time, and the whole new file or the old one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pure_agent_loop.support.locking import OPEN_FLAGS, lock_within

MEMORY_FILE = "MEMORY.md"
PATIENCE_SECONDS = 10.0
FIRST_LINE = b"# Memory\n"


def _open_lock(path: Path) -> int:
    if sys.platform == "win32":
        return os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | OPEN_FLAGS)
    # The folder itself is locked: the file is replaced at each writing, and a lock file would stay.
    return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = _open_lock(path)
    try:
        if not lock_within(handle, PATIENCE_SECONDS):
            raise TimeoutError(f"another program has been writing to {path.name} for too long")
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
