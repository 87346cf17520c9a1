"""A store of sessions as one attempt of a durable run sees it.

It marks which run a session's run belongs to, so that a second attempt knows that it goes on. It notices when
the session was taken over, and it can end an attempt between two steps as if the process had ended there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import SessionError, SessionLockedError, SessionWriteError
from pure_agent_loop.sessions.store import Loaded, SessionInfo, SessionLog, SessionStore, is_remote
from pure_agent_loop.sessions.stores.records import Record

MARK = "durable_run"


class HandedBackError(SessionError):
    """This process does not go on with the run. Nothing more is written; another one will."""


@dataclass
class Guard:
    """What is to become of an attempt.

    Args:
        is_draining: It ends as soon as nothing is at work.
        is_cut: It writes nothing more.
        is_lost: Another process has taken the session over.
    """

    is_draining: bool = False
    is_cut: bool = False
    is_lost: bool = False


class GuardedLog(SessionLog):
    """An open session of an attempt.

    Args:
        log: The session.
        run_id: The durable run; None for the session of an agent that works for it.
        guard: What is to become of it.
    """

    def __init__(self, log: SessionLog, run_id: str | None, guard: Guard) -> None:
        self._log, self._run_id, self._guard = log, run_id, guard
        self._failure: SessionWriteError | None = None
        self.is_remote: bool = is_remote(log)  # then the journal appends in a thread

    @property
    def session_id(self) -> str:
        """The session."""
        return self._log.session_id

    @property
    def records(self) -> Sequence[Record]:
        """What was there when it was opened."""
        return self._log.records

    @property
    def problems(self) -> Sequence[str]:
        """What was damaged when it was opened."""
        return self._log.problems

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        durable: bool = False,
    ) -> Record:
        """Write one record, unless the attempt is over; `SessionLog.append` says more.

        Raises:
            HandedBackError: The attempt is over.
            SessionWriteError: This, or one before, could not be written. The next attempt goes on behind what
                was: that the run failed with this shall not stand there.
        """
        if self._guard.is_cut:
            raise HandedBackError("This run was handed back.")
        if self._failure is not None:
            raise self._failure
        if type == "run" and self._run_id is not None:
            data, durable = {**data, MARK: self._run_id}, True
        try:
            record = self._log.append(type, data, parent=parent, durable=durable)
        except SessionLockedError:
            self._guard.is_lost = self._guard.is_cut = True
            raise
        except SessionWriteError as error:
            self._failure = error
            raise
        if self._guard.is_draining and _is_between(type, data):
            self._guard.is_cut = True
            raise HandedBackError("This run was handed back.")
        return record

    def close(self) -> None:
        """Let others write."""
        self._log.close()


def _is_between(kind: str, data: Mapping[str, Any]) -> bool:
    """True where no tool is at work: an answer has come, or a step begins."""
    return kind == "answer" or (kind == "state" and data.get("stop_reason") is None)


class GuardedStore:
    """A store for one attempt of a durable run.

    Args:
        store: Where sessions are kept.
        run_id: The durable run.
        session_id: Its session. Those of the agents that work for it are opened too, and end with it.
        guard: What is to become of the attempt.
        seen: What was in the session when it was decided how to go on.
        takeover: Take the session from a writer who lost the run, where a store can do that.
    """

    def __init__(
        self,
        store: SessionStore,
        run_id: str,
        session_id: str,
        guard: Guard,
        seen: Sequence[Record],
        *,
        takeover: bool,
    ) -> None:
        self._store, self._run_id, self._guard, self._seen = store, run_id, guard, seen
        self._session_id = session_id
        self.records: Sequence[Record] = ()  # what was in the session when it was opened
        self._options: dict[str, Any] = {"takeover": True} if takeover else {}

    def open(self, session_id: str, *, create: bool = True) -> GuardedLog:
        """Open a session for writing.

        Raises:
            SessionLockedError: Another process has it, or had it since it was looked at: this one may have
                been frozen meanwhile, and the run be over.
        """
        log = self._store.open(session_id, create=create, **self._options)
        if session_id != self._session_id:
            return GuardedLog(log, None, self._guard)
        if [each.id for each in log.records[-1:]] != [each.id for each in self._seen[-1:]]:
            log.close()
            raise SessionLockedError(session_id, "another process, which has written to it just now")
        self.records = log.records
        return GuardedLog(log, self._run_id, self._guard)

    def read(self, session_id: str) -> Loaded:
        """Read a session."""
        return self._store.read(session_id)

    def list(self) -> Sequence[SessionInfo]:
        """Every session."""
        return self._store.list()

    def exists(self, session_id: str) -> bool:
        """True if there is such a session."""
        return self._store.exists(session_id)

    def delete(self, session_id: str) -> None:
        """Take a session away."""
        self._store.delete(session_id)


def attempts_of(records: Sequence[Record], run_id: str) -> int:
    """How often a durable run was begun or gone on with in a session."""
    return sum(each.type == "run" and each.data.get(MARK) == run_id for each in records)


def part_of(records: Sequence[Record], run_id: str) -> Sequence[Record]:
    """A session up to where a run with another task began behind this one; all of it if none did.

    Two runs may share a session. While one of them waits for an answer, or its worker is dead, another one
    goes on there: what stands behind its beginning says nothing about this run.
    """
    ours = [n for n, each in enumerate(records) if each.type == "run" and each.data.get(MARK) == run_id]
    for number in range(ours[-1] + 1 if ours else 0, len(records)):
        if records[number].type == "run" and isinstance(records[number].data.get("task"), str):
            return records[:number]
    return records
