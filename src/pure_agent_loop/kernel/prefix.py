"""Prompt prefix: where a request first differs from the previous one, and which code changed it.

A server reads a prompt from its cache up to the first difference, in the order tools, system prompt,
messages. Code that changes data that has already been sent puts its own name into `QueryState.rewritten`, so
that the cause of a difference need not be guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pure_agent_loop.llm.messages import SYSTEM_ROLES
from pure_agent_loop.support.language import TranslatedText, notice
from pure_agent_loop.support.text import PlainForm

# Parts of a request, in the order in which a cache reads them.
PARTS = ("model", "tools", "system", "messages")
PROGRAM, CLIENT = "program", "client"  # writers that are not named in `QueryState.rewritten`
WRITERS = ("system_function", "toolsets", "read_result", "compaction", "handoff", CLIENT)
CONTEXT = 40  # characters shown before and after a difference
_SYSTEM = ("system", "instructions", "systemInstruction")
_MESSAGES = ("messages", "input", "contents")


@dataclass(frozen=True, slots=True)
class PrefixChange(PlainForm):
    """First difference between a request and the previous one.

    Args:
        part: One of `PARTS`.
        index: Number of the entry in its part, from 0.
        offset: Number of equal characters at the beginning of the entry's JSON.
        kept: Number of characters in the previous request before the difference.
        total: Number of characters in the previous request.
        before: Excerpt of the previous request, from shortly before the difference; empty if that request
            ends there.
        after: Excerpt of this request at the same position.
        writer: Code that made the change: a name in `QueryState.rewritten`, ``program`` for the caller's
            messages, prompt or tools, ``client`` for the client's tool mode or what the client has learned
            about the server.
    """

    part: str
    index: int
    offset: int
    kept: int
    total: int
    before: str
    after: str
    writer: str

    def words(self) -> TranslatedText:
        """Return the change as a sentence for people."""
        writer, _, rung = self.writer.partition(":")
        writer = writer if writer in WRITERS else PROGRAM  # a record from another version may differ
        return notice(
            "library.prefix_changed",
            place=f"{self.part}[{self.index}]",
            writer=notice(f"library.prefix_by_{writer}", rung=rung, part=self.part),
            **{name: getattr(self, name) for name in ("offset", "before", "after")},
            share=100 * self.kept // max(1, self.total),
        )


Entries: TypeAlias = "dict[str, list[str]]"
Outgoing: TypeAlias = "tuple[list[dict[str, Any]], list[dict[str, Any]] | None, dict[str, Any]]"


def entries_of(body: Mapping[str, Any]) -> Entries:
    """Return the parts of a request body (of any protocol) as JSON texts without cache marks."""
    messages = next((body[name] for name in _MESSAGES if body.get(name)), ())
    system: Any = next((body[name] for name in _SYSTEM if body.get(name)), [])
    if messages and isinstance(messages, list) and not system and messages[0].get("role") in SYSTEM_ROLES:
        system, messages = messages[:1], messages[1:]
    parts = (
        [str(body.get("model") or "")],
        body.get("tools") or [],
        system if isinstance(system, list) else [system],
        messages if isinstance(messages, list) else [messages],
    )
    return {
        name: [json.dumps(_unmarked(entry), ensure_ascii=False, default=str) for entry in part]
        for name, part in zip(PARTS, parts, strict=True)
    }


def first_change(
    before: Entries, after: Entries, writers: Mapping[str, str], redact: Callable[[str], str] = str
) -> PrefixChange | None:
    """Return the first difference between two requests; None if the second only continues the first.

    Args:
        before: The previous request, from `entries_of`.
        writers: Writers of changes since the previous request, by part; `PROGRAM` for other changes.
        redact: Removes secrets from a text before an excerpt of it is taken.
    """
    kept, total = 0, sum(len(text) for part in before.values() for text in part)
    for part in PARTS:
        old, new = before[part], after[part]
        # New messages at the end are not a change.
        count = len(old) if part == "messages" else max(len(old), len(new))
        for index in range(count):
            left, right = _entry(old, index), _entry(new, index)
            if left != right:
                offset = _common(left, right)
                shown = [redact(left), redact(right)]
                start = max(0, _common(*shown) - CONTEXT)
                was, now = (text[start : start + 2 * CONTEXT] for text in shown)
                writer = CLIENT if part == "model" else writers.get(part, PROGRAM)
                return PrefixChange(part, index, offset, kept + offset, total, was, now, writer)
            kept += len(left)
    return None


def _entry(texts: Sequence[str], index: int) -> str:
    return texts[index] if index < len(texts) else ""


def _common(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def _unmarked(value: Any) -> Any:
    """Return a value without cache marks, which move from step to step and are not part of the prompt."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    plain = {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    content = plain.get("content")
    if isinstance(content, list) and len(content) == 1 and {*content[0]} == {"type", "text"}:
        plain["content"] = content[0]["text"]  # a marked text is a list of parts
    return plain


class PrefixWatch:
    """Keeps the last two requests of a run, so that the cause of a cache miss at the server can be named.

    A change by the client, after it has learned from a rejected request, is reported in a separate notice.

    Args:
        redact: Removes secrets from a text.
    """

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._named: set[tuple[str, str]] = set()
        self.requests: tuple[Outgoing | None, Outgoing | None] = (None, None)
        """The last two requests, the newest last; set before each request is sent."""

    def cause(self, writers: Mapping[str, str]) -> PrefixChange | None:
        """Return how the newest request changed the prefix; None if unchanged, or already returned.

        Args:
            writers: See `first_change`.
        """
        old, new = self.requests
        if old is None or new is None or (new[0][: len(old[0])] == old[0] and new[1] == old[1]):
            return None
        before, after = (entries_of({"messages": sent[0], "tools": sent[1]}) for sent in (old, new))
        change = first_change(before, after, writers, self._redact)
        if change is None or (change.part, change.writer) in self._named:
            return None
        self._named.add((change.part, change.writer))
        return change
