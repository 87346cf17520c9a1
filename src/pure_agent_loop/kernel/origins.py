"""Where the texts of a run come from, read from its history, for the mode ``guard``; see `guard`.

Trusted are the user's messages without attached files, people's answers, the system prompt without the notes
of a folder, and results of tools marked ``trusted``. All else is not: other results, files, the model's
answers, summaries, facts and notices, the task of a subagent, and the descriptions of tools that a toolset
lists.

A compaction keeps what it removes in a compact form, under ``before`` in the `meta` of a message: it goes
wherever the history goes, and to no server.
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

MAX_KEPT_CHARS = 4_000  # characters of a removed result that still serve to find where a value comes from
MAX_KEPT_FIELDS = 500  # fields of a removed result
MAX_KEPT = 200  # removed results
Entry = dict[str, Any]


@cache
def files_pattern() -> re.Pattern[str]:
    """Return the pattern of files in a message or in the system prompt.

    It goes up to the last end tag: a file could contain one.
    """
    embedded = [table("model", language)["resource"][1:].partition("=")[0].split() for language in LANGUAGES]
    tags, fields = map("|".join, zip(("notes", "file"), ("file", "name"), *embedded, strict=True))
    return re.compile(rf"<({tags}) (?:{fields})=.*</\1>", re.S)


def entries_of(
    messages: Iterable[HistoryMessage], calls: dict[str, CalledFunction] | None = None
) -> Iterator[Entry]:
    """Yield the texts of a history, each with who wrote it.

    An entry has ``user``, the user's text; or ``text`` with its ``source``, or for a result with ``tool`` and
    ``args``, and for a removed result also with ``fields``.

    Args:
        calls: Calls of earlier messages by id, which is extended.
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
            # The parts behind the first one are attached: files, and texts of files.
            first: Any = content if isinstance(content, str) else [*content][:1]
            spoken = without_framed(files_pattern().sub("", text_of(first)))
            yield {"user": spoken}
            if spoken != text or first != content:
                yield {"text": text, "source": model_text("guard_attached")}
        elif message["role"] == "user":
            yield {"text": text, "source": model_text("guard_task" if meta.get("model") else "guard_notice")}
        elif message["role"] == "assistant" and text and not calls_of(message):
            yield {"text": text, "source": model_text("guard_answer")}  # of what it read, perhaps elsewhere


def keep_origins(old: Sequence[HistoryMessage], new: Sequence[HistoryMessage]) -> list[HistoryMessage]:
    """Return a history with the texts of the messages that another one has besides."""
    kept = {id(message) for message in new}
    known = {id(message) for message in old}
    lost = {
        message["tool_call_id"] for message in old if message["role"] == "tool" and id(message) not in kept
    }
    # With their calls, which tell the name and the arguments.
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
    """Return a copy of a message with more in its `meta`."""
    return cast("HistoryMessage", {**message, META: {**(message.get(META) or {}), **more}})
