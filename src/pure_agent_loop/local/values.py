"""Values that stand in a question: numbers, lists of numbers and dates, as a schema wants them. Pure: no I/O.

The smallest models get digits, shares and dates wrong; these can be read off the question without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_UNITS = re.findall(r"\w+", "zero one two three four five six seven eight nine ten eleven twelve")
_WORDS = {w: i for i, w in enumerate(_UNITS)} | {"both": 2, "pair": 2, "dozen": 12, "twice": 2, "couple": 2}
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_NUMBER = re.compile(
    r"(?:(?P<digits>(?<![\w.^])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![A-Za-z_\d.^])-?(?:\d+(?:\.\d+)?|\.\d+)(?:e-?\d+)?)"
    rf"|\b(?P<word>{'|'.join(_WORDS)})\b)"
    rf"(?:\s*(?P<scale>{'|'.join(_SCALES)})\b)?(?P<share>\s*(?:%|percent\b|per cent\b))?",
    re.IGNORECASE,
)
LIST = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"\b(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_MONTH_NAMES = (
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})\b",
        r"\b(?P<month>\d{1,2})[-/.](?P<day>\d{1,2})[-/.](?P<year>\d{4})\b",
        _MONTH + r" ?(?P<day>\d{1,2})(?:st|nd|rd|th)?\b(?:,? ?(?P<year>\d{4})\b)?",
        r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)? (?:of )?" + _MONTH + r"(?:,? ?(?P<year>\d{4})\b)?",
    )
)
_FORMAT = re.compile(r"\b([YMD]{1,4})([-/.])([YMD]{1,4})\2([YMD]{1,4})\b", re.IGNORECASE)
_TWO, _FOUR = 2, 4
TIME = re.compile(
    r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::\d\d)?)?"
    r"(?: ?(?P<half>[ap])\.?m\b| (?:o'clock )?in the (?P<part>morning|afternoon|evening))?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\bHH:MM(?P<seconds>:SS)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a question.

    Args:
        value: What it is.
        share: True if it is followed by a percent sign.
        start: Where it begins.
        end: Where it ends.
        text: As it is written.
        word: True if it is written as a word.
    """

    value: int | float
    share: bool
    start: int
    end: int
    text: str
    word: bool


def read_numbers(text: str) -> list[Number]:
    """The numbers of a text in order, written in digits or as words."""
    return [_number(m) for m in _NUMBER.finditer(text)]


def _number(found: re.Match[str]) -> Number:
    word = found["word"]
    value = float(_WORDS[word.lower()]) if word else float(found["digits"].replace(",", ""))
    value *= _SCALES[found["scale"].lower()] if found["scale"] else 1
    return Number(tidy(value), bool(found["share"]), found.start(), found.end(), found[0], bool(word))


def tidy(value: float) -> int | float:
    """A whole number as an integer."""
    return int(value) if value.is_integer() else value


def fitting_numbers(text: str, prop: Mapping[str, Any]) -> list[int | float]:
    """The numbers of a text that an argument may be; shares as the part of one they mean."""
    whole = prop.get("type") == "integer"
    about = str(prop.get("description", "")).lower()
    percent = "percent" in about and "0 to 1" not in about and "decimal" not in about
    values = [
        n.value / 100 if n.share and not whole and not percent else n.value
        for n in read_numbers(text)
        if not whole or isinstance(n.value, int)
    ]
    return list(dict.fromkeys(values))


def written_lists(text: str) -> list[list[Any]]:
    """The lists that stand in a text in square brackets."""
    found = (_parsed(written) for written in LIST.findall(text))
    return [value for value in found if value is not None]


def _parsed(written: str) -> list[Any] | None:
    try:
        value: list[Any] = json.loads(written.replace("'", '"'))
    except ValueError:
        return None
    return value


def number_rows(text: str) -> list[list[int | float]]:
    """The rows of numbers with nothing but commas and "and" between them, each of two or more."""
    rows: list[list[Number]] = []
    for number in read_numbers(text):
        between = text[rows[-1][-1].end : number.start] if rows else "-"
        if re.fullmatch(r"[\s,;]*(?:and\s*)?", between):
            rows[-1].append(number)
        else:
            rows.append([number])
    return [[n.value for n in row] for row in rows if len(row) > 1]


def raw_dates(text: str) -> list[str]:
    """The dates of a text as they are written."""
    return list(dict.fromkeys(m[0].strip() for pattern in DATES for m in pattern.finditer(text)))


def without_lists(text: str) -> str:
    """The text with blanks for its written lists, so that places stay the same."""
    return LIST.sub(lambda m: " " * len(m[0]), text)


def without_dates(text: str) -> str:
    """The same for its dates."""
    for pattern in DATES:
        text = pattern.sub(lambda m: " " * len(m[0]), text)
    return text


def read_dates(text: str, description: str) -> list[str]:
    """The dates of a text in the form a description asks for (``YYYY-MM-DD``); empty if it names none."""
    form = _FORMAT.search(description)
    found = sorted((m.start(), m) for pattern in DATES for m in pattern.finditer(text))
    years = [m["year"] for _, m in found if m["year"]] or re.findall(r"\b(?:19|20)\d\d\b", text)
    if form is None or not years:
        return []
    return list(dict.fromkeys(_written(form, m, m["year"] or years[0]) for _, m in found))


def _written(form: re.Match[str], date: re.Match[str], year: str) -> str:
    month = date["month"].lower()
    number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
    parts = {"y": year, "m": f"{number:02d}", "d": f"{int(date['day']):02d}"}
    parts["y"] = year if len(form[1]) == _FOUR or len(form[4]) == _FOUR else year[-_TWO:]
    return form[2].join(parts[form[i][0].lower()] for i in (1, 3, 4))


def read_times(text: str, description: str) -> list[str]:
    """The times of a text in the form a description asks for (``HH:MM``); empty if it names none."""
    form = _CLOCK.search(description)
    if form is None:
        return []
    found = [m for m in TIME.finditer(text) if m["minute"] or m["half"] or m["part"]]
    return list(dict.fromkeys(_clock(m) + (":00" if form["seconds"] else "") for m in found))


def _clock(time: re.Match[str]) -> str:
    hour = int(time["hour"])
    part = (time["part"] or "").lower()
    half = (time["half"] or ("" if not part else "a" if part == "morning" else "p")).lower()
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return f"{hour:02d}:{time['minute'] or '00'}"


def without_times(text: str) -> str:
    """The text with blanks for its times of day."""
    return TIME.sub(lambda m: " " * len(m[0]) if m["minute"] or m["half"] or m["part"] else m[0], text)


def read_months(text: str) -> list[int]:
    """The months that a text names, as numbers."""
    found = re.findall(_MONTH_NAMES, text)
    return list(dict.fromkeys(_MONTHS.index(name[:3].lower()) + 1 for name in found))


def read_years(text: str) -> list[int]:
    """The numbers of a text that can be years of our time."""
    return list(dict.fromkeys(int(year) for year in re.findall(r"\b(?:1[5-9]|20)\d\d\b", text)))
