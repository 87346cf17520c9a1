"""Temporary folders of the tests: short, without blanks, and reachable by another user.

A path of a socket has at most 108 bytes, and a test's own folder needs about 80 of them. Sandboxes and
PostgreSQL run as another user. So the tests use `/tmp` where ``TMPDIR`` names a longer place.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SHORT = ("/tmp", "/var/tmp", "/dev/shm")
SOCKET_PATH = 107  # bytes, without the zero at the end


def use_short_places() -> None:
    """Let this process and its children put temporary folders into a short place, if there is one."""
    if len(os.fsencode(tempfile.gettempdir())) <= len(SHORT[0]):
        return
    for place in SHORT:
        if Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK):
            os.environ["TMPDIR"] = tempfile.tempdir = place
            return


def fits_socket(path: Path) -> bool:
    """Whether a socket can have this path."""
    return len(os.fsencode(path)) <= SOCKET_PATH
