"""Render file changes: the path, the line counts and the colored diff."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.calls import Folded, number
from pure_agent_loop.cli.chat.styling import Styler, clean, one_line
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.support.terminal import excerpt

if TYPE_CHECKING:
    from rich.text import Text

MAX_LINES = 40  # maximum lines of a diff shown before unfolding
MAX_WIDTH = 600  # maximum characters of a line shown before unfolding

PROSE = "prose"  # name of a section of plain text
_NAMED = ("result", "reasoning", "prompt", "command", "error")  # sections whose name is a message key
_WRAPPED = (PROSE, "reasoning", "prompt", "error")  # sections to wrap; others may be copied as code
_ROLES = {"+": "added", "-": "removed", "@": "label"}
_MARKS = {"created": "+ ", "deleted": "- "}
_WORD = re.compile(r"[A-Za-z0-9_]+|\s+|.")
_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@")


def head(change: Mapping[str, Any], styler: Styler, words: Words) -> Text:
    """Render the path of a changed file and its line counts."""
    kind = str(change.get("kind"))
    name = one_line(str(change.get("path", "")), 400)
    mark = _MARKS.get(kind, "~ ")
    if styler.reader:
        mark = f"{words(kind if kind in _MARKS else 'modified')}: "
    return styler.text(("label", mark), ("bold", name), *counts(change, styler, words))


def counts(change: Mapping[str, Any], styler: Styler, words: Words) -> list[tuple[str, str]]:
    """Return the line counts of a change as spans."""
    if change.get("is_binary"):
        return [("dim", f" ({words('not_text')})")]
    plus, minus = (f"{number(change.get(side)):.0f}" for side in ("added", "removed"))
    if styler.reader:
        return [("", f", {words('added')} {plus}, {words('removed')} {minus}")]
    return [("added", f" +{plus}"), ("removed", f" -{minus}")]


def body(
    diff: str, styler: Styler, words: Words, max_lines: int | None = MAX_LINES
) -> tuple[list[Text], int]:
    """Render a diff; return its lines and the number of omitted lines.

    Args:
        diff: A unified diff; its file header is omitted.
        max_lines: None for all lines at full width.
    """
    lines = clean(diff).rstrip("\n").split("\n") if diff.strip() else []
    for name in ("--- ", "+++ "):
        lines = lines[1:] if lines and lines[0].startswith(name) else lines
    shown = lines if max_lines is None else lines[:max_lines]
    rendered: list[Text] = []
    parts = {} if styler.reader else _changed_parts(shown)
    for at, line in enumerate(shown):
        role = _ROLES.get(line[:1], "")
        text = styler.code(role, _cut(_spoken(line, styler, words), max_lines))
        if at in parts:
            text.stylize(styler.styles[f"{role}_part"], *parts[at])
        rendered.append(text)
    left = len(lines) - len(shown)
    if left:
        rendered.append(styler.text(("dim", words("more_diff", count=left))))
    return rendered, left


def _changed_parts(lines: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Return the changed part (start, end) of each changed line that has a counterpart, by line number."""
    parts: dict[int, tuple[int, int]] = {}
    runs = [(sign, list(run)) for sign, run in groupby(range(len(lines)), key=lambda at: lines[at][:1])]
    for (sign, removed), (other, added) in pairwise(runs):
        if (sign, other) != ("-", "+") or len(removed) != len(added):
            continue
        for places in zip(removed, added, strict=True):
            sides = [_WORD.findall(lines[at][1:]) for at in places]
            start = _alike(*sides)
            end = _alike(*(side[start:][::-1] for side in sides))
            if not "".join(sides[0][:start] + sides[0][len(sides[0]) - end :]).strip():
                continue  # the two lines have nothing in common
            for at, side in zip(places, sides, strict=True):
                first = 1 + len("".join(side[:start]))
                parts[at] = (first, first + len("".join(side[start : len(side) - end])))
    return parts


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words at the start of two lines are equal."""
    return next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )


def reverse(diff: str) -> str:
    """Return the unified diff that undoes another, without its file header."""
    lines, added, removed = list[str](), list[str](), list[str]()
    for line in [*diff.splitlines(), "@@"]:
        if line.startswith(("--- ", "+++ ")) and not lines:
            continue
        if line.startswith("+"):
            removed.append(f"-{line[1:]}")
        elif line.startswith("-"):
            added.append(f"+{line[1:]}")
        else:
            lines += [*removed, *added, _HUNK.sub(r"@@ -\2 +\1 @@", line)]
            added, removed = [], []
    return "\n".join(lines[:-1])


def unfolded(folded: Folded, styler: Styler, words: Words, width: int) -> list[Text]:
    """Render a folded block in full; prose is wrapped between words."""
    lines = [folded.title]
    for name, text in folded.sections:
        if name == "diff":
            lines += body(text, styler, words, None)[0]
            continue
        title = words(name) if name in _NAMED else one_line(name.removeprefix(PROSE))
        lines += [styler.text(("label", f"{title}:"))] if title else []
        shown = clean(text).rstrip().split("\n")
        if name in _WRAPPED:
            pieces = (piece for line in shown for piece in styler.wrapped(styler.text(("", line)), width - 2))
            lines += [styler.text(("", "  ")).append_text(piece) for piece in pieces]
        else:
            lines += [styler.code("", f"  {line}") for line in shown]
    return lines


def _cut(line: str, max_lines: int | None) -> str:
    return line if max_lines is None or len(line) <= MAX_WIDTH else excerpt(line, 1, MAX_WIDTH)


def _spoken(line: str, styler: Styler, words: Words) -> str:
    """Replace ``+`` and ``-`` by words, because a screen reader skips signs."""
    side = {"+": "added", "-": "removed"}.get(line[:1])
    return f"{words(side)}: {line[1:]}" if styler.reader and side else line
