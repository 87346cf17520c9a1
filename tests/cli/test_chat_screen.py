"""What a terminal shows of a conversation: finished lines once, few bytes, nothing above the live lines."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pyte
import pytest
from benchmarks.terminal_bytes import stream, tokens

from pure_agent_loop.cli.chat.transcript import TranscriptView

COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Watched(pyte.HistoryScreen):
    """A terminal that notes the highest line that was changed."""

    def __init__(self, width: int, height: int) -> None:
        self.highest = 1_000_000
        super().__init__(width, height, history=100_000)

    def _note(self) -> None:
        self.highest = min(self.highest, len(self.history.top) + self.cursor.y)

    def draw(self, data: str) -> None:
        self._note()
        super().draw(data)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        self._note()
        super().erase_in_line(how, private)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        assert how == 0, "more than what stands below was erased"
        self._note()
        super().erase_in_display(how, *args, **kwargs)

    def insert_lines(self, *args: Any) -> None:
        raise AssertionError("lines were moved")

    delete_lines = reverse_index = set_margins = insert_lines

    def all_lines(self) -> list[str]:
        """All lines, those that scrolled away first."""
        rows = [*self.history.top, *(self.buffer[number] for number in range(self.lines))]
        return ["".join(row[column].data for column in range(self.columns)).rstrip() for row in rows]


def run(width: int, height: int, count: int, color: bool) -> tuple[Watched, list[str]]:
    """Stream an answer into a terminal and look at each moment where it wrote."""
    terminal = Watched(width, height)
    reader = pyte.Stream(terminal)
    printed: list[str] = []
    state = {"floor": 0}

    def put(text: str) -> None:
        for line in COLOUR.sub("", text).split("\n")[:-1]:  # the terminal folds long lines of code
            printed.extend(line[start : start + width] for start in range(0, max(len(line), 1), width))

    def each_frame(number: int, _: object) -> None:
        assert terminal.highest >= state["floor"], f"frame {number} touched a line that was printed"
        state["floor"] = len(printed)
        terminal.highest = 1_000_000

    screen = TranscriptView(width, color=color, live_lines=min(8, height - 5))
    asyncio.run(
        stream(
            list(tokens(count)),
            screen,
            per_second=60,
            height=height,
            watch=reader.feed,
            printed=put,
            each_frame=each_frame,
        )
    )
    assert terminal.highest >= state["floor"]
    return terminal, printed


@pytest.mark.parametrize(("width", "height", "color"), [(80, 24, True), (40, 10, False)])
def test_nothing_that_was_printed_is_touched_again(width, height, color):
    terminal, printed = run(width, height, 1_000, color)
    shown = terminal.all_lines()[: len(printed)]
    assert len(printed) > 60
    assert shown == [line.rstrip() for line in printed]


def test_two_thousand_tokens_cost_at_most_three_times_themselves():
    measured = asyncio.run(stream(list(tokens(2_000)), TranscriptView(80), per_second=60))
    assert measured.text == 8_000
    assert measured.times <= 3.0
