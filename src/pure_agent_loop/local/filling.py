"""The arguments of a tool never seen before: which to ask for, and what each may be. No model, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.pieces import inner, pieces, quoted_texts
from pure_agent_loop.local.relevance import content_words, likeness, mentions, stem
from pure_agent_loop.local.told import (
    coded,
    coded_values,
    formed_values,
    is_place,
    named,
    offered_texts,
    places,
    said_type,
)
from pure_agent_loop.local.turns import as_mapping
from pure_agent_loop.local.values import (
    Number,
    fitting_numbers,
    number_rows,
    raw_dates,
    read_dates,
    read_months,
    read_numbers,
    read_times,
    read_years,
    without_dates,
    without_lists,
    without_times,
    written_lists,
)

_NUMBERS = ("integer", "number")
_MOST_ASSIGNED = 6
_NEAR, _NAME_WEIGHT, _ORDER_WEIGHT, _CLEAR, _AFTER = 12.0, 2.0, 0.4, 0.5, 0.7
_IN_ORDER, _CANNOT = 0.5, -5.0
_SWITCH_WORDS = frozenset({"include", "includ", "is", "has", "get", "show", "with", "want", "return"})
_REFUSAL = re.compile(r"\b(?:no|not|without|don't|never|exclude|excluding|except)\b", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!\w)['\"]([^'\"]+)['\"]")
_LEFT_OUT = ("description", "default", "title", "examples")


def tidied(tool: ToolSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the tool's types want them: with a point in numbers, no text twice in a list."""
    return {name: _tidied(value, as_mapping(tool.properties.get(name))) for name, value in values.items()}


def _tidied(value: Any, prop: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        items = as_mapping(prop.get("items"))
        unique = list(dict.fromkeys(value)) if value and all(isinstance(v, str) for v in value) else value
        return [_tidied(v, items) for v in unique]
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and prop.get("type") == "number" else value


def without_doubles(
    tool: ToolSpec, properties: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]
) -> dict[str, dict[str, Any]] | None:
    """Schemas for a second try where one piece was taken for two texts; None if there is nothing to mend."""
    used: set[str] = set()
    mended: dict[str, dict[str, Any]] = {}
    changed = False
    for name, prop in properties.items():
        value, allowed = values.get(name), prop.get("enum", ())
        mended[name] = dict(prop)
        if not isinstance(value, str) or "enum" in as_mapping(tool.properties[name]):
            continue
        others = [v for v in allowed if v not in used]
        if value in used and others:
            mended[name], changed = {"enum": others}, True
        elif not changed:
            mended[name] = {"enum": [value]}
        used.add(value)
    return mended if changed else None


def narrow(tool: ToolSpec, question: str) -> dict[str, dict[str, Any]]:
    """The schemas of the arguments to ask for, held to what the question has."""
    names = wanted_arguments(tool, question)
    properties = {n: _narrowed(n, as_mapping(tool.properties[n]), question) for n in names}
    several = [n for n in names if is_place(as_mapping(tool.properties[n]))]
    return {
        **properties,
        **_places(several, question),
        **_assigned_texts(tool, names, question),
        **_assigned_lists(tool, names, question),
        **_assigned_numbers(tool, names, question),
    }


def _places(names: Sequence[str], question: str) -> dict[str, dict[str, Any]]:
    """Where several places are wanted, also those that stand there without their state or country."""
    found = places(question)
    if not found or len(names) <= len(found):
        return {}
    rest = [p for p in pieces(without_dates(question)) if p[:1].isupper() and not any(p in f for f in found)]
    return {name: {"enum": [*found, *rest]} for name in names}


def wanted_arguments(tool: ToolSpec, question: str) -> list[str]:
    """The required arguments, and of the others those the question seems to speak of."""
    required = tool.parameters.get("required")
    needed = set(required) if isinstance(required, list) else set(tool.to_fill)
    numeric = [n for n in needed if as_mapping(tool.properties.get(n)).get("type") in _NUMBERS]
    spare = len(_numbers_for(tool, question, 1)) > len(numeric)
    return [
        name
        for name, prop in tool.properties.items()
        if name in needed or spoken_of(name, as_mapping(prop), question, spare)
    ]


def spoken_of(name: str, prop: Mapping[str, Any], question: str, spare_number: bool) -> bool:
    """True if an optional argument has something in the question to take its value from."""
    enum = prop.get("enum") or as_mapping(prop.get("items")).get("enum")
    if _is_switch(prop):
        return all(likeness(w, _stems(question)) for w in _subject(name) or ("?",))
    if enum and prop.get("type") not in _NUMBERS:
        return bool(named(question, enum))
    if prop.get("type") in _NUMBERS:
        if coded(prop):
            return bool(coded_values(question, prop))
        if "year" in (*_stems(name), name) and read_years(question):
            return True
        description = str(prop.get("description", "")).split(".")[0]
        about = (*content_words(name), *content_words(description))
        return spare_number and any(likeness(w, content_words(question)) for w in about)
    if formed_values(question, prop) or named(question, _QUOTED.findall(str(prop.get("description", "")))):
        return True
    said = _stems(question)
    return all(likeness(w, said) for w in _subject(name) or ("?",))


