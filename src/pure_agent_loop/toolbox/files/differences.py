"""Describe how a string differs from the most similar place in a file.

Both are read as letters with gaps between them: escapes are resolved, look-alikes and case are folded,
and spaces and invisible characters form the gaps. Where the folded letters agree, the differences are found
by comparing the letters as written, and the gaps.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pure_agent_loop.support.language import model_text

MAX_CHARS = 1_000_000  # maximum characters of a file; in a larger one, only similar lines are searched for
MAX_PAIRS = 6  # maximum pairs of characters listed in a message
_TOKEN = re.compile(
    r"""\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[ntr"'\\/])|&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});"""
    "|[A-Za-z0-9_]+(?![\u0300-\u036f])|.[\u0300-\u036f]*",
    re.S,
)
_ESCAPED = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}
_QUOTES = "\"“”„‟″＂«»'‘’‚‛′`´"
_DASHES = "-‐‑‒–—―−﹣－"
_LOOK_ALIKES = (
    "АВЕЗКМНОРСТУХаеорсухіјѕһԁΑΒΕΖΗΙΚΜΝΟΡΤΥΧο。、·×",
    "ABE3KMHOPCTYXaeopcyxijshdABEZHIKMNOPTYXo.,.x",
)
_FOLDED: dict[int, str | int] = {
    **dict.fromkeys(map(ord, _QUOTES[:9]), '"'),
    **dict.fromkeys(map(ord, _QUOTES[9:]), "'"),
    **dict.fromkeys(map(ord, _DASHES), "-"),
    **str.maketrans(*_LOOK_ALIKES),
}


@dataclass(frozen=True, slots=True)
class _Letter:
    """One letter: its folded form, its written form, and the gap before it."""

    key: str
    written: str
    gap: str
    has_escape: bool  # the gap contains an escape


