"""Explain why the text to replace is not in a file: show the nearest lines and their differences."""

from __future__ import annotations

import difflib

from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import excerpt_around
from pure_agent_loop.toolbox.complaints import shown
from pure_agent_loop.toolbox.files.differences import FoldedMatch, find_place

MAX_LINES = 20_000  # maximum lines of a file that is searched for similar lines
MAX_COMPARED = 20_000_000  # maximum pairs of characters compared in one search
MAX_LINE_CHARS = 300
MAX_SHOWN = 12
SIMILAR = 0.6


def why_not_found(text: str, old: str, path: str) -> str:
    """Return the message for text that is not in the file.

    Args:
        old: The missing text, with plain line ends.
    """

    start = model_text("not_in_file", path=shown(path))
    lines = [line.rstrip("\r") for line in text.split("\n")]
    wanted = old.strip("\n").split("\n")
    place = find_place(text, old)
    differences = "" if place is None else place.differences(old)
    if place is not None and differences:
        return model_text("differs", start=start, what=differences, lines=_place_lines(text, place))
    at = _nearest(lines, wanted) if len(lines) <= MAX_LINES else None
    if at is None:
        return model_text("nothing_similar", start=start)
    return model_text("similar", start=start, lines=_numbered(lines, at, len(wanted)))


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Find the line most similar to the longest wanted line; return where the wanted text would start."""
    key = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    looked_for = wanted[key].strip()[:MAX_LINE_CHARS]
    matcher.set_seq2(looked_for)
    best, best_number, left = SIMILAR, None, MAX_COMPARED
    for number, line in enumerate(lines):
        plain = line.strip()[:MAX_LINE_CHARS]
        matcher.set_seq1(plain)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            left -= len(plain) * len(looked_for)
            if left < 0:
                break
            if matcher.ratio() > best:
                best, best_number = matcher.ratio(), number
    return None if best_number is None else max(0, best_number - key)


def _place_lines(text: str, place: FoldedMatch) -> str:
    """Return the file's lines at a place; cut a long first line to the part around the place's start."""
    first = text.rfind("\n", 0, place.start) + 1
    lines = text[first : text.find("\n", place.end) if "\n" in text[place.end :] else len(text)].split("\n")
    number = text.count("\n", 0, first)
    lines[0] = excerpt_around(lines[0], place.start - first, MAX_LINE_CHARS)
    chosen = [line.rstrip("\r") for line in lines[:MAX_SHOWN]]
    return _numbered([""] * number + chosen, number, len(chosen))


def _numbered(lines: list[str], at: int, count: int) -> str:
    chosen = lines[at : at + min(count, MAX_SHOWN)]
    return "\n".join(
        model_text("numbered", number=number, line=_visible(line[: MAX_LINE_CHARS + 6]))
        for number, line in enumerate(chosen, at + 1)
    )


def _visible(line: str) -> str:
    """Make tabs and spaces at the ends of a line visible."""
    start = line[: len(line) - len(line.lstrip())].replace("\t", "\\t")
    body = line.strip()
    end = line[len(line.rstrip()) :].replace("\t", "\\t") if body else ""
    return f"{start}{body}{end}|" if end else f"{start}{body}"
