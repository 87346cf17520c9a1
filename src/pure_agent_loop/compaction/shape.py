"""The structure of a history: messages that belong together, and those that must not change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pure_agent_loop.llm.messages import META, calls_of, is_media, text_of
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.prompts import Prompts

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage


class MessageGroup(NamedTuple):
    """Messages that are kept or removed together: calls with their results, or a single message.

    Args:
        tokens: Estimated tokens.
        fixed: True for messages that must not change: the leading system message and the user's newest
            message.
        spoken: True for messages written by the user, not by the framework.
    """

    messages: list[HistoryMessage]
    tokens: int
    fixed: bool
    spoken: bool


def units_of(messages: Sequence[HistoryMessage]) -> list[MessageGroup]:
    """Split a history into units, in order."""
    newest = newest_question(messages)
    groups: list[tuple[int, list[HistoryMessage]]] = []
    for index, message in enumerate(messages):
        if groups and (message["role"] == "tool" or (is_media(message) and len(groups[-1][1]) > 1)):
            groups[-1][1].append(message)
        else:
            groups.append((index, [message]))
    return [
        MessageGroup(
            group,
            estimate(group),
            index == newest or group[0]["role"] in ("system", "developer"),
            is_spoken(group[0]),
        )
        for index, group in groups
    ]


def joined(units: Iterable[MessageGroup]) -> list[HistoryMessage]:
    """Return the messages of units, in order."""
    return [message for unit in units for message in unit.messages]


def estimate(messages: Iterable[HistoryMessage]) -> int:
    """Estimate the tokens of messages."""
    return sum(map(estimate_message, messages))


def is_spoken(message: HistoryMessage) -> bool:
    """True for a message from the user, False for a notice with the role ``user``."""
    return message["role"] == "user" and not message.get(META, {}).get("synthetic", False)


def newest_question(messages: Sequence[HistoryMessage]) -> int | None:
    """Return the index of the user's newest message."""
    return next((i for i in range(len(messages) - 1, -1, -1) if is_spoken(messages[i])), None)


def is_summary(message: HistoryMessage, prompts: Prompts) -> bool:
    """True for a summary by an earlier compaction."""
    is_generated = message["role"] == "user" and not is_spoken(message)
    return is_generated and content_text(message).startswith(prompts.summary_head)


class CompletedCall(NamedTuple):
    """A call in the history: tool name, and arguments as JSON text."""

    name: str
    arguments: str

    def shortened(self, limit: int = 160) -> str:
        """Return the call as one line: ``name(arguments)``."""
        text = " ".join(self.arguments.split())
        return f"{self.name}({text if len(text) <= limit else text[:limit] + '...'})"


def calls_in(messages: Iterable[HistoryMessage]) -> dict[str, CompletedCall]:
    """Return all calls, by id."""
    return {
        call["id"]: CompletedCall(call["function"]["name"], call["function"]["arguments"])
        for message in messages
        for call in calls_of(message)
    }


def content_text(message: HistoryMessage) -> str:
    """Return the text of a message; empty if it has none."""
    return text_of(message.get("content") or "")


def first_line(text: str, limit: int = 120) -> str:
    """Return the first non-blank line, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[:limit]}..."
