"""What a person sees of a worker while it works, and when it is to stop."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pure_agent_loop.cli.exits import INTERRUPTED
from pure_agent_loop.cli.output import Output


class Stopping:
    """What signals do to a worker: the first one is said, and Ctrl-C after it leaves at once.

    Args:
        grace: Seconds that tools at work get to end.
        output: Told about the first one.
    """

    def __init__(self, grace: float, output: Output) -> None:
        self._grace, self._output = grace, output
        self._was_asked = False

    def asked(self, number: int) -> None:
        """A signal has come.

        Args:
            number: Which one.
        """
        if self._was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # as a kill, after which another worker goes on
        if not self._was_asked:
            self._output.say(
                f"stopping; tools at work get {self._grace:g} s to end (Ctrl-C again leaves at once)"
            )
        self._was_asked = True


@contextmanager
def said(output: Output) -> Iterator[None]:
    """While this lasts, what the worker logs is said.

    Args:
        output: Where.
    """
    log, handler = logging.getLogger("pure_agent_loop"), _Saying(output)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


class _Saying(logging.Handler):
    """Says what is logged. What is the same as before, as while a run waits, is not said again."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output, self._last = output, ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last:
            self._last = text
            self._output.say(text)