def _subject(name: str) -> list[str]:
    """The words of an argument's name without those that only say that something is wanted."""
    words = _stems(name)
    return [w for w in words if w not in _SWITCH_WORDS] or words


def _stems(text: str) -> list[str]:
    return [stem(w) for w in re.findall(r"[A-Za-z]+", text)]


def _narrowed(name: str, prop: Mapping[str, Any], question: str) -> dict[str, Any]:
    kind = prop.get("type")
    if isinstance(prop.get("enum"), list) and prop["enum"]:
        return {"enum": _of_choices(name, prop, question)}
    if kind in _NUMBERS:
        return _narrowed_number(name, prop, question)
    if kind == "boolean" and _spoken_for(name, question):
        return {"enum": [True]}
    if kind == "array":
        return _narrowed_list(prop, question)
    return _narrowed_text(name, prop, question) if kind == "string" and "const" not in prop else _bare(prop)


def _narrowed_number(name: str, prop: Mapping[str, Any], question: str) -> dict[str, Any]:
    words = (name, *_stems(name))
    values: list[int | float] = [*coded_values(question, prop)]
    if not values and prop.get("type") == "integer" and "month" in words:
        values = [*read_months(question)]
    if not values and prop.get("type") == "integer" and name == "year":
        values = [*read_years(question)]
    values = values or fitting_numbers(without_lists(question), prop) or fitting_numbers(question, prop)
    return {"enum": values} if values else {"type": prop["type"]}


def _narrowed_text(name: str, prop: Mapping[str, Any], question: str) -> dict[str, Any]:
    kind = said_type(prop)
    if kind == "boolean":
        return {"enum": ["true"] if _spoken_for(name, question) else ["true", "false"]}
    if kind and read_numbers(question):
        values = fitting_numbers(question, {**prop, "type": kind})
        return {"enum": [str(value) for value in values]} if values else _bare(prop)
    found = formed_values(question, prop) or (raw_dates(question) if "date" in _stems(name) else [])
    found = found or named(question, offered_texts(prop)) or (places(question) if is_place(prop) else [])
    found = found or pieces(without_dates(question))
    allowed = [v for v in found if "pattern" not in prop or _matches(str(prop["pattern"]), v)]
    return {"enum": allowed} if allowed else _bare(prop)


def _is_switch(prop: Mapping[str, Any]) -> bool:
    """True for a choice between yes and no that is written as texts."""
    values = {str(v).lower() for v in prop.get("enum") or ()}
    return prop.get("type") == "string" and {"true", "false"} <= values


def _of_choices(name: str, prop: Mapping[str, Any], question: str) -> list[Any]:
    """The values of an enum that a question leaves."""
    values: list[Any] = prop["enum"]
    if _is_switch(prop) and _spoken_for(name, question):
        return [v for v in values if str(v).lower() == "true"]
    if prop.get("type") in _NUMBERS:
        return [v for v in fitting_numbers(question, prop) if v in values] or values
    return named(question, values) or values


def _spoken_for(name: str, question: str) -> bool:
    """True if a question names what a switch stands for, and does not say no to anything."""
    words = _subject(name)
    named = bool(words) and all(likeness(w, _stems(question)) for w in words)
    return named and not _REFUSAL.search(question)


def _bare(prop: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in prop.items() if k not in _LEFT_OUT}


def _matches(pattern: str, text: str) -> bool:
    try:
        return bool(re.search(pattern, text))
    except re.error:
        return True


def _narrowed_list(prop: Mapping[str, Any], question: str) -> dict[str, Any]:
    items = as_mapping(prop.get("items"))
    kind = items.get("type", "string")
    found = [value for value in written_lists(question) if value and all(_is_a(kind, v) for v in value)]
    rows = number_rows(question) if kind in _NUMBERS else []
    if found or rows:
        return {"enum": found or rows}
    item = _narrowed("", items or {"type": "string"}, question)
    most = max(1, len(item["enum"])) if kind in _NUMBERS and "enum" in item else 4
    return {"type": "array", "items": item, "minItems": 1, "maxItems": min(most, 8)}


def _is_a(kind: Any, value: Any) -> bool:
    if kind in _NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(str(kind), object))


def _assigned_lists(tool: ToolSpec, names: Sequence[str], question: str) -> dict[str, dict[str, Any]]:
    """Lists of numbers in the order of the question, if there are as many as arguments for them."""
    items = {n: as_mapping(as_mapping(tool.properties[n]).get("items")) for n in names}
    wanted = [n for n in names if items[n].get("type") in _NUMBERS]
    written = [x for x in written_lists(question) if x and all(_is_a("number", v) for v in x)]
    rows = written or number_rows(question)
    return (
        {n: {"enum": [row]} for n, row in zip(wanted, rows, strict=True)} if len(wanted) == len(rows) else {}
    )


