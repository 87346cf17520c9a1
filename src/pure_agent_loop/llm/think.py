"""Thinking that a server leaves in the text, between ``<think>`` and ``</think>``."""

from __future__ import annotations


class ThinkSplitter:
    """Splits streamed text into answer and thinking; tags may be cut at any place.

    Only a tag that opens before any answer text counts as thinking: a model that writes about the tag
    later in its answer is not thinking.
    """

    OPEN = "<think>"
    CLOSE = "</think>"

    def __init__(self) -> None:
        self._buffer = ""
        self._state = "start"  # start -> thinking -> answer, or start -> answer

    def feed(self, text: str) -> tuple[str, str]:
        """Take in more text; return (answer, thinking) that is sure by now."""
        if self._state == "answer":
            return text, ""
        self._buffer += text
        if self._state == "start":
            return self._at_start()
        return self._while_thinking()

    def flush(self) -> tuple[str, str]:
        """Return what was held back, once no more text comes."""
        rest, self._buffer = self._buffer, ""
        return ("", rest) if self._state == "thinking" else (rest, "")

    def _at_start(self) -> tuple[str, str]:
        stripped = self._buffer.lstrip()
        if stripped.startswith(self.OPEN):
            self._state = "thinking"
            self._buffer = stripped[len(self.OPEN) :].lstrip("\n")
            return self._while_thinking()
        if self.OPEN.startswith(stripped):
            return "", ""  # only white space or part of the tag so far
        self._state = "answer"
        text, self._buffer = self._buffer, ""
        return text, ""

    def _while_thinking(self) -> tuple[str, str]:
        thinking, closing, answer = self._buffer.partition(self.CLOSE)
        if closing:
            self._state, self._buffer = "answer", ""
            return answer.lstrip("\n"), thinking.rstrip("\n")
        keep = _overlap(self._buffer, self.CLOSE)
        sure = self._buffer[: len(self._buffer) - keep]
        self._buffer = self._buffer[len(sure) :]
        return "", sure


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a beginning of `tag`."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0
