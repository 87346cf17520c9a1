"""Progress of slow steps (downloads, model loading) and long waits, in one changing line or a few lines."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType

from pure_agent_loop.cli.output import PREFIX, CommandOutput
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.support.language import TranslatedText, user_text
from pure_agent_loop.support.terminal import one_line

CLEAR_LINE = "\r\x1b[2K"
CELLS = 20  # length of a progress bar
PATIENCE_SECONDS = 3.0  # seconds before a wait is shown


class SlowSteps(AbstractContextManager["SlowSteps"]):
    """Shows steps: call the object with a short sentence per step; the ``with`` block ends the line."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._shown: tuple[str, int] | None = None  # the file, and the progress in tenths

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_line()

    def __call__(self, text: str) -> None:
        """Show a step; a percentage replaces the previous one."""
        values = text.values if isinstance(text, TranslatedText) else {}
        if "percent" not in values:
            self._output.info(text)
        elif self._output.can_clear:
            filled = values["percent"] * CELLS // 100
            bar = "█" * filled + "░" * (CELLS - filled)
            self._output.progress(f"{CLEAR_LINE}{PREFIX}{user_text('cli.bar', bar=bar, **values)}")
        elif (stage := (values["file"], values["percent"] // 10)) != self._shown:
            self._shown = stage
            self._output.info(text)


class Waiting:
    """Shows long waits at a terminal while progress is off.

    Args:
        output: The output; used only if it is a terminal.
        enabled: False if progress is shown anyway.
    """

    def __init__(self, output: CommandOutput, *, enabled: bool) -> None:
        self._output = output
        self._enabled = enabled and output.can_clear
        self._for, self._since = user_text("cli.the_model"), time.monotonic()
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
        """Restart the wait after an event."""
        self.wait_for(event.data["tool"] if event.type is EventType.ACTION else user_text("cli.the_model"))

    def wait_for(self, what: str) -> None:
        """Set the reason for the wait; empty for a wait for the user, which is not shown."""
        with self._turn:
            self._since, self._for = time.monotonic(), one_line(what, 40)
        self._clear()

    def _clear(self) -> None:
        with self._turn:
            if self._shown:
                self._output.progress(CLEAR_LINE)
                self._output.typed_line()  # the cursor is at the start of a line
                self._shown = False

    def _watch(self) -> None:
        while not self._end.wait(1):
            with self._turn:
                seconds = time.monotonic() - self._since
                if self._for and seconds >= PATIENCE_SECONDS and not self._end.is_set():
                    words = user_text("cli.still_waiting", what=self._for, seconds=seconds)
                    self._output.progress(f"{CLEAR_LINE}{PREFIX}{words}")
                    self._shown = True
