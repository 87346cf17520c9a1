"""The answer in progress: its reasoning, its text and the call it writes, as far as they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.safe import Cleaner
from pure_agent_loop.support.lazy import lazy_pattern

if TYPE_CHECKING:
    from rich.text import Text

# A word, or one character of a script that is written without spaces.
_WORD = lazy_pattern(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)


class Answer:
    """What came of an answer so far, in pieces or whole.

    Args:
        page: Makes lines of Markdown.
    """

    def __init__(self, page: Page) -> None:
        self.writing = ""  # the tool of the call that is being written
        self.has_text = self.has_reasoning = self.has_printed = False
        self.words = 0  # of the reasoning in progress
        self._since = 0.0
        self._reasoning: list[str] = []
        self._cleaner = Cleaner()
        self._flow = Flow(page)
        self._ready: list[Text] = []  # finished lines that are shown below until there is no more room

    def think(self, piece: str, now: float) -> None:
        """A piece of the reasoning."""
        self.has_reasoning = True
        self._since = self._since or now
        self._reasoning.append(piece)
        self.words += len(_WORD.findall(piece))

    def end_thinking(self, now: float) -> tuple[str, float, int] | None:
        """The reasoning that is over, with its seconds and words; None if there was none."""
        if not self._reasoning:
            return None
        text, took = "".join(self._reasoning), max(now - self._since, 0.0)
        self._reasoning, self._since, self.words = [], 0.0, 0
        return text, took, len(_WORD.findall(text))

    def write(self, piece: str, width: int, room: int | None) -> list[Text]:
        """A piece of the text. Returns finished lines, many at a time: each printing costs a redraw.

        Args:
            piece: The piece.
            width: Columns.
            room: Lines in which the finished ones may wait beside those that are not; None for no waiting.
        """
        piece = piece if self.has_text else piece.lstrip("\r\n")  # many models begin with empty lines
        self.has_text = self.has_text or bool(piece)
        self._ready += self._flow.feed(self._cleaner.feed(piece), width)
        if room is not None:
            if len(self._ready) + self._flow.rows(width) <= room:
                return []
            self._ready += self._flow.cut(width)  # so that little is left to be drawn again
        ready, self._ready = self._ready, []
        return ready

    def close(self, width: int) -> list[Text]:
        """The text is over. Returns the rest of its lines."""
        self.writing = ""
        lines = [*self._ready, *self._flow.feed(self._cleaner.close(), width), *self._flow.close(width)]
        self._ready = []
        return lines

    def tail(self, width: int, most: int) -> list[Text]:
        """The last lines of the text that is not printed."""
        lines = [*self._ready, *self._flow.tail(width)]
        return lines[-most:] if most > 0 else []