def _numbers_for(tool: ToolSpec, question: str, wanted: int) -> list[Number]:
    """The numbers for single arguments: not those of lists and dates; as words only if needed."""
    props = [as_mapping(p) for p in tool.properties.values()]
    if any(p.get("type") == "array" for p in props):
        question = without_lists(question)
    if any(read_dates(question, str(p.get("description", ""))) for p in props if p.get("type") == "string"):
        question = without_dates(question)
    if any(read_times(question, str(p.get("description", ""))) for p in props if p.get("type") == "string"):
        question = without_times(question)
    found = read_numbers(question)
    digits = [n for n in found if not n.word]
    return digits if len(digits) >= wanted else found


def _assigned_numbers(tool: ToolSpec, names: Sequence[str], question: str) -> dict[str, dict[str, Any]]:
    """Each number for one argument: the nearest by its words, else in the order of the question."""
    wanted = [n for n in names if as_mapping(tool.properties[n]).get("type") in _NUMBERS]
    found = _numbers_for(tool, question, len(wanted))
    if not 1 < len(wanted) <= len(found) <= _MOST_ASSIGNED:
        return {}
    props = {n: as_mapping(tool.properties[n]) for n in wanted}
    near = {(n, i): _nearness(n, props[n], x, question) for n in wanted for i, x in enumerate(found)}

    def total(order: tuple[int, ...]) -> float:
        in_order = len(found) == len(wanted) and list(order) == sorted(order)
        rising = sum(a < b for a, b in pairwise(order))
        nearness = sum(near[n, i] for n, i in zip(wanted, order, strict=True))
        return nearness + _ORDER_WEIGHT * rising + _IN_ORDER * in_order

    best = max(permutations(range(len(found)), len(wanted)), key=total)
    if len(found) > len(wanted) and min(near[n, i] for n, i in zip(wanted, best, strict=True)) < _CLEAR:
        return {}
    values = {n: _value(found[i], props[n]) for n, i in zip(wanted, best, strict=True)}
    return {n: {"enum": [v]} for n, v in values.items() if v is not None}


def _value(number: Number, prop: Mapping[str, Any]) -> int | float | None:
    """The number as an argument wants it, or None if it cannot be one."""
    fitting = fitting_numbers(number.text, prop)
    return fitting[0] if fitting else None


def _nearness(name: str, prop: Mapping[str, Any], number: Number, question: str) -> float:
    """How near the words of an argument stand to a number."""
    if _value(number, prop) is None:
        return _CANNOT
    return _closeness(name, prop, number.start, number.end, question)


def _closeness(name: str, prop: Mapping[str, Any], start: int, end: int, question: str) -> float:
    """How near the words of an argument stand to a place in the question, with no other value between."""
    named, told = _stems(name), content_words(str(prop.get("description", "")).split(".")[0])
    best = 0.0
    for word in re.finditer(r"[A-Za-z]+", question):
        if start <= word.start() < end:
            continue
        weight = _NAME_WEIGHT * likeness(stem(word[0]), named) or likeness(stem(word[0]), told)
        before = word.start() < start
        between = question[word.end() : start] if before else question[end : word.start()]
        if re.search(r"\d|['\"`]\w", between):
            continue
        gap = len(between)
        best = max(best, weight * (1.0 if before else _AFTER) * _NEAR / (_NEAR + gap))
    return best


def _assigned_texts(tool: ToolSpec, names: Sequence[str], question: str) -> dict[str, dict[str, Any]]:
    """What is quoted in the question, for the arguments whose words stand nearest."""
    props = {n: as_mapping(tool.properties[n]) for n in names}
    wanted = [n for n in names if _is_free_text(props[n], question)]
    found = [q for q in quoted_texts(question) if not _is_offered(inner(q), tool)]
    if not 1 <= len(wanted) <= len(found) <= _MOST_ASSIGNED:
        return {}
    spans = [(quoted.start(), quoted.end()) for quoted in found]
    near = {(n, i): _closeness(n, props[n], *span, question) for n in wanted for i, span in enumerate(spans)}
    best = max(
        permutations(range(len(found)), len(wanted)),
        key=lambda order: sum(near[n, i] for n, i in zip(wanted, order, strict=True)),
    )
    least = min(near[n, i] for n, i in zip(wanted, best, strict=True))
    if least < _CLEAR and not (least and len(found) == 1):
        return {}
    return {n: {"enum": [inner(found[i])]} for n, i in zip(wanted, best, strict=True)}


def _is_offered(text: str, tool: ToolSpec) -> bool:
    """True if a text is one of the values of an enum of the tool."""
    enums = [as_mapping(p).get("enum") or () for p in tool.properties.values()]
    return any(mentions(text, value) for values in enums for value in values)


def _is_free_text(prop: Mapping[str, Any], question: str) -> bool:
    """True for a text that neither the schema nor the description narrows."""
    if prop.get("type") != "string" or {"enum", "const", "pattern"} & set(prop):
        return False
    by_description = said_type(prop) or formed_values(question, prop) or named(question, offered_texts(prop))
    return not by_description and not (is_place(prop) and places(question))
