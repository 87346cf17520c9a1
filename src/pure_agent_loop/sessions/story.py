"""Readable history of a session: tasks, answers, calls and results, in reading order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pure_agent_loop.llm.messages import META, text_of
from pure_agent_loop.llm.values import mapping_of
from pure_agent_loop.prompts.frames import for_people
from pure_agent_loop.sessions.stores.records import Record, dicts_in
from pure_agent_loop.stop_reasons import BACKGROUNDED, WAITING
from pure_agent_loop.support.explained import explain, recorded_failure
from pure_agent_loop.support.text import as_text

_FENCE = re.compile(r"\n(`{3,})\Z")
_DENIED = re.compile(r"\A.*\n.*\bPermissionDenied$", re.M)

Kind = Literal["task", "user", "notice", "thinking", "answer", "call", "result", "shortened", "end"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened in a session.

    Args:
        kind: ``task`` (the task of a run), ``user`` (another message from a person), ``notice`` (a message
            from the framework to the model), ``thinking``, ``answer``, ``call``, ``result``, ``shortened``
            (older history was replaced) or ``end`` (why a run ended: its stop reason, and its error).
        text: Text of the entry; the arguments of a call as JSON.
        time: Time of recording, in seconds since the epoch.
        step: Step of the entry, counted from 1 over the whole session; 0 if it belongs to none.
        tool: Tool of a call or a result.
        failed: True if a result is an error or a denial, or its command failed.
        state: Final state of the call that a result belongs to; empty if not recorded.
        seconds: Running time of the call, of the thinking, or of the run that ended (without its waiting
            time); None if not recorded.
        call_id: Id of the call, for a call or a result.
        title: For a call: its title, as the tool words it; empty if it has none or did not run.
        exit_code: Exit code of the command that the call ran; None for other tools.
        command: How that command ended; see `Event.observation`. Empty for other tools.
        by: For a result: name of the person who answered the question about the call; empty if there was no
            such answer.
        verdict: The person's answer: ``allow`` or ``deny``; also ``deny`` if a rule denied the call.
        answered_at: Time of the person's answer, in seconds since the epoch.
        why: For a result: what decided about the call in the permission mode ``guard``; empty in other modes.
        said: What the person wrote with the answer.
        media: For a task or another message from a person: the parts of the message that are not text.
        used: For an end: the run's ``steps``, ``tokens`` and ``cost``, and the seconds it ``waited``.
        told: For a run that an error ended: what the error means, as in the data of an error event.
        unasked: For a result: True if a person was not asked because the call would have failed.
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
    title: str = ""
    exit_code: int | None = None
    by: str = ""
    verdict: str = ""
    answered_at: float | None = None
    why: str = ""
    unasked: bool = False
    command: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    media: Sequence[Mapping[str, Any]] = ()
    used: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Story:
    """Readable history of a session.

    Args:
        entries: Entries in reading order.
        task: Task of the last run that has one; empty if there is none.
        stop_reason: Stop reason of the last run; empty if it has not ended.
        model: Model of the last run.
        origin: Server and model of the last run, as its client names them.
        title: Name that a person has given to the session; otherwise the task of the first run.
        left: Id of the durable run that continues the last run; empty if the session continues it.
    """

    entries: list[Entry] = field(default_factory=list)
    steps: int = 0
    messages: int = 0
    task: str = ""
    stop_reason: str = ""
    model: str = ""
    origin: str = ""
    title: str = ""
    left: str = ""


def read_story(records: Sequence[Record]) -> Story:
    """Build the readable history of a session; unknown records are skipped.

    Args:
        records: Records in the order they were written, as a store returns them.
    """
    reader = _StoryReader()
    for record in records:
        reader.add(record)
    return reader.finish()


def step_of(record: Record) -> int | None:
    """Return the step of a state record; None for other records."""
    answers = record.data.get("answers") if record.type == "state" else None
    return answers if isinstance(answers, int) and not isinstance(answers, bool) else None


def without_files(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Split the files off the end of a message: return the rest, and each file's name and text.

    The web page appends each text file to the message: its name, a colon, and the text in a fence.
    """
    files: list[tuple[str, str]] = []
    while (fence := _FENCE.search(text)) is not None:
        head, mark, content = text[: fence.start()].rpartition(f":\n\n{fence[1]}\n")
        before, gap, name = head.rpartition("\n\n")
        if not mark or not name or "\n" in name or (head != name and not gap):
            break
        files.insert(0, (name, content))
        text = before
    return text, files


