"""What must survive a bad summary, collected without a model: files, tools, and how each result began."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pure_agent_loop.compaction.shape import (
    MadeCall,
    calls_in,
    content_text,
    first_line,
    is_spoken,
    strings_in,
)
from pure_agent_loop.kernel.tools.long_results import mentioned
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.tokens import estimate_tokens
from pure_agent_loop.prompts import Prompts

_LONGEST = 500  # longer values are contents, not names
_URL = r"https?://[^\s\"'<>|]+"
_PATH = r"(?:[A-Za-z]:)?[~.]{0,2}[/\\]?[\w.@+-]+(?:[/\\][\w.@+-]+)+"
_FILE = r"[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,7}\b"
_NAMES = re.compile(f"{_URL}|{_PATH}|{_FILE}")


@dataclass(slots=True)
class Record:
    """The facts of a stretch of history, each once and in order.

    Args:
        files: Paths and addresses in the calls' arguments.
        tools: Names of the tools.
        calls: A line for each call: what was asked, and how the result began.
    """

    files: dict[str, None] = field(default_factory=dict)
    tools: dict[str, None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def write(self, tokens: int, prompts: Prompts) -> str:
        """As text of about so many tokens: where not all calls fit, the first and the last of them."""
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


def collect(messages: Sequence[Message], prompts: Prompts) -> Record:
    """The record of some messages; what an earlier summary had recorded is taken over."""
    record, calls = Record(), calls_in(messages)
    for message in messages:
        text = content_text(message)
        if message["role"] == "user" and not is_spoken(message):
            _take_over(text, record, prompts)
        for call in message.get("tool_calls") or ():
            made = calls[call["id"]]
            record.tools[made.name] = None
            record.files.update(dict.fromkeys(_names_in(strings_in(made.arguments))))
        if message["role"] == "tool" and message["tool_call_id"] in calls:
            record.calls.append(_line(calls[message["tool_call_id"]], text, prompts))
    return record


def _line(call: MadeCall, text: str, prompts: Prompts) -> str:
    kept = mentioned(text)
    more = f' ... read_result(id="{kept}")' if kept else ""
    return f"- {call.shortened(100)} -> {first_line(_began(text, prompts), 80)}{more}"


def _ends(lines: list[str], tokens: int) -> list[str]:
    """As many lines as fit, a third of the room for the oldest: what a task began with is rarely repeated."""
    sizes = [estimate_tokens(line) + 1 for line in lines]
    if sum(sizes) <= tokens:
        return lines
    head = _count(sizes, tokens // 3)
    tail = _count(list(reversed(sizes[head:])), tokens - sum(sizes[:head]))
    return [*lines[:head], *lines[len(lines) - tail :]]


def _count(sizes: list[int], tokens: int) -> int:
    """How many of the first fit."""
    return sum(total <= tokens for total in accumulate(sizes))


def _names_in(texts: Iterable[str]) -> list[str]:
    return [name for text in texts if len(text) <= _LONGEST for name in _NAMES.findall(text)]


def _began(text: str, prompts: Prompts) -> str:
    """How a result began, also if only its record is left."""
    if not text.startswith(prompts.pruned_result.partition("{")[0]):
        return text
    before = prompts.pruned_result.partition("{how}")[2].partition("{title}")[0]
    return text.partition(before)[2].rstrip("]】") or text


def _take_over(text: str, record: Record, prompts: Prompts) -> None:
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
