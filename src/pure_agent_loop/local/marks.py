"""The values that stand in a question, in their order, and what kind each is. Pure: no model, no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from pure_agent_loop.local.pieces import quoted_texts
from pure_agent_loop.local.values import DATES, LIST, TIME, read_numbers

Kind = Literal["number", "text", "date", "time", "list"]

# What is written with capitals, with the small words between: "Museum of Art", "No Time To Die".
_NAME = re.compile(
    r"(?<![\w'’])[A-Z][\w&’'-]*\.?"
    r"(?:(?: (?:of|the|de|la|du|von|van)){0,2} (?:(?:[A-Z]\.){2,}|[A-Z][\w&’'-]*\.?)| \d+(?=[\s,.?!]))*"
)
_WITH_STATE = re.compile(r", ?(?:[A-Z]{2}\b|[A-Z]\.[A-Z]\.)")
_OPENING = re.compile(r"(?:^|[.?!:]['\"]? +|\n\s*)[\W_]*(?:\d+[.)] *)?([A-Z][\w’']*)")
_INITIALS = re.compile(r"\b(?:Inc|Corp|Ltd|Co|Dr|Mr|Mrs|Ms|St|[A-Z])\.$")
_NO_NAMES = frozenset(
    re.findall(
        r"[\w']+",
        "I I'm I'd I've I'll January February March April May June July August September October November "
        "December Monday Tuesday Wednesday Thursday Friday Saturday Sunday Celsius Fahrenheit Kelvin Also "
        "Then And Or The A An AM PM Hz kHz MHz",
    )
)
_AND = r"\b(?:and|or)\b|&"
_LISTED = re.compile(rf", ?(?:and |or )?|,? (?:{_AND}) ")
# Three or more words in a row, with "and" before the last one.
_WORDS = re.compile(r"(?<![\w-])[a-z]{3,}(?:, [a-z]{3,})+,? and [a-z]{3,}(?![\w-])")
_NUMBERING = re.compile(r"(?:^|\n)\s*\d+[.)] $")
_MONEY = ("$", "€", "£")
_ASIDE = re.compile(r"\([^()\d]*\)")


@dataclass(frozen=True, slots=True)
class Mark:
    """A value of a question.

    Args:
        kind: What it is.
        start: Where it begins.
        end: Where it ends.
        text: As it is written.
    """

    kind: Kind
    start: int
    end: int
    text: str


def marks(question: str) -> list[Mark]:
    """The values of a question in order; of two that overlap, the one that says more."""
    found: list[Mark] = []
    for mark in _candidates(question):
        if not any(mark.start < other.end and other.start < mark.end for other in found):
            found.append(mark)
    return _with_places_whole(question, sorted(found, key=lambda mark: mark.start))


def _with_places_whole(question: str, found: list[Mark]) -> list[Mark]:
    """Names with where they are ("Rome, Italy") as one: a list of names has an "and" before its last one."""
    whole: list[Mark] = []
    row: list[Mark] = []
    for mark, following in zip_longest(found, found[1:]):
        row.append(mark)
        between = question[mark.end : following.start] if following else "."
        if following and mark.kind == following.kind == "text" and _LISTED.fullmatch(between):
            continue
        whole += _with_commas_joined(question, row)
        row = []
    return whole


def _with_commas_joined(question: str, row: list[Mark]) -> list[Mark]:
    joined = [row[0]]
    is_list = len(row) > 1 and re.search(_AND, question[row[-2].end : row[-1].start])
    for mark in row[1:]:
        last = joined[-1]
        if is_list or re.search(_AND, question[last.end : mark.start]) or not _is_name(last):
            joined.append(mark)
        else:
            joined[-1] = Mark("text", last.start, mark.end, question[last.start : mark.end])
    return joined


def _is_name(mark: Mark) -> bool:
    return mark.text[:1].isupper()


def _candidates(question: str) -> Iterator[Mark]:
    for found in LIST.finditer(question):
        yield Mark("list", found.start(), found.end(), found[0])
    for found in quoted_texts(question):
        yield Mark("text", found.start(), found.end(), found[0])
    for pattern in DATES:
        for found in pattern.finditer(question):
            yield Mark("date", found.start(), found.end(), found[0])
    for found in TIME.finditer(question):
        if found["minute"] or found["half"] or found["part"]:
            yield Mark("time", found.start(), found.end(), found[0])
    yield from _names(question)
    yield from _listed_words(question)
    for number in read_numbers(question):
        if not number.word and not _NUMBERING.search(question[: number.end + 2]):
            start = number.start - (question[number.start - 1 : number.start] in _MONEY)
            yield Mark("number", start, number.end, question[start : number.end])


def _listed_words(question: str) -> Iterator[Mark]:
    for row in _WORDS.finditer(question):
        for word in re.finditer(r"\b(?!and\b)[a-z]+", row[0]):
            start = row.start() + word.start()
            yield Mark("text", start, start + len(word[0]), word[0])


def _names(question: str) -> Iterator[Mark]:
    bare = _ASIDE.sub(lambda m: " " * len(m[0]), question)
    opening = {m.start(1) for m in _OPENING.finditer(bare) if not _INITIALS.search(bare[: m.start() + 1])}
    for found in _NAME.finditer(bare):
        start, end = found.span()
        while start in opening or re.split(r"[\s'’]", bare[start:end], maxsplit=1)[0] in _NO_NAMES:
            first = re.match(r"\S+(?: (?:of|the|de|la|du|von|van)\b)*\s*", bare[start:end])
            start += first.end() if first else end - start
            if start >= end:
                break
        text = re.sub(r"['’]s$|[.’'-]$", "", bare[start:end])
        state = _WITH_STATE.match(bare, start + len(text))
        if re.search(r"[A-Z]", text):
            stop = state.end() if state else start + len(text)
            yield Mark("text", start, stop, bare[start:stop])
