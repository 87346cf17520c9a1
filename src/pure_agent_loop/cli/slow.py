"""Showing slow steps (a download, a model that loads) and long waits: one line that changes, or few lines."""

from __future__ import annotations

import re
import threading
import time
from types import TracebackType

from pure_agent_loop.cli.output import PREFIX, Output
from pure_agent_loop.cli.words import told
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.support.terminal import one_line

_PERCENT = re.compile(r"\((\d+) %\)$")
_CLEAR_LINE = "\r\x1b[2K"
PATIENCE_SECONDS = 3.0  # of a person who sees nothing


class SlowSteps:
    """Call it with short sentences; use it in a ``with`` block, whose end finishes the line.

    Args:
        output: Where to write.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown = ""

    def __enter__(self) -> SlowSteps:  # noqa: PYI034 - there are no subclasses
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_line()

    def __call__(self, message: str) -> None:
        """Show a step; one that counts per cent replaces the one before it."""
        found = _PERCENT.search(message)
        if not found:
            self._output.say(told(message))
        elif self._output.err_is_terminal:
            self._output.progress(f"{_CLEAR_LINE}{PREFIX}{one_line(message, 70)}")
        elif _stage(found) != self._shown:
            self._shown = _stage(found)
            self._output.say(message)


def _stage(found: re.Match[str]) -> str:
    """What is fetched, and how many tens of per cent of it are here."""
    return f"{found.string.partition(':')[0]} {int(found.group(1)) // 10}"


class Waiting:
    """While this block runs, a person at a terminal who asked for no progress sees that it is no hang.

    Args:
        output: Where to write; nothing is written unless it is a terminal.
        enabled: False where progress is shown anyway.
    """

    def __init__(self, output: Output, *, enabled: bool) -> None:
        self._output = output
        self._enabled = enabled and output.err_is_terminal
        self._for, self._since = "the model", time.monotonic()
        self._shown = False
        self._turn = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pal-waiting", daemon=True)

    def __enter__(self) -> Waiting:  # noqa: PYI034 - there are no subclasses
        if self._enabled:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._enabled:
            self._thread.join()
            self._clear()

    def note(self, event: Event) -> None:
        """Something happened."""
        self.wait_for(event.data["tool"] if event.type is EventType.ACTION else "the model")

    def wait_for(self, what: str) -> None:
        """From now on it is this that is waited for; empty for a person."""
        with self._turn:
            self._since, self._for = time.monotonic(), one_line(what, 40)
        self._clear()

    def _clear(self) -> None:
        with self._turn:
            if self._shown:
                self._output.progress(_CLEAR_LINE)
                self._output.typed_line()  # the cursor stands at the beginning of a line
                self._shown = False

    def _watch(self) -> None:
        while not self._end.wait(1):
            with self._turn:
                seconds = time.monotonic() - self._since
                if self._for and seconds >= PATIENCE_SECONDS and not self._end.is_set():
                    words = f"still waiting for {self._for} ({seconds:.0f} s)"
                    self._output.progress(f"{_CLEAR_LINE}{PREFIX}{words}")
                    self._shown = True
