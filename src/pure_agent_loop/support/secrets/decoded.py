"""Decode escapes and line breaks in a text, with a map back to the original positions.

Decoding finds a secret that was escaped, wrapped and escaped again (such as HTML in JSON in a query) without
a list of such combinations. The secret is decoded, too, because it may itself look escaped.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache

MAX_LAYERS = 12
_MAX_OPEN, _MAX_ESCAPE = 64, 64  # maximum nested incomplete escapes, and maximum letters per escape
has_escapes = re.compile(r"""[\\&%\r\n\x1b]|['"]['"]|=[0-9A-F]{2}""").search
"""Search for anything to decode; bound to the pattern's method, as it runs on every text."""
_KNOWN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = (
    r"&(?:#\d{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});?"
    r"|%[0-9A-Fa-f]{2}|\\0?[0-7]{1,3}|\\(?:u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}"
    r"|U[0-9a-fA-F]{8}|[^\n\ruUx])"  # in a stream, the end of an escape may come later
)
# Word breaks: a line end with the next line's indent, and characters a terminal does not show. Breaks are
# removed first, because an escape may contain one; quotes are removed last, because they may be escaped.
_LINE_BREAK = r"\n[ \t]*|\r[ \t]*|\\[\r\n][ \t]*|\x1b\[[0-9;?]*[A-Za-z]"
_QUOTE_SIGN = re.compile("['\"]")
# In quoted-printable an equals sign begins an escape; in other text it precedes values.
_READINGS = (
    (re.compile(_LINE_BREAK), re.compile(_ESCAPE)),
    (re.compile(r"=[\r\n]|" + _LINE_BREAK), re.compile(_ESCAPE + "|=[0-9A-Fa-f]{2}")),
)
_OPEN = re.compile(
    r"(?:&#?[A-Za-z0-9]{0,32}|[%=][0-9A-Fa-f]?|\x1b(?:\[[0-9;?]*)?"
    r"|\\(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[uU]\{[0-9a-fA-F]{0,6}|x[0-9a-fA-F]?|[1-7][0-7]?|0[0-7]{0,2})?)\Z"
)

Meaning = Callable[[re.Match[str]], str]


class Decoded:
    """Text with its escapes decoded, and without line breaks and quotes.

    Args:
        is_printable: Whether an equals sign begins an escape, as in quoted-printable.
        goes_on: Whether more text may follow; if so, an incomplete escape at the end is kept.
    """

    def __init__(self, written: str, *, is_printable: bool = False, goes_on: bool = False) -> None:
        self.text = written
        self._layers: list[tuple[str, re.Pattern[str], Meaning]] = []
        self._places: list[tuple[list[int], list[int]]] = []
        breaks, escape = _READINGS[is_printable]
        for _ in range(MAX_LAYERS):
            limit = self.open_from() if goes_on else len(written)
            if not (
                self._take_back(breaks, _nothing)
                or self._take_back(escape, _meaning_until(limit))
                or self._take_back(_QUOTE_SIGN, _nothing)
            ):
                break

    @classmethod
    def readings(cls, written: str, *, goes_on: bool = False) -> Iterator[Decoded]:
        """Yield each possible decoding of the text."""
        first = cls(written, goes_on=goes_on)
        yield first
        if "=" in first.text:
            yield cls(written, is_printable=True, goes_on=goes_on)

    def _take_back(self, pattern: re.Pattern[str], meaning: Meaning) -> bool:
        previous, self.text = self.text, pattern.sub("" if meaning is _nothing else meaning, self.text)
        if previous == self.text:
            return False
        self._layers.append((previous, pattern, meaning))
        return True

    def _mapped(self) -> list[tuple[list[int], list[int]]]:
        """Return, per layer, the offsets of the pieces in the new text and in the old one."""
        for previous, pattern, meaning in self._layers[
            len(self._places) :
        ]:  # computed late, because only texts with a match need offsets
            starts, origins, length, end = [0], [0], 0, 0
            for match in pattern.finditer(previous):
                length += match.start() - end
                starts.append(length)
                origins.append(match.start())
                length, end = length + len(meaning(match)), match.end()
                starts.append(length)
                origins.append(end)
            self._places.append((starts, origins))
        return self._places[::-1]

    def written_from(self, at: int) -> int:
        """Return the original offset where a letter begins; `at` may also be the end of the text."""
        for starts, origins in self._mapped():
            place = bisect_right(starts, at) - 1
            # Every second piece is a decoded escape: it maps to the start of the escape.
            at = origins[place] + (0 if place % 2 else at - starts[place])
        return at

    def written_to(self, end: int) -> int:
        """Return the original offset where the letter before a position ends."""
        for starts, origins in self._mapped():
            place = bisect_right(starts, end - 1) - 1
            end = origins[place + 1] if place % 2 else origins[place] + end - starts[place]
        return end

    def open_from(self) -> int:
        """Return the offset of a possibly incomplete escape, or the text's length."""
        at = len(self.text)
        for _ in range(_MAX_OPEN):
            match = _OPEN.search(self.text, max(0, at - _MAX_ESCAPE), at)
            if match is None:
                break
            at = match.start()  # an earlier escape may contain this one
        return at


@lru_cache(4_096)
def _meant(escape: str) -> str:
    digits = escape[1:].strip("#xXuU{};")
    if escape[0] == "&" and escape[1] != "#":
        import html  # imported here: the table of entity names is large, and few texts need it

        return html.unescape(escape)
    if escape[0] in "%=" or escape[1] in "uUx" or escape[2:3] in ("x", "X"):
        code = int(digits, 16)
    elif escape[0] == "&":
        code = int(digits)
    elif escape[1] in "01234567":
        code = int(digits, 8)
    else:
        return _KNOWN.get(escape[1], escape[1])
    return chr(code) if code < 0x110000 else escape


def _meaning_until(limit: int) -> Meaning:
    def meaning(match: re.Match[str]) -> str:
        escape = match[0]
        return _meant(escape) if match.end() <= limit else escape

    return meaning


def _nothing(_: re.Match[str]) -> str:
    return ""
