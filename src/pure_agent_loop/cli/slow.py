"""Showing slow steps (a download, a model that loads): one line that changes, or few lines in a log."""

from __future__ import annotations

import re
from types import TracebackType

from pure_agent_loop.cli.output import PREFIX, Output
from pure_agent_loop.support.terminal import one_line

_PERCENT = re.compile(r"\((\d+) %\)$")
_CLEAR_LINE = "\r\x1b[2K"


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
            self._output.say(message)
        elif self._output.err_is_terminal:
            self._output.progress(f"{_CLEAR_LINE}{PREFIX}{one_line(message, 70)}")
        elif _stage(found) != self._shown:
            self._shown = _stage(found)
            self._output.say(message)


def _stage(found: re.Match[str]) -> str:
    """What is fetched, and how many tens of per cent of it are here."""
    return f"{found.string.partition(':')[0]} {int(found.group(1)) // 10}"
