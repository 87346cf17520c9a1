"""Where the texts of a run come from, read from its history, for the mode ``guard``; see `guard`.

Trusted are the user's messages, people's answers, the system prompt without the notes of a folder, and
results of tools marked ``trusted``. All else is not: other results, summaries, facts and notices, the task of
a subagent, and the descriptions of tools that a toolset lists.

A compaction keeps what it removes in a compact form, under ``before`` in the `meta` of a message: it goes
wherever the history goes, and to no server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from pure_agent_loop.guard import GuardedCall, Knowledge, Origins, ReadText, fields_in, is_handle
from pure_agent_loop.llm.messages import META, calls_of, is_question, text_of
from pure_agent_loop.prompts.frames import for_people, without_framed
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import shorten

if TYPE_CHECKING:
    from pure_agent_loop.kernel.kit import Kit
    from pure_agent_loop.kernel.state import QueryState
    from pure_agent_loop.llm.message_types import HistoryMessage

MAX_KEPT_CHARS = 4_000  # characters of a removed result that still serve to find where a value comes from
MAX_KEPT_FIELDS = 500  # fields of a removed result
MAX_KEPT = 200  # removed results
MAX_SOURCE = 80  # characters of the name of a source
# Files in a message or in the system prompt. To the last end: a file could hold the end of its own.
_FILES = re.compile(r"<(notes|file) (?:file|name|path)=.*</\1>", re.S)
_Entry = dict[str, Any]


def entries_of(messages: Iterable[HistoryMessage], calls: dict[str, Any] | None = None) -> Iterator[_Entry]:
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
        text = text_of(message.get("content") or "")
        if message["role"] == "tool":
            function = calls.get(message["tool_call_id"], {"name": "", "arguments": "{}"})
            yield {"tool": function["name"], "args": _arguments(function["arguments"]), "text": text}
        elif is_question(message) and not meta.get("model"):
            spoken = without_framed(_FILES.sub("", text))
            yield {"user": spoken}
            if spoken != text:
                yield {"text": text, "source": model_text("guard_attached")}
        elif message["role"] == "user":
            yield {"text": text, "source": model_text("guard_task" if meta.get("model") else "guard_notice")}


def _arguments(text: str) -> dict[str, Any]:
    try:
        args = json.loads(text)
    except ValueError:
        return {}
    return args if isinstance(args, dict) else {}


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
    entries = [_compact(entry) for entry in entries_of(gone) if "user" in entry or "tool" in entry]
    if not entries or not new:
        return list(new)
    removable = len(entries) - MAX_KEPT
    entries = [entry for at, entry in enumerate(entries) if "user" in entry or at >= removable]
    at = next((number for number, message in enumerate(new) if id(message) not in known), 0)
    return [*new[:at], with_meta(new[at], before=entries), *new[at + 1 :]]


def _compact(entry: _Entry) -> _Entry:
    if "user" in entry or "fields" in entry:
        return entry
    handles = [[name, value] for name, value in fields_in(entry["text"]) if is_handle(name, value)]
    return {**entry, "text": entry["text"][:MAX_KEPT_CHARS], "fields": handles[:MAX_KEPT_FIELDS]}


def with_meta(message: HistoryMessage, **more: Any) -> HistoryMessage:
    """Return a copy of a message with more in its `meta`."""
    changed: Any = {**message, META: {**(message.get(META) or {}), **more}}
    return changed  # type: ignore[no-any-return]


def delegate(state: QueryState, above: QueryState) -> None:
    """Note in a subagent's first state that a model wrote its task, and what its parent has read."""
    messages = [
        with_meta(message, model=True) if is_question(message) else message for message in state.messages
    ]
    entries = [_compact(entry) for entry in entries_of(above.messages) if "user" in entry or "tool" in entry]
    messages[0] = with_meta(messages[0], before=entries)
    state.messages, state.permissions.is_guarded = messages, True
    state.permissions.known = list(dict.fromkeys([*state.permissions.known, *above.permissions.known]))


class GuardMemory:
    """What is known in a run; built anew if more than the end of its history has changed."""

    def __init__(self) -> None:
        self._lead: list[str] = []
        self._seen: list[HistoryMessage] = []
        self._calls: dict[str, Any] = {}
        self._knowledge = Knowledge()

    def origins(self, state: QueryState, kit: Kit, call: GuardedCall) -> Origins:
        """Return where the values of a call come from."""
        lead, messages = [_FILES.sub("", state.system_prompt), *state.permissions.known], state.messages
        known = len(self._seen)
        if lead != self._lead or known > len(messages) or not all(map(is_, self._seen, messages)):
            self._lead, known = lead, 0
            self._knowledge, self._calls = Knowledge(), {}
            for text in lead:
                self._knowledge.trust(text)
            for tool in kit.tools:
                if is_foreign(tool.name, kit):
                    self._knowledge.read(ReadText(tool.description, tool.name))
        for entry in entries_of(messages[known:], self._calls):
            self._add(entry, kit)
        self._seen = list(messages)
        return self._knowledge.origins(call)

    def _add(self, entry: _Entry, kit: Kit) -> None:
        if "user" in entry:
            self._knowledge.trust(entry["user"])
            return
        name, args, text = entry.get("tool", ""), entry.get("args", {}), entry["text"]
        tool = kit.tools.get(name)
        source = entry.get("source") or shorten(f"{name}({', '.join(map(str, args.values()))})", MAX_SOURCE)
        call = guarded_call(name, args, kit) if name else None
        text = for_people(text) if is_foreign(name, kit) else text  # its results have a frame
        is_trusted = tool is not None and tool.trusted
        self._knowledge.read(ReadText(text, source, call, is_trusted, entry.get("fields")))


def guarded_call(name: str, args: Mapping[str, Any], kit: Kit) -> GuardedCall:
    """Return a call as the rule sees it."""
    tool = kit.tools.get(name)
    if tool is None:
        return GuardedCall(name, args)
    # A foreign schema could name a stranger's value as a default.
    parameters = {} if is_foreign(name, kit) else tool.parameters
    return GuardedCall(name, args, parameters, tool.prose, tool.recipient)


def is_foreign(name: str, kit: Kit) -> bool:
    """Return True for a tool that a toolset lists, such as one of an MCP server."""
    given = getattr(kit.tools, "given", kit.tools)
    return name in kit.tools and name not in given


def guard_reason(origins: Origins) -> str:
    """Return what decided about a call: the strange values, or where all values come from."""
    if origins.reason == "strange":
        told = [
            model_text(
                f"guard_{origin.kind}",
                argument=origin.argument,
                value=shorten(origin.value, MAX_SOURCE),
                source=origin.source,
            )
            for origin in origins.values
            if origin.is_strange
        ]
        return model_text("guard_asks", told="; ".join(told))
    if origins.reason:
        return model_text("guard_unvouched")
    kinds = {
        kind: ", ".join(origin.argument for origin in origins.values if origin.kind == kind)
        for kind in ("you", "source", "nowhere", "free")
    }
    return model_text(
        "guard_allows",
        told="; ".join(
            f"{model_text(f'guard_all_{kind}')}: {names}" for kind, names in kinds.items() if names
        )
        or "-",
    )
