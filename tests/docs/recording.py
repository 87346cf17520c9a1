"""A recording of commands at a terminal: each is run, and the picture shows when each line appeared."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte

COLUMNS, ROWS = 92, 40
LINE, CHAR = 19, 8.43  # pixels, of a monospaced font at 14
PROMPT = "\x1b[32m$\x1b[0m "
STYLE = """
.pal { fill: #fbfaf7; stroke: #c9c5bb; }
.pal-text text {
  font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #1f2421;
}
.green { fill: #1f7a4d } .red { fill: #b3261e } .brown { fill: #8a5a00 } .cyan { fill: #0b6b78 }
.bold { font-weight: 700 }
@media (prefers-color-scheme: dark) {
  .pal { fill: #16191c; stroke: #3a4044; } .pal-text text { fill: #e8eae8; }
  .green { fill: #6fd0a0 } .red { fill: #ff9a90 } .brown { fill: #e6b95c } .cyan { fill: #6ecbd8 }
}
@media (prefers-reduced-motion: reduce) { .pal-text g { animation: none !important } }
"""


@dataclass
class Recording:
    """Commands, run one after another in a folder, and the screen they leave.

    Args:
        folder: Working folder.
        env: Environment of the commands.
    """

    folder: Path
    env: Mapping[str, str]
    seconds: float = 0.0
    screen: Any = field(default_factory=lambda: pyte.Screen(COLUMNS, ROWS))
    shown: dict[int, tuple[float, list[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stream = pyte.ByteStream(self.screen)

    def say(self, text: str, pause: float = 1.0) -> None:
        """Show a line, as if typed."""
        self._feed(text.replace("\n", "\r\n").encode(), pause)

    def run(self, command: str, pause: float = 2.0) -> str:
        """Type a command, run it on a terminal of its own, show what it prints, and return that."""
        self.say(f"{PROMPT}{command}\n", 0.8)
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        size = {"COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        done = subprocess.Popen(
            ["/bin/bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=self.folder,
            env={**self.env, "TERM": "xterm-256color", **size},
        )
        os.close(theirs)
        printed = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the last writer is gone
                break
            if not piece:
                break
            printed += piece
        os.close(ours)
        done.wait(60)
        self._feed(printed, pause)
        return printed.decode()

    def _feed(self, printed: bytes, pause: float) -> None:
        self.stream.feed(printed)
        for row in range(self.screen.cursor.y + 1):
            cells = [self.screen.buffer[row][column] for column in range(COLUMNS)]
            if row not in self.shown or self.shown[row][1] != cells:
                self.shown[row] = (self.shown[row][0] if row in self.shown else self.seconds, cells)
        self.seconds += pause

    def svg(self, title: str) -> str:
        """Return the picture: each line appears when it did, again and again."""
        return picture(self.rows, title, {row: at for row, (at, _) in self.shown.items()}, self.seconds)

    def still(self, title: str) -> str:
        """Return the last screen as a picture that does not move."""
        return picture(self.rows, title, {}, 1)

    @property
    def rows(self) -> list[tuple[int, list[Any]]]:
        """Number and cells of each row."""
        return [(row, cells) for row, (_, cells) in sorted(self.shown.items())]


def picture(rows: list[tuple[int, list[Any]]], title: str, at: Mapping[int, float], seconds: float) -> str:
    """Return rows of a terminal as SVG.

    Args:
        rows: Number and cells of each row.
        title: What it shows, for people who do not see it.
        at: Second at which a row appears; rows that are not in it are there from the start.
        seconds: Length of the recording, which is repeated.
    """
    rows = [(row, cells) for row, cells in rows if text_of(cells)]
    height, width = (rows[-1][0] + 1) * LINE + 28, COLUMNS * CHAR + 32
    moments = sorted({0.0, *at.values()})
    keys = "".join(
        f"@keyframes m{number} {{ 0% {{ visibility: hidden }} "
        f"{100 * moment / seconds:.1f}%, to {{ visibility: visible }} }}\n"
        f".m{number} {{ animation: m{number} {seconds:g}s step-end infinite }}\n"
        for number, moment in enumerate(moments)
        if moment
    )
    lines = "\n".join(
        f'<g class="m{moments.index(at.get(row, 0.0))}">'
        f'<text x="16" y="{28 + row * LINE}">{spans(cells)}</text></g>'
        for row, cells in rows
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{STYLE}{keys}</style>\n'
        f'<rect class="pal" x="1" y="1" width="{width - 2:.0f}" height="{height - 2}" rx="10"/>\n'
        f'<g class="pal-text">\n{lines}\n</g>\n</svg>\n'
    )


def text_of(cells: list[Any]) -> str:
    """Return the text of a row."""
    return "".join(cell.data for cell in cells).rstrip()


def spans(cells: list[Any]) -> str:
    """Return the row as spans of one colour each."""
    written = []
    for (name, is_bold, is_reverse), group in groupby(
        cells[: len(text_of(cells))], key=lambda cell: (cell.fg, cell.bold, cell.reverse)
    ):
        text = escape("".join(cell.data for cell in group))
        names = [
            name for name, is_set in ((name, name != "default"), ("bold", is_bold or is_reverse)) if is_set
        ]
        written.append(f'<tspan class="{" ".join(names)}">{text}</tspan>' if names else text)
    return "".join(written)
