"""Progress display of an evaluation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Protocol

from pure_agent_loop.support.language import user_text

_STEPS = 20  # maximum progress lines without a terminal, so that a log stays readable


class ScoredResult(Protocol):
    """An evaluation result, such as `CaseOutcome`."""

    @property
    def right(self) -> bool:
        """True if the answer is correct."""

    @property
    def seconds(self) -> float:
        """Duration in seconds."""


class Progress:
    """Counts results and shows the count: on a terminal in an updated line, else in new lines at intervals.

    Args:
        write: Function called with the text.
        total: Total number of questions.
        before: Number of results from an earlier run.
        live: True if the output is a terminal.
    """

    def __init__(
        self, write: Callable[[str], None], total: int, before: Sequence[ScoredResult], *, live: bool
    ) -> None:
        self._write, self._total, self._live = write, total, live
        self._done, self._right = len(before), sum(record.right for record in before)
        self._seconds: list[float] = []
        self._shown = 0 if not total else self._done * _STEPS // total

    def add(self, record: ScoredResult) -> None:
        """Count a result, and show the progress if due."""
        self._done += 1
        self._right += record.right
        self._seconds.append(record.seconds)
        step = self._done * _STEPS // self._total
        if self._live:
            columns = shutil.get_terminal_size().columns
            # Cut to the width, because a wrapped line could not be erased.
            self._write(f"\r\x1b[K{self.line()[: columns - 1]}")
        elif step > self._shown:
            self._write(f"{self.line()}\n")
        self._shown = step

    def end(self) -> None:
        """End the line that is being updated."""
        if self._live and self._seconds:
            self._write("\n")

    def line(self) -> str:
        """Return the progress line."""
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 0.0
        return user_text(
            "library.eval_progress", done=self._done, total=self._total, right=self._right, mean=mean
        )
