"""Why a text to be replaced is not in a file: the nearest lines, and what is different about them."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from pure_agent_loop.toolbox.complaints import shown
from pure_agent_loop.toolbox.files.words import say

MAX_LINES = 20_000  # of a file; beyond, no similar lines are looked for
MAX_COMPARED = 20_000_000  # pairs of characters; beyond, the rest of the lines is not compared
MAX_LINE_CHARS = 300
MAX_SHOWN = 12
SIMILAR = 0.6

_DIFFERENCES: list[tuple[str, Callable[[str], str]]] = [
    ("trailing", str.rstrip),
    ("indentation", str.strip),
    ("inner_spaces", lambda line: "".join(line.split())),
    ("case", lambda line: "".join(line.split()).casefold()),
]
_ESCAPES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'"})


def why_not_found(text: str, old: str, path: str) -> str:
    """What a model reads when its text is not in the file.

    Args:
        old: What was looked for, with plain line ends.
    """
    start = say("not_in_file", path=shown(path))
    lines = [line.rstrip("\r") for line in text.split("\n")]
    wanted = old.strip("\n").split("\n")
    if "\n".join(lines).count(old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')):
        return say("escaped", start=start)
    for what, plain in _DIFFERENCES:
        at = _find([plain(line.translate(_ESCAPES)) for line in lines], wanted, plain)
        if at is not None:
            return say("differs", start=start, what=say(what), lines=_numbered(lines, at, len(wanted)))
    at = _nearest(lines, wanted) if len(lines) <= MAX_LINES else None
    if at is None:
        return say("nothing_similar", start=start)
    return say("similar", start=start, lines=_numbered(lines, at, len(wanted)))


def _find(lines: list[str], wanted: list[str], plain: Callable[[str], str]) -> int | None:
    """The first line where all wanted lines follow, once what may differ is taken away."""
    plain_wanted = [plain(line.translate(_ESCAPES)) for line in wanted]
    if not any(plain_wanted):
        return None
    text, block = ("\n".join(["", *each, ""]) for each in (lines, plain_wanted))
    at = text.find(block)  # in linear time, however often the first lines repeat
    return None if at < 0 else text.count("\n", 0, at)


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Where the longest wanted line has its best likeness, counted back to the first."""
    key = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    looked_for = wanted[key].strip()[:MAX_LINE_CHARS]
    matcher.set_seq2(looked_for)
    best, found, left = SIMILAR, None, MAX_COMPARED
    for number, line in enumerate(lines):
        plain = line.strip()[:MAX_LINE_CHARS]
        matcher.set_seq1(plain)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            left -= len(plain) * len(looked_for)
            if left < 0:
                break
            if matcher.ratio() > best:
                best, found = matcher.ratio(), number
    return None if found is None else max(0, found - key)


def _numbered(lines: list[str], at: int, count: int) -> str:
    chosen = lines[at : at + min(count, MAX_SHOWN)]
    return "\n".join(
        say("numbered", number=number, line=_visible(line[:MAX_LINE_CHARS]))
        for number, line in enumerate(chosen, at + 1)
    )


def _visible(line: str) -> str:
    """Tabs and spaces at the ends can be told apart."""
    start = line[: len(line) - len(line.lstrip())].replace("\t", "\\t")
    body = line.strip()
    end = line[len(line.rstrip()) :].replace("\t", "\\t") if body else ""
    return f"{start}{body}{end}|" if end else f"{start}{body}"
