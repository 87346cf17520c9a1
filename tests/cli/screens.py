"""A terminal as a person sees it, drawn by pyte. Each wait is for a state of the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable
from typing import Any

import pyte
from tests.cli.terminal import PATIENCE
from tests.forked import own_terminal

UP, DOWN = "\x1b[A", "\x1b[B"
ENTER, ALT_ENTER, ESC, CTRL_B, CTRL_C, CTRL_D, CTRL_J, CTRL_O, CTRL_R, TAB = (
    *("\r", "\x1b\r", "\x1b", "\x02", "\x03", "\x04"),
    *("\n", "\x0f", "\x12", "\t"),
)


class Screen:
    """Runs the command on a terminal of its own."""

    def __init__(self, pal: Any, *words: str, columns: int = 80, rows: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self._size(columns, rows)
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = pal.start(*words, start_new_session=True, preexec_fn=own_terminal, **streams)
        os.close(theirs)

    def __enter__(self) -> Screen:  # noqa: PYI034 - there are no subclasses
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._ours)

    @property
    def lines(self) -> list[str]:
        """What is on the screen now."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def cells(self) -> list[tuple[int, list[Any]]]:
        """Number and cells of each row, with their colours."""
        rows, columns = range(self._screen.lines), range(self._screen.columns)
        return [(row, [self._screen.buffer[row][column] for column in columns]) for row in rows]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def history(self) -> list[str]:
        """What has scrolled out of it."""
        columns = self._screen.columns
        return ["".join(line[at].data for at in range(columns)).rstrip() for line in self._screen.history.top]

    @property
    def all(self) -> str:
        return "\n".join([*self.history, *self.lines])

    @property
    def coloured(self) -> str:
        """All that was written, with the sequences in it."""
        return self.written.decode(errors="replace")

    def kill(self) -> None:
        """As a power cut does it."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def type(self, keys: str) -> None:
        data = keys.encode()
        while data:  # the other side may be slow to read
            _, ready, _ = select.select([], [self._ours], [], 0.01)
            if ready:
                data = data[os.write(self._ours, data[:512]) :]
            self._read(0)

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._size(columns, rows)

    def until(self, wanted: str | Callable[[Screen], bool]) -> str:
        """Wait until a text, or a state, is on the screen; returns the screen."""
        ends = time.monotonic() + PATIENCE
        while not (wanted(self) if callable(wanted) else re.search(wanted, self.all)):
            assert time.monotonic() < ends, f"{wanted!r} did not come:\n{self.all}"
            assert self._read(1) is not None, f"{wanted!r} did not come before the end:\n{self.all}"
        return self.text

    def end(self) -> int:
        """Wait for the end; the exit code."""
        ends = time.monotonic() + PATIENCE
        while self._read(1) is not None:
            assert time.monotonic() < ends, f"the program did not end:\n{self.all}"
        return self.process.wait(PATIENCE)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, seconds: float) -> int | None:
        """Show what comes; None at the end."""
        waiting = select.poll()  # `select` refuses descriptors above 1023
        waiting.register(self._ours, select.POLLIN)
        if not waiting.poll(1000 * seconds):
            return 0
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return None
        self.written += piece
        self._stream.feed(piece)
        return len(piece)
