"""Positions in a text where a call could begin, found by its lines, fences and tags."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from pure_agent_loop.llm.tool_modes.forms import _MISTRAL_TAG

_FENCE_LINE = re.compile(r"^[ \t]*```", re.M)
_JSON_LINE = re.compile(r"^[ \t]*(?=[{\[])", re.M)
_WORD_LINE = re.compile(r"^ {0,3}(?=[*\w])", re.M)  # a deeper indent is a code block, and ``>`` a quotation
_CANDIDATE = re.compile(r"[<\[`{]")
_LONG_LINE = 400


class TextPosition:
    """A position in a text; its line and code block decide where a call could begin."""

    def __init__(self) -> None:
        self._line = ""
        self._fences = 0  # number of fence lines so far; odd inside a code block

    def may_hold_call(self, text: str) -> bool:
        """Return False if no call could begin anywhere in the following `text`."""
        return "\n" in text or not self._line.strip(" ") or _CANDIDATE.search(text) is not None

    def move(self, text: str) -> None:
        """Advance to the end of `text`."""
        if "\n" in text:
            before, newline, self._line = (self._line + text).rpartition("\n")
            self._fences += len(_FENCE_LINE.findall(before + newline))
        else:
            self._line += text
        # The start of a long line no longer matters, and scanning it is slow.
        if len(self._line) > _LONG_LINE:
            self._line = "x" + self._line[-8:]

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the positions in the following `text` where a call could begin, in order."""
        whole, offset = self._line + text, len(self._line)
        fences = [match.end() for match in _FENCE_LINE.finditer(whole)]
        own_line = {match.end() for match in _JSON_LINE.finditer(whole)}
        word_line = {end for match in _WORD_LINE.finditer(whole) if (end := match.end()) >= offset}
        own_line |= word_line
        ticks, last = self._line.count("`"), offset
        for position in sorted(word_line | {match.start() for match in _CANDIDATE.finditer(whole, offset)}):
            character = whole[position]
            ticks = ticks if whole.find("\n", last, position) < 0 else 0
            is_quoted, last = character != "`" and ticks % 2 == 1, position
            ticks += character == "`"
            is_in_block = (self._fences + bisect_right(fences, position)) % 2 == 1
            if is_in_block or is_quoted or whole[position - 1 : position] == "`":
                continue
            is_tag = character == "<" or _MISTRAL_TAG.startswith(whole[position : position + 12])
            if character == "`" or is_tag or position in own_line:
                yield position - offset
