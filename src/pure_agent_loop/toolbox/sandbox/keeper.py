"""Keep names missing while a command runs; a mount needs an existing file.

A standalone program (``python -I -S keeper.py NAME...``), so that it continues if the main process is killed.
The program moves aside what a command creates under such a name, within milliseconds and once more after the
command. For each move it prints the name and a zero byte. It imports nothing from the package.
"""
# ruff: noqa: PTH104, PTH108, PTH112, PTH114 - pathlib is slow to import

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from contextlib import suppress

ASIDE = ".changed-during-a-command"
_SECONDS = 0.005  # seconds between two checks
_LAST_SECONDS = 3.0  # seconds: enough for all children of a killed process to end


def rename_aside(path: str, suffix: str = ASIDE) -> None:
    """Rename an entry. An entry moved aside earlier is deleted.

    Raises:
        OSError: The rename failed.
    """
    aside = path + suffix
    if os.path.isdir(aside) and not os.path.islink(aside):
        shutil.rmtree(aside, ignore_errors=True)
    elif os.path.lexists(aside):
        os.unlink(aside)
    os.rename(path, aside)


def move_all_aside(names: list[str]) -> list[str]:
    """Move existing entries aside; return their names."""
    there = [name for name in names if os.path.lexists(name)]
    for name in there:
        with suppress(OSError):
            rename_aside(name)
    return there


def main() -> None:
    """Check until the main process is gone, and a little longer."""
    names, until = sys.argv[1:], float("inf")
    while time.monotonic() < until:
        if until < float("inf"):
            time.sleep(_SECONDS)
        elif select.select([0], [], [], _SECONDS)[0]:
            until = time.monotonic() + _LAST_SECONDS
        made = move_all_aside(names)
        if made:
            with suppress(OSError):  # the reader has closed the pipe
                os.write(1, b"".join(os.fsencode(name) + b"\0" for name in made))


if __name__ == "__main__":
    main()
