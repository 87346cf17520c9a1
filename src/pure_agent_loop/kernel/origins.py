"""Origins of a run's texts, read from its history, for ``guard`` mode; see `guard`.

These texts are trusted: the user's messages (but not attached files), people's answers, the system prompt
(but not a folder's notes), and results of tools marked ``trusted``. Everything else is untrusted: other
results, files, the model's answers, summaries, facts and notices, a subagent's task, and the descriptions of
tools that a toolset lists.

A compaction keeps what it removes in a compact form, under ``before`` in the `meta` of a message. This `meta`
stays with the history and is never sent to a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.guard import fields_in, is_handle
from pure_agent_loop.llm.messages import META, calls_of, is_question, text_of
from pure_agent_loop.prompts.frames import without_framed
from pure_agent_loop.support.language import LANGUAGES, model_text, table
from pure_agent_loop.support.parsing import parsed_object

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import CalledFunction, HistoryMessage

MAX_KEPT_CHARS = 4_000  # characters kept of a removed result, so that origins of values can still be found
MAX_KEPT_FIELDS = 500  # fields kept of a removed result
MAX_KEPT = 200  # removed results kept
Entry = dict[str, Any]


@cache
def files_pattern() -> re.Pattern[str]:
    """Return the pattern of files in a message or in the system prompt.

    A match extends to the last end tag, because a file could contain an end tag.
    """
    embedded = [table("model", language)["resource"][1:].partition("=")[0].split() for language in LANGUAGES]
    tags, fields = map("|".join, zip(("notes", "file"), ("file", "name"), *embedded, strict=True))
    return re.compile(rf"<({tags}) (?:{fields})=.*</\1>", re.S)


def entries_of(
    messages: Iterable[HistoryMessage], calls: dict[str, CalledFunction] | None = None
) -> Iterator[Entry]:
    """Yield the texts of a history, each with its origin.

    A text by the user is an entry with only ``user``. Any other entry has ``text`` and its ``source``; a
    result has ``tool`` and ``args`` in place of ``source``, and a removed result also has ``fields``.

    Args:
        calls: Calls in earlier messages, by id; the calls in these messages are added.
    """
    calls = {} if calls is None else calls
    for message in messages:
        meta: Mapping[str, Any] = message.get(META) or {}
        yield from meta.get("before") or ()
        calls.update((call["id"], call["function"]) for call in calls_of(message))
        content = message.get("content") or ""
        text = text_of(content)
        if message["role"] == "tool":
            function = calls.get(message["tool_call_id"], {"name": "", "arguments": "{}"})
            yield {"tool": function["name"], "args": parsed_object(function["arguments"]) or {}, "text": text}
        elif is_question(message) and not meta.get("model"):
            # The parts after the first one are attachments: files, and the text of files.
            first: Any = content if isinstance(content, str) else [*content][:1]
            spoken = without_framed(files_pattern().sub("", text_of(first)))
            yield {"user": spoken}
            if spoken != text or first != content:
                yield {"text": text, "source": model_text("guard_attached")}
        elif message["role"] == "user":
            yield {"text": text, "source": model_text("guard_task" if meta.get("model") else "guard_notice")}
        elif message["role"] == "assistant" and text and not calls_of(message):
            yield {"text": text, "source": model_text("guard_answer")}  # may repeat what the model has read


def keep_origins(old: Sequence[HistoryMessage], new: Sequence[HistoryMessage]) -> list[HistoryMessage]:
    """Return the new history, with compact entries for the old messages that it lacks."""
    kept = {id(message) for message in new}
    known = {id(message) for message in old}
    lost = {
        message["tool_call_id"] for message in old if message["role"] == "tool" and id(message) not in kept
    }
    # The calls of lost results are included, because they hold the tool's name and arguments.
    gone = [
        message
        for message in old
        if id(message) not in kept or any(call["id"] in lost for call in calls_of(message))
    ]
    entries = [compact(entry) for entry in entries_of(gone) if "user" in entry or "tool" in entry]
    if not entries or not new:
        return list(new)
    removable = len(entries) - MAX_KEPT
    entries = [entry for at, entry in enumerate(entries) if "user" in entry or at >= removable]
    at = next((number for number, message in enumerate(new) if id(message) not in known), 0)
    return [*new[:at], with_meta(new[at], before=entries), *new[at + 1 :]]


def compact(entry: Entry) -> Entry:
    """Return an entry of bounded length; a user's text is kept whole."""
    if "user" in entry or "fields" in entry:
        return entry
    handles = [[name, value] for name, value in fields_in(entry["text"]) if is_handle(name, value)]
    return {**entry, "text": entry["text"][:MAX_KEPT_CHARS], "fields": handles[:MAX_KEPT_FIELDS]}


def with_meta(message: HistoryMessage, **more: object) -> HistoryMessage:
    """Return a copy of a message with more fields in its `meta`."""
    return cast("HistoryMessage", {**message, META: {**(message.get(META) or {}), **more}})
