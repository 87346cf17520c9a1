"""Where in a text a call could begin: lines, fences and tags. Pure: no I/O."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

_FENCE_LINE = re.compile(r"^[ \t]*```", re.M)
_JSON_LINE = re.compile(r"^[ \t]*(?=[{\[])", re.M)
_CANDIDATE = re.compile(r"[<\[`{]")
_TAG_OF_MISTRAL = "[TOOL_CALLS]"
_LONG_LINE = 400


def may_hold_call(text: str) -> bool:
    """False if no call could begin in a text, wherever it stands."""
    return _CANDIDATE.search(text) is not None


class Place:
    """A place in a text: what counts there depends on the line and the code block it is in."""

    def __init__(self) -> None:
        self._line = ""
        self._fences = 0  # in the lines before

    def move(self, text: str) -> None:
        """Go on to the end of `text`."""
        if "\n" in text:
            before, newline, self._line = (self._line + text).rpartition("\n")
            self._fences += len(_FENCE_LINE.findall(before + newline))
        else:
            self._line += text
        if (
            len(self._line) > _LONG_LINE
        ):  # how such a line began no longer matters; looking again would be slow
            self._line = "x" + self._line[-8:]

    def candidates(self, text: str) -> Iterator[int]:
        """Positions in `text`, which follows here, where a call could begin, first to last."""
        whole, offset = self._line + text, len(self._line)
        fences = [match.end() for match in _FENCE_LINE.finditer(whole)]
        own_line = {match.end() for match in _JSON_LINE.finditer(whole)}
        for match in _CANDIDATE.finditer(whole, offset):
            position, character = match.start(), match.group()
            is_in_block = (self._fences + bisect_right(fences, position)) % 2 == 1
            if is_in_block or whole[position - 1 : position] == "`":
                continue
            is_tag = character == "<" or _TAG_OF_MISTRAL.startswith(whole[position : position + 12])
            if character == "`" or is_tag or position in own_line:
                yield position - offset