class _StoryReader:
    def __init__(self) -> None:
        self._story = Story()
        self._step = 0
        self._shown_task = ""  # task that is already shown, and whose message follows in the records
        self._task_at = 0  # number of that task's entry
        self._tail: list[Record] = []  # records of effects that are not yet part of a message
        self._known: set[str] = set()  # messages already in the history
        self._tools: dict[str, str] = {}  # tool names by call id
        self._outcomes: dict[str, Mapping[str, Any]] = {}  # outcomes of tools, by call id
        self._answers: dict[str, dict[str, Any]] = {}  # people's answers, by call id
        self._whys: dict[str, str] = {}  # reasons for decisions about calls, by call id
        # Time of each state of a call, by call id and state.
        self._parts: dict[str, dict[str, float]] = {}
        self._thought: dict[str, float] = {}  # times of the newest thinking, by state
        self._waited, self._waits_since = 0.0, 0.0  # seconds waited so far, and start of the current wait
        self._titles: dict[str, str] = {}  # titles of calls that ran, by call id
        self._failure = ""  # message of the last error in a run
        self._told: dict[str, Any] = {}  # what the last error means
        self._asked_at = 0.0  # when the request of the next answer began
        self._ended: set[str] = set()  # ids of calls whose result is an entry

    def add(self, record: Record) -> None:
        data = record.data
        if record.type == "run":
            self._run(record)
        elif record.type in ("messages", "boundary"):
            self._history(record)
        elif record.type == "parts":
            self._changes(record)
        elif record.type in ("left", "title", "failure"):
            self._mark(record.type, data)
        elif (step := step_of(record)) is not None:
            self._state(record, step)
        elif record.type in ("answer", "outcome") and isinstance(data.get("key"), str):
            self._tail.append(record)
            if record.type == "outcome":
                self._outcomes[_call_id(record)] = mapping_of(data.get("value"))
        else:
            self._decision(record)

    def _mark(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "left":
            self._story.left = str(data.get("run") or "")
            self._story.stop_reason = BACKGROUNDED if self._story.left else ""
        elif kind == "title":  # a person has named the session
            self._story.title = _text(data.get("title")) or self._story.title
        else:
            self._failure = _text(data.get("message"))
            self._told = {"kind": data.get("kind"), **explain(recorded_failure(data))._asdict()}

    def finish(self) -> Story:
        for record in self._tail:  # effects of an interrupted run, for which no message was recorded
            self._effect(record)
        return self._story

    def _run(self, record: Record) -> None:
        task = record.data.get("task")
        self._story.model, self._story.origin = (
            str(record.data.get(key) or "") for key in ("model", "origin")
        )
        self._story.stop_reason = self._story.left = self._failure = ""
        self._told = {}
        if self._waits_since:
            self._waited += record.time - self._waits_since
        self._waits_since = 0.0
        if isinstance(task, str):
            self._waited = 0.0
            self._story.task = self._shown_task = task
            self._story.title = self._story.title or without_files(task)[0] or task
            self._task_at = len(self._story.entries)
            self._add("task", task, record, step=0)

    def _state(self, record: Record, step: int) -> None:
        reason = record.data.get("stop_reason")
        self._story.steps = max(self._story.steps, step)
        self._step, self._tail, self._asked_at = step, [], record.time
        self._story.stop_reason = str(reason or "")
        if reason and reason not in WAITING:
            failure = self._failure or _text(record.data.get("failure"))
            why = f": {failure}" if reason == "error" and failure else ""
            ledger = mapping_of(record.data.get("ledger"))
            used = {name: ledger[name] for name in ("steps", "tokens", "cost") if name in ledger}
            used["waited"] = self._waited
            told = self._told if why else {}
            self._add("end", f"{reason}{why}", record, seconds=ledger.get("seconds"), used=used, told=told)
        elif reason:
            self._waits_since = record.time

    def _history(self, record: Record) -> None:
        messages = dicts_in(record.data, "messages")
        keys = [json.dumps(message, sort_keys=True) for message in messages]
        known_before = self._known
        if record.type == "boundary":
            self._known = set()
            if known_before:
                self._add("shortened", "", record, step=0)
        for key, message in zip(keys, messages, strict=True):
            if mapping_of(message.get(META)).get("facts"):  # not part of the conversation
                continue
            if record.type == "messages" or key not in known_before:
                self._story.messages += 1
                self._message(message, record)
        self._known = self._known | set(keys)
        self._tail = []

    def _message(self, message: Mapping[str, Any], record: Record) -> None:
        role, content = message.get("role"), _text(message.get("content"))
        meta = mapping_of(message.get(META))
        if role == "assistant":
            self._answer(content, meta.get("reasoning"), message.get("tool_calls"), record)
        elif role == "tool":
            call_id = str(message.get("tool_call_id"))
            # A compaction records results again, shortened: skip those that are already shown.
            if record.type == "messages" or call_id not in self._ended:
                self._result(call_id, content, record, failed=bool(meta.get("failed")))
        elif meta.get("synthetic"):
            self._add("notice", content, record, step=0)
        else:
            parts = [part for part in dicts_in(message, "content") if part.get("type") != "text"]
            if content == self._shown_task:  # already shown as the task of the run
                self._shown_task = ""
                entries = self._story.entries
                entries[self._task_at] = replace(entries[self._task_at], media=parts)
            else:
                self._add("user", content, record, step=0, media=parts)

    def _answer(self, content: str, thinking: Any, calls: Any, record: Record) -> None:
        if thinking:
            times, self._thought = self._thought, {}
            asked_at = self._asked_at or min(times.values(), default=0.0)
            seconds = max(*times.values(), asked_at) - asked_at if times else None
            self._add("thinking", _text(thinking), record, seconds=seconds)
        if content:
            self._add("answer", content, record)
        for call in calls if isinstance(calls, list) else ():
            call_data = mapping_of(call)
            call_id = str(call_data.get("id"))
            function = mapping_of(call_data.get("function")) or call_data
            self._tools[call_id] = name = str(function.get("name"))
            self._ended.discard(call_id)  # a call id may be reused
            arguments, title = _text(function.get("arguments")), self._titles.pop(call_id, "")
            self._add("call", arguments, record, tool=name, call_id=call_id, title=title)

    def _changes(self, record: Record) -> None:
        for change in dicts_in(record.data, "parts"):
            call_id, time = change.get("call_id"), change.get("time")
            if change.get("type") == "reasoning" and isinstance(time, (int, float)):
                self._thought[str(change.get("state"))] = time
            elif isinstance(call_id, str) and isinstance(time, (int, float)):
                state = str(change.get("state"))
                times = {} if state == "pending" else self._parts.get(call_id, {})  # a call id may be reused
                self._parts[call_id] = {**times, state: time}
                if title := change.get("title"):
                    self._titles[call_id] = _text(title)

    def _decision(self, record: Record) -> None:
        """Record what decided about a call: ``guard`` mode, a person, or a refusal without a question."""
        _, _, effect = str(record.data.get("key")).partition(":")
        kind, _, call_id = effect.partition(":")
        if record.type == "intent" and record.data.get("why"):
            self._whys[_call_id(record)] = str(record.data["why"])
        elif record.type == "value" and kind == "refusal":
            self._answers[call_id] = {"unasked": True}
        elif record.type == "value" and kind == "ask" and record.data.get("by"):
            permission = mapping_of(mapping_of(record.data.get("value")).get("Permission"))
            about = {"by": str(record.data["by"]), "verdict": str(permission.get("behavior"))}
            said = str(permission.get("message") or "")
            self._answers[call_id] = {**about, "said": said, "answered_at": record.time}

    def _result(self, call_id: str, text: str, record: Record, *, failed: bool = False) -> None:
        self._ended.add(call_id)
        times = self._parts.get(call_id, {})
        started_at, state = times.get("running"), next(reversed(times), "")
        seconds = None if started_at is None else max(0.0, times[state] - started_at)
        outcome = self._outcomes.get(call_id, {})
        command = mapping_of(outcome.get("command"))
        exit_code = command.get("exit_code")
        answer = self._answers.pop(call_id, {})  # a call id may be reused
        if failed and _DENIED.search(text):
            answer = {"verdict": "deny", **answer}
        self._add(
            "result",
            for_people(text),
            record,
            tool=self._tools.get(call_id, ""),
            failed=bool(failed or outcome.get("is_error") or exit_code),
            state=state,
            seconds=command.get("seconds", seconds),
            call_id=call_id,
            exit_code=exit_code,
            command=command,
            why=self._whys.pop(call_id, ""),
            **answer,
        )

    def _effect(self, record: Record) -> None:
        value = mapping_of(record.data.get("value"))
        if record.type == "answer":
            thinking, calls = value.get("reasoning_content"), value.get("tool_calls")
            self._answer(_text(value.get("content")), thinking, calls, record)
        elif ":tool:" in record.data["key"]:
            self._result(_call_id(record), _text(value.get("text")), record)

    def _add(self, kind: Kind, text: str, record: Record, *, step: int | None = None, **fields: Any) -> None:
        number = self._step if step is None else step
        self._story.entries.append(Entry(kind, text, record.time, number, **fields))


def _call_id(record: Record) -> str:
    return str(record.data["key"]).partition(":tool:")[2]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return text_of(value)
    return as_text(value)
