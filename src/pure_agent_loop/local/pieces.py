"""The pieces of a question that can be a text argument of any tool. Pure: no model, no I/O."""

from __future__ import annotations

import re

from pure_agent_loop.local.spans import phrases

_MOST = 80
_LONGEST = 4000
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)", re.ASCII)
# Addresses of pages and people stay whole.
_ADDRESS = re.compile(r"\b(?:https?://|www\.)[^\s\"'<>]*[\w/]|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# Numbers of things: letters and digits mixed ("U1234", "ab-12").
_CODE = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]*[A-Za-z0-9](?![\w-])")
_BREAK = re.compile(r"[|;:?!()\[\]]|,(?! [A-Z])|\.(?= [A-Z]|$)")
# What is written with capitals belongs together, with the small words between: "Museum of Art".
_NAME = re.compile(r"\b[A-Z][\w&.’'-]*(?:(?: (?:of|the|de|la|&))* [A-Z0-9][\w&.’'-]*)+")
# The end of a sentence, which is no point after initials and titles.
_STOP = re.compile(r"(\b[a-z]\w+|\b(?!St\b|Dr\b|Mr\b|Mrs\b|Ms\b)[A-Z][a-z]+|\d)\.(?= [A-Z])")
# What is announced by a colon or a dash, up to the end.
_TOLD = re.compile(r"(?::| [-–]) +(\w[^:\n]*?\w[^\w\n]?)\s*$")
_INNER = re.compile(
    r" (?:in|for|at|from|on|to|with|near|by|using|within|that|and|who|starting) ", re.IGNORECASE
)
_FIRST = re.compile(r"(?:^|[.?!] )\W*(\w+)")


def pieces(question: str) -> list[str]:
    """What a text argument may be: what is quoted, then runs of words that cut no name in two."""
    question = _unwrapped(question[:_LONGEST])
    quoted = ["".join(parts) for parts in _QUOTED.findall(question)]
    addresses = _ADDRESS.findall(question)
    bare = _QUOTED.sub(" | ", _ADDRESS.sub(" | ", _STOP.sub(r"\1 |", question)))
    bare = re.sub(r"['’]s\b(?= [A-Z]| [a-z]{4})", " |", bare)
    told = [m[1].strip() for m in _TOLD.finditer(question)]
    found = [p for part in _BREAK.split(bare) for p in phrases(part) if re.search(r"\w", p)]
    names = _names(bare)
    whole = [p for p in found if not _INNER.search(p) and not any(_cuts(p, name) for name in names)]
    opening = {word.lower() for word in _FIRST.findall(question)}
    kept = [p for p in whole if p.split()[0].lower() not in opening]
    longer = [name for name in names if len(name.split()) > 1]
    best = dict.fromkeys([*quoted, *addresses, *longer, *kept, *_CODE.findall(bare), *told])
    return list(best)[:_MOST] or whole or [question.strip() or "-"]


def quoted_texts(question: str) -> list[re.Match[str]]:
    """Where something is quoted, unless it is the whole question."""
    found = list(_QUOTED.finditer(question[:_LONGEST]))
    return [] if _QUOTED.fullmatch(question.strip()) else found


def inner(quoted: re.Match[str]) -> str:
    """What stands between the quotation marks."""
    return "".join(part or "" for part in quoted.groups())


def _unwrapped(question: str) -> str:
    """A question without the quotation marks that stand around the whole of it."""
    found = _QUOTED.fullmatch(question.strip())
    return "".join(part or "" for part in found.groups()) if found else question


def _names(text: str) -> list[str]:
    """Names of several words; the first word of a sentence is no part of one."""
    opening = {m.end(1) for m in _FIRST.finditer(text)}
    found = []
    for match in _NAME.finditer(text):
        name = match[0]
        first = name.split(" ", 1)
        if match.start() + len(first[0]) in opening and len(first) > 1:
            name = first[1]
        found.append(name.rstrip(".’'-"))
    return found


def _cuts(piece: str, name: str) -> bool:
    """True if a piece has some words of a name and not all of them."""
    parts, words = piece.split(), name.split()
    if len(words) < 2 or " ".join(words) in " ".join(parts):
        return False
    ends = (parts[0], parts[-1])
    inner = any(
        " ".join(parts[:k]) == " ".join(words[-k:]) for k in range(1, min(len(parts), len(words)) + 1)
    )
    outer = any(
        " ".join(parts[-k:]) == " ".join(words[:k]) for k in range(1, min(len(parts), len(words)) + 1)
    )
    return inner or outer or (all(p in words for p in parts) and ends[0] in words)
