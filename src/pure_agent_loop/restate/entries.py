"""A Restate invocation's log as the records of a run.

Every entry is a recorded step; all have the same name, and each value is a list of records. Restate compares
entries by position and name, so a different order of effects, parallel calls or changed code cannot
contradict the log. An attempt reads the recorded entries first, up to the first step that Restate executes
instead of replaying. Then the run begins or resumes, and this step waits for the run's next records.

If the recorded entries hold an intent without an outcome, an earlier attempt in this or another process wrote
the intent, so the outcome is unknown. A call begins only after its intent is confirmed, so an attempt that
has lost its connection begins no further call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from pure_agent_loop.errors import SessionLockedError, SessionNotFoundError, SessionWriteError
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.sessions.resume import apply_recorded_effects
from pure_agent_loop.sessions.store import Loaded, SessionInfo, SessionLog
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.text import to_jsonable

ENTRY = "records"  # name of every step; it cannot change, because the logs of open invocations contain it
CANCEL_SECONDS = 5.0
_AWAITED = ("intent", "answer", "outcome", "value")
_INBOX = "inbox:"  # prefix of keys that sync code records; nothing waits until the log holds them


class Entries:
    """Session store of one attempt: reads the invocation's entries, then adds new ones.

    Args:
        context: Restate's invocation context.
        session_id: Session of the run. Subagents of the run have further sessions in the same log.
        kept: State of the session after its earlier runs, as returned by `kept`; None for a new session.
        beat: Seconds after which an empty entry is written during a long effect, so that Restate does not
            consider the attempt stalled.
    """

    def __init__(self, context: Any, session_id: str, kept: Mapping[str, Any] | None, beat: float) -> None:
        self._context, self._session_id, self._beat = context, session_id, beat
        self._lock = threading.Lock()
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._wake = asyncio.Event()
        self._sessions: dict[str, list[Record]] = {}
        self._confirmed: list[Record] = []  # records of the run's session that the log already holds
        self._due: list[dict[str, Any]] = []
        self._waiting: list[Future[None]] = []
        self._sent: list[Future[None]] = []
        self._open: set[str] = set()
        self._is_live = self._is_over = False
        if kept is not None:
            self._take("boundary", {"messages": kept["messages"]})
            self._take("state", kept["state"])
        self._count_kept = len(self._confirmed)

    @property
    def is_new(self) -> bool:
        """True if the log holds no record of this run."""
        return len(self._confirmed) == self._count_kept

    # -- the store; the run's functions may use it from several threads --------------------------------------

    def open(self, session_id: str, *, create: bool = True) -> EntryLog:
        """Open a session for writing; see `SessionStore.open`."""
        with self._lock:
            if session_id in self._open:
                raise SessionLockedError(session_id, "this run")
            if session_id not in self._sessions and not create:
                raise SessionNotFoundError(f"This run has no session {session_id!r}.")
            self._open.add(session_id)
            return EntryLog(self, session_id, tuple(self._sessions.setdefault(session_id, [])))

    def close(self, session_id: str) -> None:
        """Release a session for other writers."""
        self._open.discard(session_id)

    def read(self, session_id: str) -> Loaded:
        """Read a session; see `SessionStore.read`."""
        if session_id not in self._sessions:
            raise SessionNotFoundError(f"This run has no session {session_id!r}.")
        return Loaded([*self._sessions[session_id]], [])

    def list(self) -> Sequence[SessionInfo]:
        """Return the sessions of this run."""
        return [
            SessionInfo(name, records[0].time, records[-1].time, 0)
            for name, records in self._sessions.items()
            if records
        ]

    def exists(self, session_id: str) -> bool:
        """Return True if this run has the session."""
        return session_id in self._sessions

    def delete(self, session_id: str) -> None:
        """Delete a subagent's session from memory; its records stay until Restate removes the log."""
        if self._sessions.pop(session_id, None) is None:
            raise SessionNotFoundError(f"This run has no session {session_id!r}.")

    def add(self, session_id: str, kind: str, data: Mapping[str, Any], *, durable: bool) -> Record:
        """Add a record; if it is an intent or the result of an effect, wait until the log holds it.

        Raises:
            SessionWriteError: The attempt is over; another one resumes the run.
        """
        with self._lock:
            if self._is_over:
                raise SessionWriteError(session_id, "this attempt of the invocation is over")
            record = self._append(session_id, kind, to_jsonable(data))
            if not self._is_live:  # an answer, which the log already holds as the value of an awakeable
                self._confirmed.append(record)
                return record
            self._due.append({"session": session_id, **asdict(record)})
            is_awaited = durable and kind in _AWAITED and not str(data.get("key")).startswith(_INBOX)
            if not is_awaited or threading.get_ident() == self._loop_thread:
                return record
            confirmation: Future[None] = Future()
            self._waiting.append(confirmation)
        self._loop.call_soon_threadsafe(self._wake.set)
        confirmation.result()
        return record

    def _append(self, session_id: str, kind: str, data: dict[str, Any]) -> Record:
        records = self._sessions.setdefault(session_id, [])
        parent = records[-1].id if records else None
        record = Record(f"{len(records) + 1:08d}", parent, round(time.time(), 6), kind, data)
        records.append(record)
        return record

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        self._confirmed.append(self._append(self._session_id, kind, data))

    # -- the entries; only the handler's own task uses Restate's context -------------------------------------

    async def record(self, begin: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Read all existing entries of a run, then execute the run and write its records.

        Args:
            begin: Function that executes the run from this store's records, and returns its outcome as plain
                JSON. The last entry holds the outcome; if the log already has it, `begin` is not called.
        """
        from restate import RunOptions
        from restate.serde import JsonSerde

        work: asyncio.Future[dict[str, Any]] | None = None

        async def next_entry() -> dict[str, Any]:
            nonlocal work
            if work is None:
                self._is_live = True
                work = asyncio.ensure_future(begin())
                work.add_done_callback(lambda _: self._wake.set())
            return await self._next_entry(work)

        try:
            while True:
                entry = await self._context.run_typed(ENTRY, next_entry, RunOptions(serde=JsonSerde()))
                self._confirm(entry["records"], is_replayed=work is None)
                if "outcome" in entry:
                    outcome: dict[str, Any] = entry["outcome"]
                    return outcome
        except BaseException:  # after a cancellation or disconnection, nothing more may be written
            self._stop()
            if work is not None and not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=CANCEL_SECONDS)
            raise
        finally:
            self._is_live = False

    async def _next_entry(self, work: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        await set_within(self._beat, self._wake)
        self._wake.clear()
        if self._is_over:  # write nothing more, because an entry would contradict the cancellation
            await self._loop.create_future()
        with self._lock:
            if not (work.done() or self._waiting):
                return {"records": []}
            records, self._due = self._due, []
            self._sent, self._waiting = self._waiting, []
        return {"records": records, "outcome": work.result()} if work.done() else {"records": records}

    def _confirm(self, entries: Sequence[Mapping[str, Any]], *, is_replayed: bool) -> None:
        for entry in entries:
            fields = dict(entry)
            session_id, record = fields.pop("session"), Record(**fields)
            if is_replayed:
                self._sessions.setdefault(session_id, []).append(record)
            if session_id == self._session_id:
                self._confirmed.append(record)
        for confirmation in self._sent:
            confirmation.set_result(None)
        self._sent = []

    def _stop(self) -> None:
        with self._lock:
            self._is_over = True
            lost = [*self._sent, *self._waiting]
        for confirmation in lost:
            confirmation.set_exception(SessionWriteError(self._session_id, "the connection to Restate ended"))

    def kept(self) -> dict[str, Any] | None:
        """Return the session's state for the next run, as plain JSON; None if this run left no state.

        The value depends only on what the log holds. If the run was interrupted, its open calls are closed.
        """
        point = read_resume_point(self._confirmed, self._session_id)
        state = point.to_state()
        if state is None:
            return None
        if point.was_cut_off or state.pending:
            apply_recorded_effects(state, point, prompts_for())
        plain = state.to_dict()
        return {"messages": plain.pop("messages"), "state": plain}


class EntryLog(SessionLog):
    """Open session of `Entries`; its records become entries of the invocation's log."""

    is_remote = True  # the run appends in a thread, because an append waits for Restate

    def __init__(self, entries: Entries, session_id: str, records: Sequence[Record]) -> None:
        self._entries, self._session_id, self._records = entries, session_id, records

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self._session_id

    @property
    def records(self) -> Sequence[Record]:
        """Records at the time of opening."""
        return self._records

    @property
    def problems(self) -> Sequence[str]:
        """Always empty, because Restate checks its log."""
        return ()

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,  # noqa: ARG002 - records of a run follow each other
        durable: bool = False,
    ) -> Record:
        """Write one record; see `SessionLog.append`."""
        return self._entries.add(self._session_id, type, data, durable=durable)

    def close(self) -> None:
        """Release the session for other writers."""
        self._entries.close(self._session_id)