class FoldedMatch:
    """The place in a file that matches a string after folding.

    Args:
        start: Position where the first letter begins.
        end: Position where the last letter ends.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        self._text = text

    def differences(self, old: str) -> str:
        """Describe the differences from the searched text, as part of a sentence."""
        theirs, _, _ = _letters(self._text[self.start : self.end])
        ours, our_end, has_escape = _letters(old)
        kinds: dict[str, list[str]] = {}
        for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
            gap = one.gap if index else _gap_at_end(self._text[: self.start], other.gap)
            inner = "inner_spaces" if index or not self._starts_line() else "indentation"
            _compare_gaps(kinds, gap, other.gap, inner, has_escape=other.has_escape != one.has_escape)
            if one.written != other.written:
                _compare_letters(kinds, one.written, other.written)
        after = _gap_at_start(self._text[self.end :], our_end)
        _compare_gaps(kinds, after, our_end, "trailing", has_escape=has_escape)
        return model_text("comma").join(_describe(kind, pairs) for kind, pairs in kinds.items())

    def _starts_line(self) -> bool:
        return self._text[: self.start].rstrip(" \t")[-1:] in ("", "\n")


def find_place(text: str, old: str) -> FoldedMatch | None:
    """Find a string, ignoring spaces, escapes and look-alikes."""
    if len(text) > MAX_CHARS:
        return None
    wanted = "".join(key for key, _ in _folded_tokens(old))
    keys: list[str] = []
    starts: list[tuple[int, int]] = []
    for key, (start, end) in _folded_tokens(text):
        keys.append(key)
        is_plain = len(key) == end - start  # a sequence of plain letters
        starts += [(start + n, start + n + 1) if is_plain else (start, end) for n in range(len(key))]
    at = "".join(keys).find(wanted) if wanted else -1
    return None if at < 0 else FoldedMatch(text, starts[at][0], starts[at + len(wanted) - 1][1])


def _folded_tokens(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for token in _TOKEN.finditer(text):
        key = _fold(token[0])
        if key:
            yield key, token.span()


def _fold(token: str) -> str:
    """Return the folded form of a token; empty for spaces and invisible characters."""
    if token.isascii() and token.isalnum():
        return token.lower()
    char = _resolve(token)
    if char.isspace() or _is_invisible(char):
        return ""
    folded = unicodedata.normalize("NFKC", char.translate(_FOLDED)).translate(_FOLDED).casefold()
    return "".join(folded.split())


def _resolve(token: str) -> str:
    """Return the character of an escape; other tokens unchanged."""
    if len(token) > 1 and token[0] == "\\":
        if token[1] in "ux":
            return chr(int(token[2:], 16))
        return _ESCAPED.get(token, token[1:])
    return html.unescape(token) if len(token) > 2 and token[0] == "&" else token


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char[0]) == "Cf" or "\ufe00" <= char[0] <= "\ufe0f"


def _letters(text: str) -> tuple[list[_Letter], str, bool]:
    """Split a string into letters; return them, the final gap, and whether that gap has an escape."""
    letters: list[_Letter] = []
    gap, has_escape = "", False
    for token in _TOKEN.finditer(text):
        written = token[0]
        key = _fold(written)
        if not key:
            gap += _resolve(written)
            has_escape |= len(written) > 1 and written[0] in "\\&"
            continue
        pieces = written if len(key) == len(written) else [written] * len(key)
        for letter, piece in zip(key, pieces, strict=True):
            letters.append(_Letter(letter, piece, gap, has_escape))
            gap, has_escape = "", False
    return letters, gap, has_escape


def _gap_at_end(text: str, like: str) -> str:
    """Return the gap at the end of a string, with at most as many line breaks as `like`."""
    gap = text[len(text.rstrip()) :] if like else ""
    lines = gap.split("\n")
    return "\n".join(lines[-1 - like.count("\n") :]) if like.strip(" \t") else lines[-1]


def _gap_at_start(text: str, like: str) -> str:
    """Return the gap at the start of a string, with at most as many line breaks as `like`."""
    gap = text[: len(text) - len(text.lstrip())] if like else ""
    if "\n" not in like:
        return gap[: len(like)] if gap.startswith(like) else gap.split("\n")[0]
    ends = [at for at, char in enumerate(gap) if char == "\n"][: like.count("\n")]
    rest = gap[ends[-1] + 1 :] if ends else ""
    tail = like.rpartition("\n")[2]
    return (gap[: ends[-1] + 1] if ends else gap) + (tail if rest.startswith(tail) else rest.split("\n")[0])


def _compare_gaps(
    kinds: dict[str, list[str]], theirs: str, ours: str, inner: str, *, has_escape: bool
) -> None:
    if has_escape:
        kinds.setdefault("escapes", [])
    if theirs == ours:
        return
    hidden, special = (
        [_special_chars(gap, invisible=flag) for gap in (theirs, ours)] for flag in (True, False)
    )
    for kind, (there, here) in (("invisible", hidden), ("special_spaces", special)):
        if there != here:
            kinds.setdefault(kind, []).append(_describe_pair(there or " ", here or " "))
    plain = [_plain_gap(gap).split("\n") for gap in (theirs, ours)]
    if len(plain[0]) != len(plain[1]):
        kinds.setdefault("line_breaks", [])
    elif plain[0] != plain[1] and len(plain[0]) == 1:
        kinds.setdefault(inner, [])
    else:
        if plain[0][:-1] != plain[1][:-1]:
            kinds.setdefault("trailing", [])
        if plain[0][-1] != plain[1][-1]:
            kinds.setdefault("indentation", [])


def _special_chars(gap: str, *, invisible: bool) -> str:
    return "".join(c for c in gap if c not in " \t\r\n" and _is_invisible(c) is invisible)


def _plain_gap(gap: str) -> str:
    """Return a gap without the characters that are reported separately."""
    return "".join(c if c in "\t\n" else " " for c in gap.replace("\r\n", "\n") if not _is_invisible(c))


def _compare_letters(kinds: dict[str, list[str]], theirs: str, ours: str) -> None:
    if theirs.casefold() == ours.casefold():
        kind = "case"
    elif len(theirs) > 1 and theirs[0] in "\\&":
        kind = "escaped_there"
    elif len(ours) > 1 and ours[0] in "\\&":
        kind = "escapes"
    elif unicodedata.normalize("NFC", theirs) == unicodedata.normalize("NFC", ours):
        kind = "composed"
    elif theirs in _QUOTES and ours in _QUOTES:
        kind = "quotes"
    else:
        kind = "dashes" if theirs in _DASHES and ours in _DASHES else "alike"
    pairs = kinds.setdefault(kind, [])
    if kind in ("quotes", "dashes", "alike"):
        pair = _describe_pair(theirs, ours)
        pairs += [] if pair in pairs else [pair]


def _describe_pair(theirs: str, ours: str) -> str:
    return model_text("for", theirs=_show_chars(theirs), ours=_show_chars(ours))


def _show_chars(chars: str) -> str:
    """Show characters, with code points if they could be confused with others."""
    if chars.isascii():
        return chars if chars.strip() else model_text("a_space")
    codes = " ".join(f"U+{ord(char):04X}" for char in chars)
    visible = not any(char.isspace() or _is_invisible(char) for char in chars)
    return f"{chars} ({codes})" if visible else codes


def _describe(kind: str, pairs: list[str]) -> str:
    shown = list(dict.fromkeys(pairs))
    ellipsis = ", ..." if len(shown) > MAX_PAIRS else ""
    return model_text(kind) + (f" ({'; '.join(shown[:MAX_PAIRS])}{ellipsis})" if shown else "")


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Count the equal items at the start and at the end."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    return head, tail
