"""`SessionManager`: list, read, answer, fork, repair, delete and export sessions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pure_agent_loop.errors import ConfigError, SessionError, SessionNotFoundError
from pure_agent_loop.kernel.long_results import ResultFolder
from pure_agent_loop.llm.messages import Message, to_keep
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest, Verdict
from pure_agent_loop.sessions import (
    Record,
    RepairReport,
    SessionInfo,
    SessionPlace,
    SessionStore,
    default_store,
    store_at,
)
from pure_agent_loop.sessions.export import to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.links import LinkFolder
from pure_agent_loop.sessions.questions import answer_question, give_result, open_calls, open_questions
from pure_agent_loop.sessions.store import aretry_while_locked, retry_while_locked
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.subagents.tasks import TaskStore
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import checked_choice

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.result import AgentResult, Out

__all__ = ["Session", "SessionManager"]

DAY = 86_400.0  # seconds
_PAUSE = 0.05  # seconds between two attempts to open a session that is in use


class Repairs(Protocol):
    """Store that can recover the intact records of a damaged session."""

    def repair(self, session_id: str) -> RepairReport:
        """See `SessionManager.repair`."""


@dataclass(frozen=True, slots=True)
class Session:
    """Content of a session.

    Args:
        id: Session id.
        messages: History, as in `AgentResult.messages`: it begins with a system message only if the first
            run's history did.
        stop_reason: Reason the last run ended; empty if it was cut off.
        problems: One sentence per damaged part; empty for an intact session.
    """

    id: str
    messages: list[Message]
    task: str = ""
    stop_reason: str = ""
    steps: int = 0
    problems: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list, repr=False)


class SessionManager:
    """Manager of the sessions in one store.

        sessions = SessionManager("sessions")
        for info in sessions.list():
            print(info.id, len(sessions.load(info.id).messages))

    Args:
        root: Folder, custom store, or None for the sessions in the data folder.

    Raises:
        ConfigError: `root` is neither a folder, a store nor None.
    """

    def __init__(self, root: SessionPlace | None = None) -> None:
        self.store = store_at(root, "root")

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first."""
        return self.store.list()

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists."""
        return self.store.exists(session_id)

    def load(self, session_id: str) -> Session:
        """Read a session without changing it, even while a run is writing to it.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionReadError: The session cannot be read.
        """
        loaded = self.store.read(session_id)
        story, resume_point = read_story(loaded.records), read_resume_point(loaded.records, session_id)
        own = (resume_point.state or {}).get("own_prompt")
        system_messages = [{"role": "system", "content": own}] if isinstance(own, str) else []
        return Session(
            id=session_id,
            messages=[*system_messages, *to_keep(resume_point.messages)],
            task=story.task,
            stop_reason=story.stop_reason,
            steps=story.steps,
            problems=list(loaded.problems),
            records=list(loaded.records),
        )

    def waiting(self) -> Sequence[SessionInfo]:
        """Return the sessions with pending questions or external calls, most recently used first."""
        return self._filtered(_is_waiting)

    def resumable(self) -> Sequence[SessionInfo]:
        """Return the sessions that ``Agent.run(None, session_id=...)`` continues without further answers.

        Such a run was interrupted, or all its questions are answered and all its external results have
        arrived. Sessions that are in use are listed, too.
        """
        return self._filtered(_is_resumable)

    def resume(
        self, agent: Agent[Any, Out], session_id: str, *, deps: Any = None, timeout: float | None = None
    ) -> AgentResult[Out]:
        """Continue a session, like ``agent.run(None, session_id=...)``, but wait while the session is in use.

        Call this after recording an answer, in any thread or process: the call after the last answer then
        continues the run. If another caller has already finished the run, the result of the run is returned.
        The calling thread is blocked until then.

        Args:
            agent: Agent of the session.
            session_id: Id of the session.
            deps: Value of `RunContext.deps`.
            timeout: Maximum seconds to wait for the session; None for no limit.

        Raises:
            ConfigError: There is nothing to resume.
            SessionLockedError: The session is still in use after `timeout`.
            SessionError: The session cannot be opened.
        """
        begin = partial(agent.prepare, None, session_id=session_id, sessions=self.store, deps=deps)
        return retry_while_locked(begin, math.inf if timeout is None else timeout, _PAUSE).wait_sync()

    async def aresume(
        self, agent: Agent[Any, Out], session_id: str, *, deps: Any = None, timeout: float | None = None
    ) -> AgentResult[Out]:
        """Continue a session from async code; see `resume`. The event loop is not blocked."""
        begin = partial(agent.prepare, None, session_id=session_id, sessions=self.store, deps=deps)
        seconds = math.inf if timeout is None else timeout
        return await (await aretry_while_locked(begin, seconds, _PAUSE)).wait()

    def _filtered(self, test: Callable[[Sequence[Record], str], bool]) -> Sequence[SessionInfo]:
        def holds(session_id: str) -> bool:
            try:
                return test(self.store.read(session_id).records, session_id)
            except SessionError:  # the session is unreadable or has been deleted; `load` reports why
                return False

        return [info for info in self.store.list() if holds(info.id)]

    def questions(self, session_id: str) -> Sequence[PermissionRequest]:
        """Return the pending questions of a suspended run, without changing the session.

        Raises:
            ConfigError: The id is invalid.
            SessionError: The session does not exist, or cannot be read.
        """
        return open_questions(self.store.read(session_id).records, session_id)

    def answer(
        self, session_id: str, call_id: str, verdict: Verdict, message: str = "", *, by: str | None = None
    ) -> None:
        """Answer a question, from any process. `resume` then continues the run.

        The first answer counts. The error for a second answer contains the first one, so a caller can tell
        whether that was its own.

        Args:
            session_id: Id of the session.
            call_id: Id of one of the session's `questions`.
            verdict: ``allow``, ``deny``, or a `Permission` with more details.
            message: Reason, sent to the model if the call is denied.
            by: Name of the respondent, for the record; the current user account if None.

        Raises:
            AlreadyAnsweredError: The question was already answered; the error names answer, respondent and
                time.
            ConfigError: The call has no pending question, or the verdict is invalid.
            SessionError: The session does not exist, is in use, or cannot be read or written.
        """
        answer_question(self.store, session_id, call_id, verdict, message, by)

    def open_calls(self, session_id: str) -> Sequence[ToolCall]:
        """Return the pending external calls of a session, without changing it.

        Raises:
            ConfigError: The id is invalid.
            SessionError: The session does not exist, or cannot be read.
        """
        return open_calls(self.store.read(session_id).records)

    def give_result(
        self,
        session_id: str,
        call_id: str,
        result: Any,
        *,
        is_error: bool = False,
        by: str | None = None,
    ) -> None:
        """Supply the result of an external call, from any process. `resume` then continues the run.

        The first result counts, as with `answer`.

        Args:
            session_id: Id of the session.
            call_id: Id of one of the session's `open_calls`.
            result: Text, or a value that can be written as JSON.
            is_error: True if the call failed; `result` is then the error.
            by: Name of the sender, for the record; the current user account if None.

        Raises:
            AlreadyAnsweredError: The call already has a result.
            ConfigError: The call is not pending.
            SessionError: The session does not exist, is in use, or cannot be read or written.
        """
        give_result(self.store, session_id, call_id, result, is_error=is_error, by=by)

    def fork(self, session_id: str, step: int | None = None, new_id: str | None = None) -> str:
        """Create a session from a copy of another session's first steps.

        Answers for calls that have not begun are not copied: the new session asks again.

        Args:
            session_id: Id of the original session, which is not changed.
            step: Last step to copy, counted from 1 over the whole session; None for all steps.
            new_id: Id of the new session; None to generate one.

        Returns:
            The id of the new session.

        Raises:
            ConfigError: An id is invalid, the new session exists, or the step does not exist.
            SessionError: The original cannot be read, or the new session cannot be written.
        """
        return fork_session(self.store, session_id, step, new_id)

    def repair(self, session_id: str) -> RepairReport:
        """Copy the intact records of a damaged session to a new session; the original is kept.

        Raises:
            ConfigError: The store cannot repair sessions.
            SessionError: The session does not exist, is in use, or cannot be read or written.
        """
        repairing = as_protocol(self.store, Repairs)
        if repairing is None:
            raise ConfigError(
                f"{type(self.store).__name__} cannot repair sessions. Only JSON Lines stores can."
            )
        return repairing.repair(session_id)

    def delete(self, session_id: str) -> None:
        """Delete a session, its links and long results on this machine, and what its subagents recorded.

        Raises:
            ConfigError: The id is invalid.
            SessionError: The session does not exist, is in use, or cannot be deleted.
        """
        loaded = self.store.read(session_id).records if self.store.exists(session_id) else ()
        self.store.delete(session_id)
        LinkFolder().forget(session_id)
        lines = (record.to_line().decode().replace("\\", "") for record in loaded)  # unescape quotes
        ResultFolder().remove_named_in(lines)
        # Search both places, because the agent, not the session, decides where subagents are recorded.
        folder = getattr(self.store, "folder", None)
        for tasks in (TaskStore(), *([TaskStore(Path(folder) / "agents")] if folder else [])):
            for task in tasks.list(session_id):
                tasks.delete(task.id)
                for store in (self.store, default_store()):
                    with suppress(SessionNotFoundError, ConfigError):  # a task may have no recorded session
                        SessionManager(store).delete(task.session_id)

    def export(self, session_id: str, form: Literal["markdown", "html"] = "markdown") -> str:
        """Return a session as a document.

        Args:
            session_id: Id of the session.
            form: ``markdown`` or ``html``.

        Raises:
            ConfigError: The form is unknown.
            SessionError: The session does not exist, or cannot be read.
        """
        writers = {"markdown": to_markdown, "html": to_html}
        return writers[checked_choice("form", form, writers)](self.store.read(session_id).records)


def _is_waiting(records: Sequence[Record], session_id: str) -> bool:
    return bool(open_questions(records, session_id) or open_calls(records))


def _is_resumable(records: Sequence[Record], session_id: str) -> bool:
    point = read_resume_point(records, session_id)
    if point.unreadable or point.left:  # `resume` would raise an error
        return False
    if point.started_run is not None:  # the run was interrupted before its first checkpoint
        return True
    is_open = point.state is not None and point.state.get("stop_reason") in (None, *WAITING)
    return is_open and not _is_waiting(records, session_id)


def prune(
    store: SessionStore, days: int, now: float, delete: Callable[[str], None] | None = None
) -> list[str]:
    """Delete finished sessions that have not been used for `days` days, and return their ids.

    Sessions that are in use, waiting, interrupted or unreadable are kept.

    Args:
        now: Seconds since the epoch.
        delete: Function that deletes a session; `SessionManager.delete` if None.
    """
    delete, deleted = delete or SessionManager(store).delete, []
    for info in store.list():
        if now - info.updated < days * DAY:
            continue
        try:
            records = store.read(info.id).records
            # Check the records, because the session may have been used since the list was read.
            if read_story(records).stop_reason in ("", *WAITING) or now - records[-1].time < days * DAY:
                continue
            delete(info.id)
        except (SessionError, ConfigError):  # a durable run of the session has not ended
            continue
        deleted.append(info.id)
    return deleted
