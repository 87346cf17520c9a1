"""What an argument's description says about its values: a form, or which there are. Pure: no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.local.relevance import mentions
from pure_agent_loop.local.values import read_dates, read_times

_QUOTED = re.compile(r"(?<!\w)['\"`]([^'\"`\n]{1,40})['\"`](?!\w)")
_OFFERS = re.compile(
    r"\b(?:can be|may be|must be|could be|either|possible|valid|allowed|options|one of|choose|refers? to)\b",
    re.IGNORECASE,
)
# "City, State", "Austin, TX", 'Paris, France': a name, a comma, and where that is.
_PLACE = re.compile(
    r"(?<!\w, )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*, ?(?:[A-Z]{2}\b(?!,)|State|Country)"
    r"|['\"][A-Z][a-z]+(?: [A-Z][a-z]+)*, ?[A-Z][a-z]+(?: [A-Z][a-z]+)*['\"]"
)
_SHORT = re.compile(r"[a-z], ?[A-Z]{2}\b")
_ADDRESS = re.compile(
    r"(?:\b\d+\w? )?\b[A-Z][\w’'-]*\.?(?: [A-Z][\w’'-]*)*(?:, ?[A-Z][\w’'-]*(?: [A-Z][\w’'-]*)*)+(?: \d{5})?"
)
_CODE = re.compile(r"\b(\d+)\s*(?:for|=|means)\s*([A-Za-z][\w -]*?)(?= service\b|[,.;)]|$| and )")
_DATE_AND_TIME = re.compile(r"\bY{2,4}[-/.]MM[-/.]DD[ T]HH:MM", re.IGNORECASE)
_TYPES = {
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("integer", "int", "long", "short"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
}
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)}) (?:type|value)\b", re.IGNORECASE)
_LEAST_OFFERED = 2


def offered_texts(prop: Mapping[str, Any]) -> list[str]:
    """The texts that a description names as the possible ones; empty if it names none or one."""
    description = str(prop.get("description", ""))
    found = list(dict.fromkeys(_QUOTED.findall(description)))
    return found if len(found) >= _LEAST_OFFERED and _OFFERS.search(description) else []


def formed_values(question: str, prop: Mapping[str, Any]) -> list[str]:
    """Dates and times of a question in the form that a description asks for."""
    description = str(prop.get("description", ""))
    dates, times = read_dates(question, description), read_times(question, description)
    if not asks_for_both(description):
        return dates or times
    return [f"{date} {time}" for date in dates for time in times]


def asks_for_both(description: str) -> bool:
    """True if a description asks for a date and a time in one text."""
    return bool(_DATE_AND_TIME.search(description))


def coded(prop: Mapping[str, Any]) -> dict[str, int]:
    """What the numbers of an argument stand for, if its description tells ("1 for red, 2 for blue")."""
    if prop.get("type") != "integer":
        return {}
    found = {name.strip(): int(number) for number, name in _CODE.findall(str(prop.get("description", "")))}
    return found if len(found) >= _LEAST_OFFERED else {}


def coded_values(question: str, prop: Mapping[str, Any]) -> list[int]:
    """The numbers that stand for something the question names."""
    return [number for name, number in coded(prop).items() if mentions(question, name)]


def said_type(prop: Mapping[str, Any]) -> str | None:
    """The type that the description of a text says its content has, or None: some schemas know only texts."""
    found = _TYPE.search(str(prop.get("description", ""))) if prop.get("type") == "string" else None
    return None if found is None else _TYPES[found[1].lower()]


def is_place(prop: Mapping[str, Any]) -> bool:
    """True if a description asks for a place together with its state or country ("Rome, Italy")."""
    return prop.get("type") == "string" and bool(_PLACE.search(str(prop.get("description", ""))))


def places(question: str) -> list[str]:
    """The places of a question that stand there in this form."""
    return list(dict.fromkeys(m[0].strip() for m in _ADDRESS.finditer(question)))


def is_in_states(prop: Mapping[str, Any]) -> bool:
    """True if a description shows short forms of states ("Austin, TX") and speaks of no country."""
    description = str(prop.get("description", ""))
    return bool(_SHORT.search(description)) and "ountry" not in description


def place_pattern(place: str, prop: Mapping[str, Any]) -> str:
    """A regular expression for a place with its state or country behind it, as the description asks."""
    name = "[A-Z][a-z]{2,14}( [A-Z][a-z]{2,14})?"
    is_short = _SHORT.search(str(prop.get("description", "")))
    after = "[A-Z]{2}" if is_in_states(prop) else f"([A-Z]{{2}}|{name})" if is_short else name
    return f"^{re.escape(place)}, {after}$"


def named(question: str, values: Sequence[Any]) -> list[Any]:
    """Those of the values that stand in the question."""
    return [value for value in values if mentions(question, value)]
