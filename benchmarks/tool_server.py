"""Serve tools over stdio for a client that is killed at chosen calls; started as a program, never imported.

    python -I -S tool_server.py FOLDER KILLS PATHS MODULE [ARGUMENTS]

It runs ``MODULE.main()``, an MCP server that reads and writes lines and keeps its state in FOLDER. A client
that was killed leaves a server that may still make a call; the next server waits until that one has ended, so
that calls never overlap. Only the standard library and the folders in PATHS can be imported.

KILLS is ``PLACE:MOMENT`` with commas between: the number of the call, over all servers of the folder, and

before  the call has arrived; it is not made
after   the call has been made; its result is not sent
later   the result has been sent; some milliseconds pass
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

MOST_SECONDS = 0.1


class Killer:
    """Counts calls, and kills the client at some of them.

    Args:
        counter: File with a byte for each call that has arrived.
        kills: Moment of each kill, by the number of the call.
    """

    def __init__(self, counter: Path, kills: dict[int, str]) -> None:
        self._counter, self._kills, self._client = counter, kills, os.getppid()
        self._moment = ""

    def lines(self, source: TextIO) -> Iterator[str]:
        """Yield lines from the client, until it is killed."""
        for line in source:
            self._moment = self._next_moment() if '"tools/call"' in line and is_call(line) else ""
            if self._moment == "before":
                self.kill()
                return
            yield line

    def _next_moment(self) -> str:
        with self._counter.open("ab") as file:
            file.write(b".")
            file.flush()
            return self._kills.get(file.tell(), "")

    def write(self, text: str) -> int:
        """Send a result to the client, unless it is killed first."""
        if self._moment == "after":
            self.kill()
            return len(text)
        sys.__stdout__.write(text)  # type: ignore[union-attr]  # a server has one
        if self._moment == "later":
            self.flush()
            time.sleep(random.uniform(0, MOST_SECONDS))
            self.kill()
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        sys.__stdout__.flush()  # type: ignore[union-attr]

    def kill(self) -> None:
        """Kill the client with SIGKILL, if it still runs."""
        self._moment = ""
        if os.getppid() == self._client:
            os.kill(self._client, signal.SIGKILL)


def is_call(line: str) -> bool:
    """Return whether a line from the client is a call of a tool."""
    return bool(json.loads(line).get("method") == "tools/call")


def main() -> None:
    """Serve until standard input ends."""
    folder, kills, paths, module = sys.argv[1:5]
    sys.argv = [module, *sys.argv[5:]]
    sys.path[:0] = paths.split(os.pathsep)
    places = [place.split(":") for place in kills.split(",") if place]
    with Path(folder, "server.lock").open("w") as lock:
        killer = Killer(Path(folder, "calls"), {int(number): moment for number, moment in places})
        fcntl.flock(lock, fcntl.LOCK_EX)
        sys.stdin = killer.lines(sys.stdin)  # servers only iterate and write
        sys.stdout = killer
        importlib.import_module(module).main()


if __name__ == "__main__":
    main()
