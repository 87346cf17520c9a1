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
        self.has_opened = False
        self._buffer = ""
        self._state = "start"  # start -> opened -> thinking -> closed -> answer, or start -> answer

    def feed(self, text: str) -> tuple[str, str]:
        """Take in more text; return (answer, thinking) that is sure by now."""
        if not text or (self._state == "answer" and not self._buffer):
            return text, ""  # what was held back waits for more
        self._buffer += text
        thinking = ""
        if self._state == "start":
            self._look_for_opening()
        if self._state == "opened":
            self._skip_newlines("thinking")
        if self._state == "thinking":
            thinking = self._think()
        if self._state == "closed":
            self._skip_newlines("answer")
        if self._state != "answer":
            return "", thinking
        answer, self._buffer = self._buffer, ""
        return answer, thinking

    def flush(self) -> tuple[str, str]:
        """Return what was held back, once no more text comes."""
        rest, self._buffer = self._buffer, ""
        return ("", rest) if self.has_opened else (rest, "")

    def _look_for_opening(self) -> None:
        stripped = self._buffer.lstrip()
        if stripped.startswith(self.OPEN):
            self.has_opened, self._state = True, "opened"
            self._buffer = stripped[len(self.OPEN) :]
        elif not self.OPEN.startswith(stripped):  # more than white space and part of the tag
            self._state = "answer"

    def _skip_newlines(self, then: str) -> None:
        self._buffer = self._buffer.lstrip("\n")
        if self._buffer:
            self._state = then

    def _think(self) -> str:
        thinking, closing, answer = self._buffer.partition(self.CLOSE)
        if closing:
            self._state, self._buffer = "closed", answer
            return thinking.rstrip("\n")
        held = _overlap(self._buffer, self.CLOSE)
        sure = self._buffer[: len(self._buffer) - held].rstrip("\n")
        self._buffer = self._buffer[len(sure) :]
        return sure


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a beginning of `tag`."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0


def split_unopened(text: str) -> tuple[str, str]:
    """Split (answer, thinking) where the template put the opening tag into the prompt, so it is missing.

    Only a first closing tag that is not quoted or inside a code block counts; one that is, is being
    talked about.
    """
    before, closing, after = text.partition(ThinkSplitter.CLOSE)
    is_quoted = before[-1:] in _QUOTES and before[-1:] == after[:1]
    if not closing or is_quoted or before.count("```") % 2 or ThinkSplitter.OPEN in before:
        return text, ""
    return after.lstrip("\n"), before.strip("\n")


_QUOTES = ("`", "'", '"')
