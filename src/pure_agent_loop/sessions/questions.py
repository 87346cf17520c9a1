"""What suspended runs wait for: read and answered from any process, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.ledger import check_waits
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import Permission, PermissionRequest, Verdict, as_answer
from pure_agent_loop.sessions.effects import encode, read_effect
from pure_agent_loop.sessions.store import SessionStore
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import Past, read_past
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text
from pure_agent_loop.tool import ToolOutcome


def open_questions(records: Sequence[Record]) -> list[PermissionRequest]:
    """What a session waits for: each pending call of a suspended run that nobody has answered yet.

    Args:
        records: Of the session, in the order of writing.

    Raises:
        SessionReadError: What is recorded is no state of a run.
    """
    past, state = _waiting(records, SUSPENDED)
    if state is None:
        return []
    said = {key: read_effect(key, *each) for key, each in past.effects.items() if ":ask:" in key}
    answered = {key for key, each in said.items() if isinstance(each, Permission) and each.behavior != "ask"}
    return [each for each in state.questions if _key(each) not in answered]


def _waiting(records: Sequence[Record], reason: str) -> tuple[Past, QueryState | None]:
    past = read_past(records)
    waits = past.begun is None and past.state is not None and past.state.get("stop_reason") == reason
    return past, past.to_state() if waits else None


def open_calls(records: Sequence[Record]) -> list[ToolCall]:
    """The calls of a session whose results are made elsewhere and have not come.

    Raises:
        SessionReadError: What is recorded is no state of a run.
    """
    past, state = _waiting(records, WAITING_TOOL)
    if state is None:
        return []
    return [each for each in state.open_calls if _result_key(state, each.id) not in past.effects]


def give_result(
    store: SessionStore, session_id: str, call_id: str, result: Any, *, is_error: bool = False
) -> None:
    """Record the result of a call that was made elsewhere; see `SessionManager.give_result`."""
    with store.open(session_id, create=False) as log:
        check_waits("result", call_id, [each.id for each in open_calls(log.records)])
        _, state = _waiting(log.records, WAITING_TOOL)
        assert state is not None  # else nothing would wait
        kind, plain = encode(ToolOutcome(Redactor().redact(as_text(result)), is_error))
        log.append(kind, {"key": _result_key(state, call_id), "value": plain}, durable=True)


def _result_key(state: QueryState, call_id: str) -> str:
    return f"{state.step}:tool:{call_id}"


def answer_question(
    store: SessionStore, session_id: str, call_id: str, verdict: Verdict, message: str = ""
) -> None:
    """Record an answer; the next run of the session goes on from it.

    Args:
        call_id: Which question; see `open_questions`.
        verdict: ``allow``, ``deny``, or a `Permission` that says more.
        message: Why; the model reads it when the call is denied.

    Raises:
        ConfigError: Nothing is asked about that call, or the verdict is neither.
        SessionError: The session is not there, is in use, or cannot be read or written.
    """
    permission = as_answer(verdict)
    if not isinstance(message, str):
        raise ConfigError(f"message must be text; it is {message!r:.80}.")
    permission = replace(permission, message=message) if message else permission
    with store.open(session_id, create=False) as log:
        asked = {each.call_id: each for each in open_questions(log.records)}
        check_waits("question", call_id, asked)
        kind, plain = encode(permission)
        log.append(kind, {"key": _key(asked[call_id]), "value": plain}, durable=True)


def _key(question: PermissionRequest) -> str:
    return f"{question.step}:ask:{question.call_id}"
