"""Changes of files, coloured once: the name, how many lines, and the diff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.calls import Folded, number
from pure_agent_loop.cli.chat.safe import Ink, clean, one_line
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.support.terminal import excerpt

if TYPE_CHECKING:
    from rich.text import Text

MOST_LINES = 40  # of a diff that are shown at once
MOST_WIDTH = 600  # characters of a line shown at once

_NAMED = ("result", "reasoning", "prompt")  # sections whose names are ours
_ROLES = {"+": "added", "-": "removed", "@": "label"}
_MARKS = {"created": "+ ", "deleted": "- "}


def head(change: Mapping[str, Any], ink: Ink, words: Words) -> Text:
    """The line that says which file changed and by how much."""
    kind = str(change.get("kind"))
    name = one_line(str(change.get("path", "")), 400)
    if change.get("is_binary"):
        counts = [("dim", f" ({words('not_text')})")]
    elif ink.reader:
        plus, minus = (f"{words(side)} {number(change.get(side)):.0f}" for side in ("added", "removed"))
        counts = [("", f", {plus}, {minus}")]
    else:
        plus, minus = (f"{number(change.get(side)):.0f}" for side in ("added", "removed"))
        counts = [("added", f" +{plus}"), ("removed", f" -{minus}")]
    mark = _MARKS.get(kind, "~ ")
    if ink.reader:
        mark = f"{words(kind if kind in _MARKS else 'modified')}: "
    return ink.text(("label", mark), ("bold", name), *counts)


def body(diff: str, ink: Ink, words: Words, most: int | None = MOST_LINES) -> tuple[list[Text], int]:
    """The lines of a diff, and how many of them are left out.

    Args:
        diff: A unified diff; the names of the files at its head are left out.
        ink: Makes lines for the terminal.
        words: Says our words.
        most: Greatest number of lines; None for all, uncut.
    """
    lines = clean(diff).rstrip("\n").split("\n") if diff.strip() else []
    for name in ("--- ", "+++ "):
        lines = lines[1:] if lines and lines[0].startswith(name) else lines
    shown = lines if most is None else lines[:most]
    made = [ink.text((_ROLES.get(line[:1], ""), _cut(_spoken(line, ink, words), most))) for line in shown]
    left = len(lines) - len(shown)
    if left:
        made.append(ink.text(("dim", words("more_diff", count=left))))
    return made, left


def unfolded(folded: Folded, ink: Ink, words: Words) -> list[Text]:
    """All the lines of what was folded."""
    lines = [folded.title]
    for name, text in folded.sections:
        if name == "diff":
            lines += body(text, ink, words, None)[0]
            continue
        title = words(name) if name in _NAMED else one_line(name)
        lines += [ink.text(("label", f"{title}:"))] if title else []
        lines += [ink.text(("", f"  {line}")) for line in clean(text).rstrip().split("\n")]
    return lines


def _cut(line: str, most: int | None) -> str:
    return line if most is None else excerpt(line, 1, MOST_WIDTH)


def _spoken(line: str, ink: Ink, words: Words) -> str:
    """A screen reader passes over a sign at the beginning of a line, so it is said."""
    side = {"+": "added", "-": "removed"}.get(line[:1])
    return f"{words(side)}: {line[1:]}" if ink.reader and side else line
