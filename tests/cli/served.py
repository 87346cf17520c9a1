"""`pal serve` as a process, beside other commands of the same person."""

from __future__ import annotations

import contextlib
import re
import signal

PATIENCE = 60


@contextlib.contextmanager
def serving(pal, *words):
    """`pal serve`, until it is ready; at the end, all that it logged is in the list."""
    process, lines = pal.start("serve", "--port", "0", "--access-log", *words), []
    try:
        while "full access" not in "".join(lines):
            lines.append(process.stderr.readline().decode())
            assert lines[-1], lines
        yield lines
    finally:
        process.send_signal(signal.SIGTERM)
        lines.append(process.communicate(timeout=PATIENCE)[1].decode())


def address(lines):
    return re.search(r"(http://127\.0\.0\.1:\d+)/#token", "".join(lines))[1]
