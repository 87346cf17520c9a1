"""Keep names missing while a command runs, because a mount can protect only existing files.

This is a standalone program (``python -I -S keeper.py NAME...``), so that it continues if the main process is
killed. The program moves aside what a command creates under a missing name, within milliseconds and once more
after the command. For each move it prints the name and a zero byte. It imports nothing from the package.
"""
# ruff: noqa: PTH101 - pathlib is slow to import

from __future__ import annotations

import os
import select
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

ASIDE = ".changed-during-a-command"
_MAX_NAME = 180  # bytes of a name that are kept, so that the new name is not too long
_TRIES = 5  # attempts to delete a folder, in which a command may still be writing
_SECONDS = 0.005  # seconds between two checks
_LAST_SECONDS = 3.0  # seconds: enough for all children of a killed process to end


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Open a folder without following a link on the way, and give its owner all rights.

    Raises:
        OSError: A part of the path is not a folder, or is a link.
    """
    handle = os.open("/", os.O_PATH)
    try:
        for part in filter(None, folder.split("/")):
            outer = handle
            handle = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
            os.close(outer)
        mode = os.fstat(handle).st_mode
        if mode & 0o700 != 0o700:
            with suppress(OSError):  # another user's
                os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | 0o700)
        yield handle
    finally:
        os.close(handle)


def rename_aside(path: str, suffix: str = ASIDE, into: str = "") -> str:
    """Rename an entry, replacing an earlier one that was moved aside; return the new path.

    Args:
        into: The folder that receives the entry; empty for the entry's own folder.

    Raises:
        OSError: The rename failed.
    """
    folder, name = os.path.split(path)
    into = into or folder
    with opened(folder) as source, opened(into) as target:
        base = os.fsdecode(os.fsencode(name)[:_MAX_NAME])
        aside = base + suffix
        for _ in range(_TRIES):
            shutil.rmtree(f"{into}/{aside}", ignore_errors=True)
        with suppress(OSError):
            os.unlink(aside, dir_fd=target)
        if os.path.lexists(f"{into}/{aside}"):  # the older entry cannot be deleted
            aside = f"{base}.{os.urandom(4).hex()}{suffix}"
        os.rename(name, aside, src_dir_fd=source, dst_dir_fd=target)
    return f"{into}/{aside}"


def move_all_aside(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """Move existing entries aside; return the names of those moved, and the error for each of the others."""
    made: list[str] = []
    errors: dict[str, str] = {}
    for name in names:
        if os.path.lexists(name):
            try:
                rename_aside(name)
                made.append(name)
            except OSError as error:
                if os.path.lexists(name):
                    errors[name] = error.strerror or str(error)
    return made, errors


def main() -> None:
    """Check until the main process is gone, and a little longer."""
    names, until = sys.argv[1:], float("inf")
    while time.monotonic() < until:
        if until < float("inf"):
            time.sleep(_SECONDS)
        elif select.select([0], [], [], _SECONDS)[0]:
            until = time.monotonic() + _LAST_SECONDS
        made, _ = move_all_aside(names)
        if made:
            with suppress(OSError):  # the reader has closed the pipe
                os.write(1, b"".join(os.fsencode(name) + b"\0" for name in made))


if __name__ == "__main__":
    main()
