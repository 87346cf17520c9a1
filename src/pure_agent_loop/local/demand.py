"""What a call of a tool takes from a question, counted by kinds of values. Pure: no model, no I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.filling import wanted_arguments
from pure_agent_loop.local.marks import Kind
from pure_agent_loop.local.relevance import content_words
from pure_agent_loop.local.spans import name_words
from pure_agent_loop.local.told import said_type
from pure_agent_loop.local.turns import as_mapping

_ENDS = frozenset(
    re.findall(
        r"\w+", "from to start end origin destination source target first second a b departure arrival"
    )
)


@dataclass(frozen=True, slots=True)
class Demand:
    """How many values of each kind a call of a tool has room for.

    Args:
        needs: Those it requires.
        takes: Those it would take from this question.
        row_kinds: The kinds of which it takes a whole row as one value.
        has_object: It requires an object, into which any number of values may go.
        has_pair: Two texts it takes are alike ("city1" and "city2", "from" and "to").
    """

    needs: Mapping[Kind, int]
    takes: Mapping[Kind, int]
    row_kinds: frozenset[Kind]
    has_object: bool
    has_pair: bool


def demand_of(tool: ToolSpec, question: str) -> Demand:
    """What a tool asks of a question."""
    wanted = wanted_arguments(tool, question)
    kinds = kinds_of(tool, wanted)
    required = tool.parameters.get("required")
    needed = set(required) if isinstance(required, list) else set(tool.to_fill)
    rows = {_row_kind(as_mapping(tool.properties.get(name))) for name in wanted}
    return Demand(
        Counter(kind for name, kind in kinds.items() if kind and name in needed),
        Counter(kind for kind in kinds.values() if kind),
        frozenset(kind for kind in rows if kind),
        any(as_mapping(tool.properties.get(name)).get("type") == "object" for name in needed),
        _has_pair([name for name, kind in kinds.items() if kind == "text"]),
    )


def _has_pair(names: Sequence[str]) -> bool:
    alike = [tuple(w for w in name_words(name) if w not in _ENDS) for name in names]
    return len(set(alike)) < len(alike)


def kinds_of(tool: ToolSpec, names: Sequence[str]) -> dict[str, Kind | None]:
    """The kind of value that each of the arguments takes."""
    return {name: _kind(name, as_mapping(tool.properties.get(name))) for name in names}


def _kind(name: str, prop: Mapping[str, Any]) -> Kind | None:
    """The kind of value that an argument takes from a question; None for switches, choices and objects."""
    if "enum" in prop:
        return None
    kind = said_type(prop) or prop.get("type")
    if kind in ("integer", "number"):
        return "number"
    if kind == "array":
        return "list"
    if kind != "string":
        return None
    words = content_words(f"{name} {prop.get('description', '')}".replace("_", " "))
    return "date" if "date" in words or "dat" in words else "text"


def _row_kind(prop: Mapping[str, Any]) -> Kind | None:
    if prop.get("type") != "array":
        return None
    items = as_mapping(prop.get("items")).get("type", "string")
    return "number" if items in ("integer", "number") else "text"
