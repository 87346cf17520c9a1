"""The shape of a history: what belongs together, and what no rule may touch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pure_agent_loop.llm.messages import META, Message, is_media, text_of
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.prompts import Prompts


class Unit(NamedTuple):
    """Messages that stay or go together: a round of calls with its results, or one message.

    Args:
        tokens: About their tokens.
        fixed: No rule may change them: the leading system message, the newest message of the user.
        spoken: A message of the user, not of the framework.
    """

    messages: list[Message]
    tokens: int
    fixed: bool
    spoken: bool


def units_of(messages: Sequence[Message]) -> list[Unit]:
    """A history as units, in order."""
    newest = newest_question(messages)
    groups: list[tuple[int, list[Message]]] = []
    for index, message in enumerate(messages):
        if groups and (message["role"] == "tool" or (is_media(message) and len(groups[-1][1]) > 1)):
            groups[-1][1].append(message)
        else:
            groups.append((index, [message]))
    return [
        Unit(
            group,
            estimate(group),
            index == newest or group[0]["role"] in ("system", "developer"),
            is_spoken(group[0]),
        )
        for index, group in groups
    ]


def joined(units: Iterable[Unit]) -> list[Message]:
    """The messages of units, in order."""
    return [message for unit in units for message in unit.messages]


def estimate(messages: Iterable[Message]) -> int:
    """About the tokens of messages."""
    return sum(map(estimate_message, messages))


def is_spoken(message: Message) -> bool:
    """True for a message of the user, False for a notice in that role."""
    return message["role"] == "user" and not message.get(META, {}).get("synthetic", False)


def newest_question(messages: Sequence[Message]) -> int | None:
    """Where the newest message of the user stands."""
    return next((i for i in range(len(messages) - 1, -1, -1) if is_spoken(messages[i])), None)


def is_summary(message: Message, prompts: Prompts) -> bool:
    """True for a summary that an earlier compaction has written."""
    mine = message["role"] == "user" and not is_spoken(message)
    return mine and content_text(message).startswith(prompts.summary_head)


class MadeCall(NamedTuple):
    """A call as the history has it: the name of the tool, and its arguments as JSON text."""

    name: str
    arguments: str

    def shortened(self, limit: int = 160) -> str:
        """As one line: ``name(arguments)``."""
        text = " ".join(self.arguments.split())
        return f"{self.name}({text if len(text) <= limit else text[:limit] + '...'})"


def calls_in(messages: Iterable[Message]) -> dict[str, MadeCall]:
    """All calls by id."""
    return {
        call["id"]: MadeCall(call["function"]["name"], call["function"]["arguments"])
        for message in messages
        for call in message.get("tool_calls") or ()
    }


def content_text(message: Message) -> str:
    """The text of a message, empty for none."""
    return text_of(message.get("content") or "")


def first_line(text: str, limit: int = 120) -> str:
    """The first line with something in it, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[:limit]}..."


def strings_in(arguments: str) -> list[str]:
    """All texts among the values of a call's arguments."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return [arguments]
    return list(_strings(value))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
