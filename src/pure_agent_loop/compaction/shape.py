"""The structure of a history: messages that belong together, and those that must not change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pure_agent_loop.compaction.cost import choose_cut, cut_at, rates_of
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.long_results import result_file_in
from pure_agent_loop.kernel.request import fixed_tokens, measure
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import META, calls_of, is_media, text_of
from pure_agent_loop.llm.tokens import Boundary, estimate_message, estimate_tokens
from pure_agent_loop.prompts import Prompts

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

_LONGEST = 500  # longer values are contents, not names
_URL = r"https?://[^\s\"'<>|]+"
_PATH = r"(?:[A-Za-z]:)?[~.]{0,2}[/\\]?[\w.@+-]+(?:[/\\][\w.@+-]+)+"
_FILE = r"[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,7}\b"
_NAMES = re.compile(f"{_URL}|{_PATH}|{_FILE}")


class MessageGroup(NamedTuple):
    """Messages kept or removed together: calls with their results, or one message.

    Args:
        tokens: Estimated tokens.
        fixed: Must not change: the leading system message, the user's newest message.
        spoken: Written by the user, not by the framework.
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
    """True for a message of the user, False for a notice in that role."""
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
    """Return the text of a message; empty for none."""
    return text_of(message.get("content") or "")


def first_line(text: str, limit: int = 120) -> str:
    """Return the first non-blank line, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[:limit]}..."


def strings_in(arguments: str) -> list[str]:
    """Return all strings in a call's arguments."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return [arguments]
    return list(_strings(value))


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


# -- replace the history by a shorter one and emit the event ---------------------------------------------


async def take_over(
    rung: str,
    messages: list[HistoryMessage],
    state: QueryState,
    kit: Kit,
    limit: int = 0,
    *,
    chooses: bool = False,
) -> bool:
    """Replace the history by a shorter one.

    Args:
        limit: Tokens that the request may have; the current ones if 0.
        chooses: Whether only the end of the history may be replaced, from where that costs least.

    Returns:
        False if it would not be shorter, or not worth its cost; the history is then unchanged.
    """
    fixed, before = fixed_tokens(state, kit), measure(state, kit).tokens
    sizes, new_sizes = [*map(estimate_message, state.messages)], [*map(estimate_message, messages)]
    old = fixed + sum(sizes)
    room = int((limit or before) * old / max(1, before)) - fixed  # in estimated tokens
    rounds = sum(message["role"] == "assistant" for message in state.messages)
    rates = rates_of(state.usage, kit.price())
    if chooses:
        cut = choose_cut(sizes, new_sizes, room, rounds, rates)
        if cut is None:
            return False
        messages = [*state.messages[: cut.start], *messages[cut.start :]]
        new_sizes = [*sizes[: cut.start], *new_sizes[cut.start :]]
    else:
        pairs = enumerate(zip(state.messages, messages, strict=False))
        start = next((at for at, (was, now) in pairs if was != now), min(len(sizes), len(new_sizes)))
        cut = cut_at(start, sizes, new_sizes, room, rounds, rates)
    new = fixed + sum(new_sizes)
    after = before * new // max(1, old)  # scale the server's count by the estimates; never mix the two
    if new >= old or after >= before:
        return False
    counts = (len(state.messages), len(messages))
    boundary = Boundary(
        rung=rung,
        step=state.step,
        tokens_before=before,
        tokens_after=after,
        messages_before=counts[0],
        messages_after=counts[1],
    )
    state.replace_messages(messages, boundary)
    worth = (round(cut.cost), round(cut.saving))
    await kit.emit(Event.compaction(state.step, rung, (before, after), counts, worth))
    return True


# -- the record of a summary, made without a model: files, tools, and the start of each result -----------


@dataclass(slots=True)
class HistoryFacts:
    """Facts of a part of the history, in order, without duplicates.

    Args:
        calls: A line per call: the call, and the start of its result.
    """

    files: dict[str, None] = field(default_factory=dict)
    tools: dict[str, None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def write(self, tokens: int, prompts: Prompts) -> str:
        """Return the record as text; if not all calls fit, the first and last ones."""
        files = _ends(list(self.files), tokens // 2)
        parts = [
            f"{prompts.summary_files} {', '.join(files)}" if files else "",
            f"{prompts.summary_tools} {', '.join(self.tools)}" if self.tools else "",
        ]
        left = tokens - sum(map(estimate_tokens, parts))
        lines = _ends(self.calls, left)
        if lines:
            parts += ["\n".join([prompts.summary_calls, *lines])]
        return "\n".join(part for part in parts if part)


def collect(messages: Sequence[HistoryMessage], prompts: Prompts) -> HistoryFacts:
    """Return the record of messages, including that of an earlier summary."""
    record, calls = HistoryFacts(), calls_in(messages)
    for message in messages:
        text = content_text(message)
        if message["role"] == "user" and not is_spoken(message):
            _take_over(text, record, prompts)
        for call in calls_of(message):
            call_made = calls[call["id"]]
            record.tools[call_made.name] = None
            record.files.update(dict.fromkeys(_names_in(strings_in(call_made.arguments))))
        if message["role"] == "tool" and message["tool_call_id"] in calls:
            record.calls.append(_line(calls[message["tool_call_id"]], text, prompts))
    return record


def _line(call: CompletedCall, text: str, prompts: Prompts) -> str:
    kept = result_file_in(text)
    reference = f' ... read_result(id="{kept}")' if kept else ""
    return f"- {call.shortened(100)} -> {first_line(_began(text, prompts), 80)}{reference}"


def _ends(lines: list[str], tokens: int) -> list[str]:
    """Return the lines that fit; a third of the room is for the oldest, which are rarely repeated."""
    sizes = [estimate_tokens(line) + 1 for line in lines]
    if sum(sizes) <= tokens:
        return lines
    head = _count(sizes, tokens // 3)
    tail = _count(list(reversed(sizes[head:])), tokens - sum(sizes[:head]))
    return [*lines[:head], *lines[len(lines) - tail :]]


def _count(sizes: list[int], tokens: int) -> int:
    """Return how many of the first lines fit."""
    return sum(total <= tokens for total in accumulate(sizes))


def _names_in(texts: Iterable[str]) -> list[str]:
    return [name for text in texts if len(text) <= _LONGEST for name in _NAMES.findall(text)]


def _began(text: str, prompts: Prompts) -> str:
    """Return the start of a result, even if only its record is left."""
    if not text.startswith(prompts.pruned_result.partition("{")[0]):
        return text
    before = prompts.pruned_result.partition("{how}")[2].partition("{title}")[0]
    return text.partition(before)[2].rstrip("]】") or text


def _take_over(text: str, record: HistoryFacts, prompts: Prompts) -> None:
    in_calls = False
    for line in text.splitlines():
        if line.startswith(prompts.summary_files):
            names = line.removeprefix(prompts.summary_files).strip().split(", ")
            record.files.update(dict.fromkeys(filter(None, names)))
        elif line.startswith(prompts.summary_tools):
            names = line.removeprefix(prompts.summary_tools).strip().split(", ")
            record.tools.update(dict.fromkeys(filter(None, names)))
        elif line.startswith(prompts.summary_calls):
            in_calls = True
        elif in_calls and line.startswith("- "):
            record.calls.append(line)
