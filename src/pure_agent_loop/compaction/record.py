"""Record of part of the history, made without a model: files, tools, and the start of each result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from pure_agent_loop.compaction.shape import CompletedCall, calls_in, content_text, first_line, is_spoken
from pure_agent_loop.kernel.long_results import result_file_in
from pure_agent_loop.llm.messages import calls_of
from pure_agent_loop.llm.tokens import estimate_tokens
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.parsing import json_or_text

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

_LONGEST = 500  # characters; a longer string is content, not a name
_URL = r"https?://[^\s\"'<>|]+"
_PATH = r"(?:[A-Za-z]:)?[~.]{0,2}[/\\]?[\w.@+-]+(?:[/\\][\w.@+-]+)+"
_FILE = r"[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,7}\b"
_NAMES = re.compile(f"{_URL}|{_PATH}|{_FILE}")


def strings_in(arguments: str) -> list[str]:
    """Return all strings in a call's arguments."""
    return list(_strings(json_or_text(arguments)))


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


@dataclass(slots=True)
class HistoryFacts:
    """Facts from part of the history, in order. Files and tools have no duplicates.

    Args:
        calls: One line per call: the call and the start of the result.
    """

    files: dict[str, None] = field(default_factory=dict)
    tools: dict[str, None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def write(self, tokens: int, prompts: Prompts) -> str:
        """Return the record as text. If not all files or calls fit, keep the first and last ones."""
        files = _ends(list(self.files), tokens // 2)
        parts = [
            f"{prompts.summary_files} {', '.join(files)}" if files else "",
            f"{prompts.summary_tools} {', '.join(self.tools)}" if self.tools else "",
        ]
        left = tokens - sum(map(estimate_tokens, parts))
        if lines := _ends(self.calls, left):
            parts += ["\n".join([prompts.summary_calls, *lines])]
        return "\n".join(part for part in parts if part)


def collect(messages: Sequence[HistoryMessage], prompts: Prompts) -> HistoryFacts:
    """Return the record of messages, including the record of an earlier summary."""
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
    """Return the lines that fit; a third of the room is for the oldest, which later text rarely repeats."""
    sizes = [estimate_tokens(line) + 1 for line in lines]
    if sum(sizes) <= tokens:
        return lines
    head = _count(sizes, tokens // 3)
    tail = _count(list(reversed(sizes[head:])), tokens - sum(sizes[:head]))
    return [*lines[:head], *lines[len(lines) - tail :]]


def _count(sizes: list[int], tokens: int) -> int:
    """Return the number of lines from the start that fit."""
    return sum(total <= tokens for total in accumulate(sizes))


def _names_in(texts: Iterable[str]) -> list[str]:
    return [name for text in texts if len(text) <= _LONGEST for name in _NAMES.findall(text)]


def _began(text: str, prompts: Prompts) -> str:
    """Return the start of a result, even if only a record of the result is left."""
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
