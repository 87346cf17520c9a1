"""Delete sessions and durable runs with all their data: rows, subagents, and files on this machine."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial

from pure_agent_loop.durable.database import Change
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import Record, SessionStore
from pure_agent_loop.sessions.store import retry_while_locked
from pure_agent_loop.sessions.transcript import DURABLE_RUN
from pure_agent_loop.support.language import notice

STOP_SECONDS = 30.0  # seconds for a worker to notice a cancelled run and close the session
_PAUSE = 0.1
# pattern of the id of a subagent's task
_SUBAGENT = re.compile(r"[a-z][a-z0-9_-]*-([0-9a-f]{6}|[0-9a-f]{8})")
_MAX_CHILD_ID = 64  # maximum length of a subagent's session id; see `subagents.child`
_OWN = ("answers", "answered", "runs", "exits", "cancelled", "inputs", "firings", "notices", "events")
_TABLES_OF_RUNS = {
    True: "SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c ON c.name = 'workflow_uuid' "
    "WHERE t.type = 'table'",
    False: "SELECT table_schema || '.' || table_name FROM information_schema.columns "
    "WHERE table_schema IN ('dbos', 'pal_durable') AND column_name = 'workflow_uuid'",
}


class Deletion:
    """Deletes runs and sessions of one database. Call `scrub` at the end.

    Args:
        store: Store of the database's sessions.
        is_trial: True to only check and delete nothing.
    """

    def __init__(self, queue: RunQueue, store: SessionStore, *, is_trial: bool = False) -> None:
        self._is_trial, self._has_deleted = is_trial, False
        self._queue, self._store, self._database = queue, store, queue.database
        self._manager = SessionManager(store)
        self._all_sessions: list[str] | None = None

    def delete_runs(self, run_ids: Sequence[str], *, stop: bool = False) -> None:
        """Delete runs with their sessions.

        Args:
            stop: True to cancel the runs that have not ended.

        Raises:
            ConfigError: A run has not ended, or its session also holds other runs or tasks.
            DurableNotFoundError: A run does not exist.
            SessionLockedError: A session is in use.
        """
        sessions = dict.fromkeys(self._queue.info(run_id).session_id for run_id in run_ids)
        for session_id in sessions:
            others = self.runs_of(session_id) - {*run_ids}
            tasks = self._records(session_id, "task")
            if others or any(record.data.get(DURABLE_RUN) is None for record in tasks):  # a person's task
                raise ConfigError(
                    notice(
                        "library.session_shared",
                        session=session_id,
                        others=", ".join(sorted(others)) or "-",
                        database=self._database.display_url,
                    )
                )
        unfinished = [run_id for run_id in run_ids if not self._queue.info(run_id).has_ended]
        if unfinished and not stop:
            raise ConfigError(notice("library.run_unfinished", runs=", ".join(unfinished)))
        for run_id in () if self._is_trial else unfinished:
            self._queue.cancel(run_id)
        for session_id in sessions:
            self._delete_session(session_id, STOP_SECONDS if unfinished else 0.0)
        self._delete_rows(run_ids)

    def delete(self, session_id: str) -> None:
        """Delete a session with its durable runs.

        Raises:
            ConfigError: A run of the session has not ended.
            SessionLockedError: The session is in use.
            SessionNotFoundError: The session does not exist.
        """
        if not self._store.exists(session_id):
            self._store.delete(session_id)  # raises SessionNotFoundError
        runs = sorted(self.runs_of(session_id))
        if unfinished := [run_id for run_id in runs if not self._queue.info(run_id).has_ended]:
            raise ConfigError(notice("library.run_unfinished", runs=", ".join(unfinished)))
        self._delete_session(session_id, 0.0)
        self._delete_rows(runs)

    def delete_stray(self, before: float) -> list[str]:
        """Delete the ended runs without a session, and return their ids.

        Args:
            before: Delete only runs that ended before this time, in seconds since the epoch.
        """
        stray, last = list[str](), ""
        while page := self._queue.all_runs.ended(before, last):
            run_ids = [run_id for run_id, session_id in page if not self._store.exists(session_id)]
            self._delete_rows(run_ids)
            stray, last = stray + run_ids, page[-1][0]
        return stray

    def runs_of(self, session_id: str) -> set[str]:
        """Return a session's durable runs, including those that have not started."""
        found = {record.data[DURABLE_RUN] for record in self._records(session_id, DURABLE_RUN)}
        rows = self._database.rows("SELECT run FROM @runs WHERE session = ?", session_id)
        known = sorted(found | {str(run) for (run,) in rows})
        infos = self._queue.find_runs(workflow_ids=known) if known else []
        return {info.run_id for info in infos if info.session_id == session_id}

    def scrub(self) -> None:
        """Free the space of deleted data, so that the files of an SQLite database no longer contain it."""
        if self._has_deleted and self._database.is_sqlite:
            with contextlib.closing(self._database.connect()) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _records(self, session_id: str, key: str) -> list[Record]:
        records = self._store.read(session_id).records if self._store.exists(session_id) else ()
        return [record for record in records if record.type == "run" and record.data.get(key) is not None]

    def _delete_session(self, session_id: str, patience: float) -> None:
        if self._is_trial:
            return
        self._has_deleted = True
        if self._store.exists(session_id):  # a run that never started has no session
            retry_while_locked(partial(self._manager.delete, session_id), patience, _PAUSE)
        for child in self._children_of(session_id):  # subagents' sessions whose parents ran on other machines
            self._delete_session(child, patience)

    def _children_of(self, session_id: str) -> list[str]:
        """Return the sessions of a session's subagents, found by name."""
        if self._all_sessions is None:
            self._all_sessions = [info.id for info in self._store.list()]
        parts = [(name, *name.rpartition(".")[::2]) for name in self._all_sessions]
        return [
            name
            for name, head, task in parts
            if _SUBAGENT.fullmatch(task) and head == session_id[: _MAX_CHILD_ID - 1 - len(task)]
        ]

    def _delete_rows(self, run_ids: Sequence[str]) -> None:
        if self._is_trial or not run_ids:
            return
        self._has_deleted = True
        tables = [str(name) for (name,) in self._database.rows(_TABLES_OF_RUNS[self._database.is_sqlite])]
        # Delete from the run table last, because rows in other tables refer to its rows.
        tables.sort(key=lambda name: name == self._database.runs_table)

        def delete(change: Change) -> None:
            # An attempt that is just ending writes its last events before this statement, or not at all.
            if not self._database.is_sqlite:
                change("LOCK TABLE @events IN SHARE ROW EXCLUSIVE MODE")
            for run_id in run_ids:
                change("INSERT INTO @deleted (run) VALUES (?) ON CONFLICT DO NOTHING", run_id)
                for table in _OWN:
                    change(f"DELETE FROM @{table} WHERE run = ?", run_id)  # noqa: S608 - our names
                for table in tables:
                    change(f"DELETE FROM {table} WHERE workflow_uuid = ?", run_id)  # noqa: S608 - of the catalogue

        self._database.transaction(delete)
