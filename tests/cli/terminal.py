"""The command on a terminal of its own, as a person has it: what is typed, and what is then shown."""

from __future__ import annotations

import os
import pty
import select
from typing import Any

from tests.forked import own_terminal

PATIENCE = 120
QUESTION = "Allow? [y]es, [n]o, [a]lways this tool: "
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """Runs the command; its streams are the terminal unless `streams` says otherwise."""

    def __init__(self, pal: Any, *words: str, **streams) -> None:
        self._ours, theirs = pty.openpty()
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams}
        self.process = pal.start(*words, start_new_session=True, preexec_fn=own_terminal, **streams)
        os.close(theirs)
        self.shown = ""
        self._seen = 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._ours)

    def until(self, wanted: str) -> None:
        """Wait for a text behind the one waited for before."""
        while wanted not in self.shown[self._seen :]:
            assert self._read(), f"{wanted!r} did not come: {self.shown}"
        self._seen = self.shown.index(wanted, self._seen) + len(wanted)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        assert select.select([self._ours], [], [], PATIENCE)[0], f"nothing more came: {self.shown}"
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += piece.decode().replace("\r\n", "\n")
        return bool(piece)
