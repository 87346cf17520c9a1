"""Read and answer the questions of suspended runs from any process, without running anything.

The first answer wins. A writer locks the session and reads the session again before writing. A later answer
is rejected with an error that holds the first answer, its author and its time. A new task in the session
counts as a denial of the open questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pure_agent_loop.errors import AlreadyAnsweredError, ConfigError
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tool_ledger import check_waits
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import Permission, PermissionRequest, Verdict, as_answer
from pure_agent_loop.sessions.store import SessionStore, opening_lock, retry_while_locked
from pure_agent_loop.sessions.stores.records import Record, dicts_in
from pure_agent_loop.sessions.transcript import ResumePoint, ask_key, encode, read_effect, read_resume_point
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text
from pure_agent_loop.tool import ToolOutcome

LOCKED_SECONDS = 5.0  # seconds to wait for another writer, such as a run that is still connecting its tools
_PAUSE = 0.02


def open_questions(records: Sequence[Record], session_id: str = "") -> list[PermissionRequest]:
    """Return a session's open questions: a suspended run's pending calls that have no answer.

    Args:
        records: Records of the session, in the order they were written.
        session_id: Id of the session. Answers that a fork copied from another session do not count.

    Raises:
        SessionReadError: The recorded state is invalid.
    """
    point, state = _waiting(records, session_id, SUSPENDED)
    if state is None:
        return []
    answers = {key: read_effect(key, *effect) for key, effect in point.effects.items() if ":ask:" in key}
    answered = {
        key for key, answer in answers.items() if isinstance(answer, Permission) and answer.behavior != "ask"
    }
    asked_at = next((record.time for record in reversed(records) if record.type == "state"), None)
    return [
        replace(question, asked_at=asked_at)
        for question in state.questions
        if ask_key(question.step, question.call_id) not in answered
    ]


def _waiting(
    records: Sequence[Record], session_id: str, reason: str
) -> tuple[ResumePoint, QueryState | None]:
    point = read_resume_point(records, session_id)
    is_waiting = point.started_run is None and (point.state or {}).get("stop_reason") == reason
    return point, point.to_state() if is_waiting else None


class GivenAnswer(NamedTuple):
    """A person's answer to a question, with its author and its time in seconds since the epoch."""

    call_id: str
    behavior: str
    message: str
    by: str
    at: float


def given_answers(records: Sequence[Record]) -> list[GivenAnswer]:
    """Return the answers that people gave since a session's run was suspended."""
    start = max((at for at, record in enumerate(records) if record.type == "state"), default=len(records))
    answers = []
    for record in records[start:]:
        _, is_answer, call_id = str(record.data.get("key")).partition(":ask:")
        if is_answer and record.data.get("by"):
            given = record.data["value"]["Permission"]
            answers.append(
                GivenAnswer(call_id, given["behavior"], given["message"], record.data["by"], record.time)
            )
    return answers


def open_calls(records: Sequence[Record]) -> list[ToolCall]:
    """Return a session's calls whose results come from outside the run and have not arrived yet.

    Raises:
        SessionReadError: The recorded state is invalid.
    """
    return [call for _, call in _open_results(records)]


def _open_results(records: Sequence[Record]) -> list[tuple[str, ToolCall]]:
    point, state = _waiting(records, "", WAITING_TOOL)
    calls = [] if state is None else [(f"{state.step}:tool:{call.id}", call) for call in state.open_calls]
    return [(key, call) for key, call in calls if key not in point.effects]


def give_result(
    store: SessionStore,
    session_id: str,
    call_id: str,
    result: Any,
    *,
    is_error: bool = False,
    by: str | None = None,
) -> None:
    """Record the result of a call that ran outside the run; see `SessionManager.give_result`."""
    outcome = ToolOutcome(Redactor().redact(as_text(result)), is_error)
    _record_first(store, session_id, call_id, outcome, by)


def answer_question(
    store: SessionStore,
    session_id: str,
    call_id: str,
    verdict: Verdict,
    message: str = "",
    by: str | None = None,
) -> None:
    """Record an answer for the next run of the session; see `SessionManager.answer`."""
    permission = as_answer(verdict)
    if not isinstance(message, str):
        raise ConfigError(f"message must be text, not {message!r:.80}.")
    permission = replace(permission, message=message) if message else permission
    _record_first(store, session_id, call_id, permission, by)


def _record_first(
    store: SessionStore, session_id: str, call_id: str, value: Permission | ToolOutcome, by: str | None
) -> None:
    """Write an answer or a result if the call has none yet."""
    author = author_of(by)
    kind, plain = encode(value)
    is_answer = isinstance(value, Permission)

    def key_in(records: Sequence[Record]) -> str:
        if is_answer:
            questions = open_questions(records, session_id)
            keys = {question.call_id: ask_key(question.step, call_id) for question in questions}
        else:
            keys = {call.id: key for key, call in _open_results(records)}
        if call_id not in keys and (before := _answer_before(records, kind, call_id)) is not None:
            if before.type == "run":
                raise already_answered(call_id, {"behavior": "deny"}, "a new task", before.time)
            raise already_answered(call_id, before.data["value"], before.data.get("by"), before.time)
        check_waits("question" if is_answer else "result", call_id, keys)
        return keys[call_id]

    origin = {"session": session_id} if is_answer else {}

    def write() -> None:
        # Check first without a lock, so that an answer that comes too late does not block a writer.
        key_in(store.read(session_id).records)
        with opening_lock(session_id), store.open(session_id, create=False) as log:
            data = {"key": key_in(log.records), "value": plain, "by": author, **origin}
            log.append(kind, data, durable=True)

    retry_while_locked(write, LOCKED_SECONDS, _PAUSE)


def author_of(by: Any) -> str:
    """Return the author of an answer: `by`, or this user account if `by` is None.

    Raises:
        ConfigError: `by` is neither None nor a non-blank string.
    """
    from pure_agent_loop.support.account import account_here

    if by is not None and not (isinstance(by, str) and by.strip()):
        raise ConfigError(f"by={by!r:.80} must be a person's name as text; leave it out to use this account.")
    return by or account_here()


def already_answered(
    call_id: str, value: Mapping[str, Any], by: str | None, at: float | None
) -> AlreadyAnsweredError:
    """Return the error for a call that already has an answer or a result.

    Args:
        value: Plain form of the existing answer or result, as sessions or the durable engine keep it.
    """
    value = value.get("Permission", value)
    if "behavior" in value:
        words = {"answer": value["behavior"], "message": value.get("message", "")}
    else:
        words = {"answer": value.get("text", value.get("result", "")), "what": "result"}
    return AlreadyAnsweredError(call_id, by or "", at=at, **words)


def _answer_before(records: Sequence[Record], kind: str, call_id: str) -> Record | None:
    """Return a person's newest answer to a call, or the newest result from outside the run.

    For a question, this may also be the record of a later run, because its new task counts as a denial.
    """
    wanted = f"ask:{call_id}" if kind == "value" else f"tool:{call_id}"
    task: Record | None = None
    for record in reversed(records):
        if kind == "value" and record.type == "run" and isinstance(record.data.get("task"), str):
            task = record
        elif task is not None and record.type == "state":
            asked = {call.get("id") for call in dicts_in(record.data, "pending")}
            if record.data.get("stop_reason") == SUSPENDED and call_id in asked:
                return task
            task = None
        if record.type != kind or str(record.data.get("key")).partition(":")[2] != wanted:
            continue
        value = record.data.get("value")
        permission = value.get("Permission") if isinstance(value, dict) else None
        if "by" in record.data if permission is None else permission.get("behavior") != "ask":
            return record
    return None
