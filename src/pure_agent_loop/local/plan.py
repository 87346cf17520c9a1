"""The calls that a question orders one after another: "read F, then replace X with Y in it". Pure: no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.masks import FILE, masked
from pure_agent_loop.local.orders import Order, order_in
from pure_agent_loop.local.roles import Deed, Role, role_of, roles_of

MOST_STEPS = 10
_LONGEST = 2000  # characters besides what is quoted
_VERBS = (
    "read|open|show|list|replace|change|edit|update|create|write|save|search|find|run|execute|fetch|tell|"
    "substitute|swap|remove|delete|turn|rename|print|display|look|grep|fix|correct|put|modify"
)
_THEN = r"(?:then|afterwards|after that|finally|next|lastly|second(?:ly)?|third(?:ly)?|also)"
_BREAK = re.compile(
    rf"(?:[.;!?]|,)?\s+(?:and\s+)?{_THEN},?\s+|[.;!?]\s+|,?\s+and\s+(?=(?:{_VERBS})\b)|,\s+(?=(?:{_VERBS})\b)"
    r"|[,，。；;]?\s*(?:然后|接着|随后|之后|最后)\s*|[,，。；;]\s*(?:再|并且|并)\s*|[。；]\s*|，(?=[把将读打列替])",
    re.IGNORECASE,
)
_PLACE = re.compile(rf"(?:in|inside|within)\s+(?:the\s+file\s+)?({FILE})\s*", re.IGNORECASE)
_CHANGES: frozenset[Deed] = frozenset(("edit", "write", "run"))
# Asked whether or how, or told not to: nothing is to be changed.
_NOT_ORDERED = re.compile(
    r"^\W*(?:how|should|why|when|explain|is|are|did|does|was|were|what\s+(?:if|happens|would))\b|\bhow\s+to\b"
    r"|\b(?:not|never|without|avoid)\b|n't\b|如何|怎么|怎样|为什么|应该|不要|别|是否",
    re.IGNORECASE,
)
_FIRST = re.compile(r"^\s*(?:first(?:ly)?,?\s+|please,?\s+|首先|先|请)+", re.IGNORECASE)
_PATHS: frozenset[Deed] = frozenset(("edit", "write", "read"))
# Deeds so clear in their build that one of them alone is a plan; reading and listing are left to the votes.
_CLEAR: frozenset[Deed] = frozenset(("run", "fetch", "edit", "write", "search", "find"))


@dataclass(frozen=True, slots=True)
class Step:
    """A call to make.

    Args:
        tool: What is called.
        arguments: With what.
    """

    tool: ToolSpec
    arguments: dict[str, Any]


def plan_for(question: str, tools: Sequence[ToolSpec], path: str | None = None) -> list[Step]:
    """The calls a question orders by its build, in their order; empty if that does not say it.

    Args:
        question: What the user asked.
        tools: Those it may call.
        path: The file that was spoken of before, for a question about "it".
    """
    roles = roles_of(tools)
    if not _CLEAR & roles.keys() and not {"read", "list"} <= roles.keys():
        return []
    orders = _orders(question, path)
    steps = [_step(order, roles) for order in orders]
    found = [step for step in steps if step is not None]
    is_clear = len(orders) > 1 or any(order.deed in _CLEAR for order in orders)
    return found if len(found) == len(steps) <= MOST_STEPS and is_clear else []


def names_files(question: str) -> bool:
    """True if a question orders something to be done with files, whatever tools there are for it."""
    return bool(_orders(question, None))


def without_orders(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools that are not called by an order; nothing is changed or run because a few words are alike."""
    return [tool for tool in tools if role_of(tool) is None]


def file_before(calls: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec]) -> str | None:
    """The file that the last of some calls was about, for a question that says "it"."""
    names = {role.slots["path"] for role in roles_of(tools).values() if role.deed in _PATHS}
    paths = [value for call in calls for name, value in call.items() if name in names]
    return str(paths[-1]) if paths else None


def _orders(question: str, path: str | None) -> list[Order]:
    """The orders of a question, each with the file it speaks of."""
    hidden = masked(question)
    if len(hidden.text) > _LONGEST:
        return []
    parts = [_FIRST.sub("", part) for part in _BREAK.split(hidden.text) if part and part.strip()]
    found: list[Order] = []
    for part in parts:
        order = order_in(hidden, part)
        if order is None:
            place = _PLACE.fullmatch(part)
            path = hidden.plain(place[1]) if place else path
            continue
        if order.deed in _CHANGES and _NOT_ORDERED.search(part):
            return []
        values = order.values
        if order.deed in _PATHS:
            path = str(values.get("path") or path or "")
            if not path:
                return []
            values = {**values, "path": path}
        if not found or found[-1] != Order(order.deed, values):
            found.append(Order(order.deed, values))
    return found


def _step(order: Order, roles: Mapping[Deed, Role]) -> Step | None:
    role = roles.get(order.deed)
    return None if role is None else Step(role.tool, role.arguments(order.values))
