"""Sessions by id, as one object: what there is, what is in it, and what can be made of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pure_agent_loop.errors import ConfigError, SessionError
from pure_agent_loop.llm.messages import Message, to_wire
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest, Verdict
from pure_agent_loop.sessions import (
    JsonlStore,
    Record,
    RepairReport,
    SessionInfo,
    SessionStore,
    default_store,
)
from pure_agent_loop.sessions.export import to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.questions import answer_question, give_result, open_calls, open_questions
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.sessions.transcript import read_past
from pure_agent_loop.support.abilities import able

__all__ = ["Session", "SessionManager"]


class Repairs(Protocol):
    """A store that can save what is whole in a damaged session."""

    def repair(self, session_id: str) -> RepairReport:
        """See `SessionManager.repair`."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """What a session holds.

    Args:
        id: Its id.
        messages: The history as the model would get it next, without the system message.
        task: What was asked last.
        stop_reason: Why the last run ended; empty if it was cut off.
        steps: Steps begun in it.
        problems: A sentence for each thing that was damaged; empty if nothing was.
        records: The records themselves.
    """

    id: str
    messages: list[Message]
    task: str = ""
    stop_reason: str = ""
    steps: int = 0
    problems: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list, repr=False)


class SessionManager:
    """The sessions in one place.

        sessions = SessionManager("sessions")
        for info in sessions.list():
            print(info.id, len(sessions.load(info.id).messages))

    Args:
        root: A folder, a store of your own, or None for the sessions in the data folder.
    """

    def __init__(self, root: str | os.PathLike[str] | SessionStore | None = None) -> None:
        if root is None:
            self.store: SessionStore = default_store()
        elif isinstance(root, (str, os.PathLike)):
            self.store = JsonlStore(root)
        else:
            self.store = root

    def list(self) -> Sequence[SessionInfo]:
        """Every session, the one used last first."""
        return self.store.list()

    def exists(self, session_id: str) -> bool:
        """True if there is such a session."""
        return self.store.exists(session_id)

    def load(self, session_id: str) -> Session:
        """Read a session, also while a run writes it. Changes nothing.

        Raises:
            ConfigError: The id cannot be one.
            SessionNotFoundError: There is none.
            SessionReadError: It cannot be read at all.
        """
        loaded = self.store.read(session_id)
        story, past = read_story(loaded.records), read_past(loaded.records)
        return Session(
            id=session_id,
            messages=to_wire(past.messages),
            task=story.task,
            stop_reason=story.stop_reason,
            steps=story.steps,
            problems=list(loaded.problems),
            records=list(loaded.records),
        )

    def waiting(self) -> Sequence[SessionInfo]:
        """The sessions that wait for a person or a result made elsewhere, the one used last first."""
        return [info for info in self.store.list() if self._is_waiting(info.id)]

    def _is_waiting(self, session_id: str) -> bool:
        try:
            records = self.store.read(session_id).records
            return bool(open_questions(records) or open_calls(records))
        except SessionError:  # it cannot be read, or is gone by now; `load` says why
            return False

    def questions(self, session_id: str) -> Sequence[PermissionRequest]:
        """What a session waits for: the calls of a suspended run that nobody has answered. Changes nothing.

        Raises:
            ConfigError: The id cannot be one.
            SessionError: It is not there, or cannot be read.
        """
        return open_questions(self.store.read(session_id).records)

    def answer(self, session_id: str, call_id: str, verdict: Verdict, message: str = "") -> None:
        """Answer a question, from any process. Nothing runs; ``Agent.run(None, session_id=...)`` goes on.

        Args:
            session_id: Which session.
            call_id: Which of its `questions`.
            verdict: ``allow``, ``deny``, or a `Permission` that says more.
            message: Why; the model reads it when the call is denied.

        Raises:
            ConfigError: Nothing is asked about that call, or the verdict is neither.
            SessionError: The session is not there, is in use, or cannot be read or written.
        """
        answer_question(self.store, session_id, call_id, verdict, message)

    def open_calls(self, session_id: str) -> Sequence[ToolCall]:
        """The calls of a session whose results are made elsewhere and have not come. Changes nothing.

        Raises:
            ConfigError: The id cannot be one.
            SessionError: It is not there, or cannot be read.
        """
        return open_calls(self.store.read(session_id).records)

    def give_result(self, session_id: str, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Bring a result, from any process. Nothing runs; ``Agent.run(None, session_id=...)`` goes on.

        Args:
            session_id: Which session.
            call_id: Which of its `open_calls`.
            result: Text, or what has a JSON form.
            is_error: The call failed; `result` says how.

        Raises:
            ConfigError: The result of no such call is awaited.
            SessionError: The session is not there, is in use, or cannot be read or written.
        """
        give_result(self.store, session_id, call_id, result, is_error=is_error)

    def fork(self, session_id: str, step: int | None = None, new_id: str | None = None) -> str:
        """Make a new session that begins as another one did.

        Args:
            session_id: The old one; it stays as it is.
            step: The last step to copy, from 1 over the whole session; None for all there is.
            new_id: The name of the new one; None to make one.

        Returns:
            The id of the new session.

        Raises:
            ConfigError: An id cannot be one, the new one exists, or there is no such step.
            SessionError: The old one cannot be read, or the new one cannot be written.
        """
        return fork_session(self.store, session_id, step, new_id)

    def repair(self, session_id: str) -> RepairReport:
        """Write what is whole in a damaged session into a session of its own; the old one stays.

        Raises:
            ConfigError: The store of these sessions repairs nothing.
            SessionError: It is not there, is in use, or cannot be read or written.
        """
        repairing = able(self.store, Repairs)
        if repairing is None:
            raise ConfigError(f"{type(self.store).__name__} has no repair: only files of JSON lines have it.")
        return repairing.repair(session_id)

    def delete(self, session_id: str) -> None:
        """Take a session away.

        Raises:
            ConfigError: The id cannot be one.
            SessionError: It is not there, is in use, or cannot be taken away.
        """
        self.store.delete(session_id)

    def export(self, session_id: str, form: Literal["markdown", "html"] = "markdown") -> str:
        """A session as a document.

        Args:
            session_id: Which one.
            form: ``markdown`` or ``html``.

        Raises:
            ConfigError: There is no such form.
            SessionError: The session is not there, or cannot be read.
        """
        writers = {"markdown": to_markdown, "html": to_html}
        if form not in writers:
            raise ConfigError(f"form={form!r} is not known. Use one of: {', '.join(writers)}.")
        return writers[form](self.store.read(session_id).records, session_id)
