"""Quotations and addresses as single characters, so that patterns do not look into them. Pure: no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

_QUOTED = re.compile(
    r'"([^"]*)"|“([^”]*)”|`([^`]*)`|「([^」]*)」|『([^』]*)』|‘([^’]*)’|'
    r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"
)
_URL = re.compile(r"https?://[^\s\"'<>，。；]*[\w/]")
_NAME = re.compile(r"[^\s/\\]+(?:[ /\\][^\s/\\]+)*\.[A-Za-z][A-Za-z0-9]{0,7}|(?:[\w.-]+/)+[\w.-]*")
# Characters for private use; a question that has some of its own is not looked into.
_TEXT, _FILE, _ADDRESS = 0xE000, 0xE800, 0xF000
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")
_MOST = 200

TEXT = r"[\ue000-\ue7ff]"
QUOTED = r"[\ue000-\uefff]"
URL = r"[\uf000-\uf0ff]"
_LED_BY_WORDS = re.compile(
    rf"[\w\s]*({QUOTED})\s*(?:[这那]个|一词|的|字|词|单词|文字)*[\s.,;:!?。，；：！？]*"
)
FILE = (
    r"(?:(?<![A-Za-z0-9_./\\-])(?:[A-Za-z0-9_~.-]+[/\\])*[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"
    r"\.[A-Za-z][A-Za-z0-9]{0,7}(?![A-Za-z0-9_/\\-])|[\ue800-\uefff])"
)


@dataclass(frozen=True, slots=True)
class Masked:
    """A question with a character in place of each quotation and address.

    Args:
        text: The question so.
        kept: What the characters stand for, without quotation marks.
        written: The same as it was written, with them.
    """

    text: str
    kept: dict[str, str]
    written: dict[str, str]

    def plain(self, text: str) -> str:
        """A part of the masked question with the words back in place, without quotation marks."""
        return _PRIVATE.sub(lambda found: self.kept.get(found[0], ""), text)

    def value(self, text: str) -> str:
        """A part of the masked question as a value: what is quoted at its end, else all as it was written."""
        found = _LED_BY_WORDS.fullmatch(text)
        return self.kept[found[1]] if found else _PRIVATE.sub(lambda m: self.written.get(m[0], ""), text)

    def is_quoted(self, text: str) -> bool:
        """True if the value of a part of the masked question is what is quoted there."""
        return _LED_BY_WORDS.fullmatch(text) is not None


def masked(question: str) -> Masked:
    """Mask the quotations and addresses of a question."""
    kept: dict[str, str] = {}
    written: dict[str, str] = {}
    if _PRIVATE.search(question):
        return Masked("", kept, written)
    whole = _QUOTED.fullmatch(question.strip())
    text = _inner(whole) if whole and len(_QUOTED.findall(question)) == 1 else question

    def hide(value: str, as_written: str, base: int) -> str:
        if len(kept) >= _MOST:
            return as_written
        mark = chr(base + len(kept))
        kept[mark], written[mark] = value, as_written
        return mark

    def hide_quoted(found: re.Match[str]) -> str:
        value = _inner(found)
        return hide(value, found[0], _FILE if _NAME.fullmatch(value) else _TEXT)

    text = _QUOTED.sub(hide_quoted, text)
    return Masked(_URL.sub(lambda m: hide(m[0], m[0], _ADDRESS), text), kept, written)


def _inner(found: re.Match[str]) -> str:
    return "".join(part or "" for part in found.groups())
