"""Collect an answer in progress: the reasoning, the text and the call that is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.styling import Cleaner
from pure_agent_loop.support.lazy import lazy_pattern

if TYPE_CHECKING:
    from rich.text import Text


# A word, or one character of a script without spaces.
_WORD = lazy_pattern(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)


class AnswerInProgress:
    """Collects an answer that arrives in pieces or whole."""

    def __init__(self, page: Page) -> None:
        self.writing = ""  # the tool of the call that is being written
        self.has_text = self.has_reasoning = self.has_printed = False
        self.words = 0  # number of words of the reasoning in progress
        self.speed = 0  # approximate tokens per second of the current text; 0 in the first second
        self._tokens, self._written_since, self._last_piece = 0, 0.0, 0.0
        self.thinks_since = 0.0  # start time of the request whose reasoning is arriving
        self._reasoning: list[str] = []
        self._cleaner = Cleaner()
        self._flow = Flow(page)
        self._ready: list[Text] = []  # finished lines that are kept in the live region while they fit

    def think(self, piece: str, since: float) -> None:
        """Add a piece of reasoning.

        Args:
            since: When the request began, or when the previous part of the answer ended.
        """
        self.has_reasoning = True
        self.thinks_since = self.thinks_since or since
        self._reasoning.append(piece)
        self.words += len(_WORD.findall(piece))

    def end_thinking(self, now: float) -> tuple[str, float, int] | None:
        """End the reasoning; return its text, seconds and words, or None if there was none."""
        if not self._reasoning:
            return None
        text, took = "".join(self._reasoning), max(now - self.thinks_since, 0.0)
        self._reasoning, self.thinks_since, self.words = [], 0.0, 0
        return text, took, len(_WORD.findall(text))

    def note_speed(self, piece: str, now: float) -> None:
        """Update the speed for a piece of text; the speed changes at most once a second."""
        from pure_agent_loop.llm.tokens import estimate_tokens

        self._written_since = self._written_since or now
        before, took = self._last_piece - self._written_since, now - self._written_since
        if took >= 1 and int(took) > int(before):
            self.speed = round(self._tokens / took)
        self._last_piece = now
        self._tokens += estimate_tokens(piece)

    def write(self, piece: str, width: int, room: int | None) -> list[Text]:
        """Add a piece of text; return finished lines, in batches because each print costs a redraw.

        Args:
            room: Number of live lines that may hold finished lines; None to return finished lines at once.
        """
        piece = piece if self.has_text else piece.lstrip("\r\n")  # many models begin with empty lines
        self.has_text = self.has_text or bool(piece)
        self._ready += self._flow.feed(self._cleaner.feed(piece), width)
        if room is not None:
            if len(self._ready) + self._flow.rows(width) <= room:
                return []
            self._ready += self._flow.cut(width)  # so that few lines need to be redrawn
        ready, self._ready = self._ready, []
        return ready

    def close(self, width: int) -> list[Text]:
        """End the text; return the remaining lines."""
        self.writing, self.speed = "", 0
        lines = [*self._ready, *self._flow.feed(self._cleaner.close(), width), *self._flow.close(width)]
        self._ready = []
        return lines

    def tail(self, width: int, max_lines: int) -> list[Text]:
        """Return the last lines of the unprinted text."""
        return [*self._ready, *self._flow.tail(width)][-max_lines:] if max_lines > 0 else []
