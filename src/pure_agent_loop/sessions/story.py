"""What happened in a session, in the order of reading: tasks, answers, calls and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pure_agent_loop.llm.messages import META, text_of
from pure_agent_loop.prompts.frames import for_people
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.text import as_text

Kind = Literal["task", "user", "notice", "thinking", "answer", "call", "result", "shortened", "end"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Args:
        kind: ``task`` (what a run was asked), ``user`` (other messages of a person), ``notice`` (words of the
            framework to the model), ``thinking``, ``answer``, ``call``, ``result``, ``shortened`` (the older
            history was replaced) or ``end`` (why a run ended).
        text: What was said; the arguments of a call as JSON.
        time: When it was recorded, in seconds since the epoch.
        step: The step it belongs to, from 1 over the whole session; 0 where there is none.
        tool: The tool of a call or a result.
        failed: True if a result is an error.
        state: In which state the call of a result ended; empty if that is not recorded.
        seconds: How long it ran; None if that is not recorded.
        call_id: Of a call or a result.
    """

    kind: Kind
    text: str
    time: float
    step: int = 0
    tool: str = ""
    failed: bool = False
    state: str = ""
    seconds: float | None = None
    call_id: str = ""


@dataclass
class Story:
    """A session as people read it.

    Args:
        entries: What happened.
        steps: How many steps were begun.
        messages: How many messages there were.
        task: What the last run with a task was asked; empty for none.
        stop_reason: Why the last run ended; empty if it is in the middle of something.
        model: The model of the last run.
        title: What the first run was asked.
    """

    entries: list[Entry] = field(default_factory=list)
    steps: int = 0
    messages: int = 0
    task: str = ""
    stop_reason: str = ""
    model: str = ""
    title: str = ""


def read_story(records: Sequence[Record]) -> Story:
    """Put the records of a session into the order of reading; what fits nowhere is passed over.

    Args:
        records: In the order of writing, as a store reads them.
    """
    reader = _Reader()
    for record in records:
        reader.take(record)
    return reader.finish()


def step_of(record: Record) -> int | None:
    """The step that a record of where a run stands belongs to; None for other records."""
    answers = record.data.get("answers") if record.type == "state" else None
    return answers if isinstance(answers, int) and not isinstance(answers, bool) else None


class _Reader:
    def __init__(self) -> None:
        self._story = Story()
        self._step = 0
        self._greeting = ""  # the task, whose own message is still to come
        self._tail: list[Record] = []  # effects that are in no message yet
        self._known: set[str] = set()  # messages in the history
        self._tools: dict[str, str] = {}  # names by call id
        self._failed: set[str] = set()
        self._parts: dict[str, dict[str, float]] = {}  # of each call, when it came into which state

    def take(self, record: Record) -> None:
        data = record.data
        if record.type == "run":
            self._run(record)
        elif record.type in ("messages", "boundary"):
            self._history(record)
        elif record.type == "parts":
            self._changes(record)
        elif (step := step_of(record)) is not None:
            self._state(record, step)
        elif record.type in ("answer", "outcome") and isinstance(data.get("key"), str):
            self._tail.append(record)
            if record.type == "outcome" and _mapping(data.get("value")).get("is_error"):
                self._failed.add(_call_id(record))

    def finish(self) -> Story:
        for record in self._tail:  # the run was cut off before these became messages
            self._effect(record)
        return self._story

    def _run(self, record: Record) -> None:
        task = record.data.get("task")
        self._story.model = str(record.data.get("model") or "")
        self._story.stop_reason = ""
        if isinstance(task, str):
            self._story.task = self._greeting = task
            self._story.title = self._story.title or task
            self._add("task", task, record, step=0)

    def _state(self, record: Record, step: int) -> None:
        reason = record.data.get("stop_reason")
        self._story.steps = max(self._story.steps, step)
        self._step, self._tail = step, []
        self._story.stop_reason = str(reason or "")
        if reason and reason not in WAITING:
            self._add("end", str(reason), record)

    def _history(self, record: Record) -> None:
        found = record.data.get("messages")
        messages = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        keys = [json.dumps(each, sort_keys=True) for each in messages]
        before = self._known
        if record.type == "boundary":
            self._known = set()
            if before:
                self._add("shortened", "", record, step=0)
        for key, message in zip(keys, messages, strict=True):
            if record.type == "messages" or key not in before:
                self._story.messages += 1
                self._message(message, record)
        self._known = self._known | set(keys)
        self._tail = []

    def _message(self, message: Mapping[str, Any], record: Record) -> None:
        role, meta, content = message.get("role"), _mapping(message.get(META)), _text(message.get("content"))
        if role == "assistant":
            self._answer(content, meta.get("reasoning"), message.get("tool_calls"), record)
        elif role == "tool":
            self._result(str(message.get("tool_call_id")), content, record)
        elif content == self._greeting and not meta.get("synthetic"):
            self._greeting = ""  # it was shown with the run
        else:
            self._add("notice" if meta.get("synthetic") else "user", content, record, step=0)

    def _answer(self, content: str, thinking: Any, calls: Any, record: Record) -> None:
        if thinking:
            self._add("thinking", _text(thinking), record)
        if content:
            self._add("answer", content, record)
        for call in calls if isinstance(calls, list) else ():
            about = _mapping(call)
            function = _mapping(about.get("function")) or about
            self._tools[str(about.get("id"))] = name = str(function.get("name"))
            arguments = _text(function.get("arguments"))
            self._add("call", arguments, record, tool=name, call_id=str(about.get("id")))

    def _changes(self, record: Record) -> None:
        found = record.data.get("parts")
        for each in found if isinstance(found, list) else ():
            call_id, when = _mapping(each).get("call_id"), _mapping(each).get("time")
            if isinstance(call_id, str) and isinstance(when, (int, float)):
                state = str(each.get("state"))
                times = {} if state == "pending" else self._parts.get(call_id, {})  # ids may come again
                self._parts[call_id] = {**times, state: when}

    def _result(self, call_id: str, text: str, record: Record) -> None:
        times = self._parts.get(call_id, {})
        began, state = times.get("running"), next(reversed(times), "")
        self._add(
            "result",
            for_people(text),
            record,
            tool=self._tools.get(call_id, ""),
            failed=call_id in self._failed,
            state=state,
            seconds=None if began is None else max(0.0, times[state] - began),
            call_id=call_id,
        )

    def _effect(self, record: Record) -> None:
        value = _mapping(record.data.get("value"))
        if record.type == "answer":
            thinking, calls = value.get("reasoning_content"), value.get("tool_calls")
            self._answer(_text(value.get("content")), thinking, calls, record)
        elif ":tool:" in record.data["key"]:
            self._result(_call_id(record), _text(value.get("text")), record)

    def _add(self, kind: Kind, text: str, record: Record, *, step: int | None = None, **about: Any) -> None:
        number = self._step if step is None else step
        self._story.entries.append(Entry(kind, text, record.time, number, **about))


def _call_id(record: Record) -> str:
    return str(record.data["key"]).partition(":tool:")[2]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return text_of(value)
    return as_text(value)
