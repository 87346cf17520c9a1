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
FILE = (
    r"(?:(?<![A-Za-z0-9_./\\-])(?:[A-Za-z0-9_~.-]+[/\\])*[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"
    r"\.[A-Za-z][A-Za-z0-9]{0,7}(?![A-Za-z0-9_/\\-])|[\ue800-\uefff])"
)


@dataclass(frozen=True, slots=True)
class Masked:
    """A question with a character in place of each quotation and address.

    Args:
        text: The question so.
        kept: What the characters stand for.
    """

    text: str
    kept: dict[str, str]

    def plain(self, text: str) -> str:
        """A part of the masked question with the words back in place, without quotation marks."""
        return _PRIVATE.sub(lambda found: self.kept.get(found[0], ""), text)

    def quoted(self, text: str) -> str | None:
        """What is quoted in a part of the masked question, if it is one thing."""
        found = re.findall(QUOTED, text)
        return self.kept[found[0]] if len(found) == 1 else None


def masked(question: str) -> Masked:
    """Mask the quotations and addresses of a question."""
    kept: dict[str, str] = {}
    if _PRIVATE.search(question):
        return Masked(question, kept)
    whole = _QUOTED.fullmatch(question.strip())
    text = _inner(whole) if whole and len(_QUOTED.findall(question)) == 1 else question

    def hide(value: str, base: int) -> str:
        if len(kept) >= _MOST:
            return value
        mark = chr(base + len(kept))
        kept[mark] = value
        return mark

    text = _QUOTED.sub(lambda m: hide(_inner(m), _FILE if _NAME.fullmatch(_inner(m)) else _TEXT), text)
    return Masked(_URL.sub(lambda m: hide(m[0], _ADDRESS), text), kept)


def _inner(found: re.Match[str]) -> str:
    return "".join(part or "" for part in found.groups())
