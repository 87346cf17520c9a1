"""Retention: each day, delete the sessions and runs that have been unused for a number of days.

The time of the last deletion is stored in the engine's database, so that only one of several servers deletes;
without an engine, that time is the modification time of a file in the server's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.kernel.observers import Auditor, CallRecord, CallStatus
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.session import DAY, prune
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop.server")
TOOL = "delete_session"  # the tool's name under which audit logs list a deletion
_MIN_PAUSE, _MAX_PAUSE = 1.0, 3600.0  # seconds between two checks of the clock
_FILE = "retention"  # its modification time is the time of the last deletion


@contextlib.asynccontextmanager
async def retention(hub: Hub, days: int | None, folder: Path, engine: Any) -> AsyncIterator[None]:
    """Within the block, delete unused sessions and runs, at once and then daily; none if `days` is None."""
    task = None if days is None else asyncio.create_task(Retention(hub, days, folder, engine).repeat())
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


class Retention:
    """Deletes unused sessions and runs once a day.

    Args:
        days: Days since the last use.
        folder: The server's own files.
    """

    def __init__(self, hub: Hub, days: int, folder: Path, engine: Any = None) -> None:
        self._hub, self._days, self._engine, self._file = hub, days, engine, folder / _FILE
        audits = [agent.config.audit for agent in hub.agents.values() if agent.config.audit is not None]
        # Agents may have different objects for the same log.
        self._audits: Collection[Auditor] = {getattr(each, "path", each): each for each in audits}.values()

    async def repeat(self) -> None:
        """Delete at once and then daily, until this task is cancelled."""
        while True:
            seconds = _MAX_PAUSE
            try:
                seconds = await asyncio.to_thread(self._work)
                await self._forget(time.time() - self._days * DAY)
            except Exception as error:  # noqa: BLE001 - the next attempt may succeed
                LOG.warning(notice("library.prune_failed", error=safe_str(error)))
            await asyncio.sleep(min(max(seconds, _MIN_PAUSE), _MAX_PAUSE))

    def _work(self) -> float:
        """Delete if a deletion is due, and return the seconds until the next one."""
        claim = self._claim_file if self._engine is None else self._engine.claim_day
        if (wait := claim()) > 0:
            return float(wait)
        now = time.time()
        with self._deletion() as deletion:
            deleted = prune(self._hub.sessions.store, self._days, now, partial(self._delete, deletion.delete))
            stray = deletion.delete_stray(now - self._days * DAY)
        claim(is_done=True)
        LOG.info(notice("library.pruned", days=self._days, sessions=len(deleted), runs=len(stray)))
        return DAY

    def _claim_file(self, *, is_done: bool = False) -> float:
        """Claim the deletion; see `EngineWork.claim_day`."""
        now = time.time()
        wait = self._file.stat().st_mtime + DAY - now if self._file.exists() else 0.0
        if is_done or wait <= 0:
            self._file.touch(mode=0o600)
            os.utime(self._file, (now, now if is_done else now - DAY + _MAX_PAUSE))
        return wait

    @contextlib.contextmanager
    def _deletion(self) -> Any:
        if self._engine is None:
            yield _Sessions(self._hub.sessions.delete)
        else:
            with self._engine.deletion() as deletion:
                yield deletion

    def _delete(self, delete: Callable[[str], None], session: str) -> None:
        """Delete a session, logged as a call in each audit log; see `kernel.observers.Auditor`."""
        args = {"session": session, "unused_days": self._days}
        calls = [
            (audit, CallRecord(TOOL, args, "allow", "keep_days", session_id=session))
            for audit in self._audits
        ]
        for audit, call in calls:
            audit.begin(call)
        started = time.monotonic()
        status: CallStatus = "error"
        try:
            delete(session)
            status = "ok"
        finally:
            for audit, call in calls:
                audit.end(call, "", status, time.monotonic() - started)
        LOG.info(notice("library.session_pruned", session=session, days=self._days))

    async def _forget(self, before: float) -> None:
        """Discard this server's data about sessions that were deleted, here or by another server."""
        old = self._hub.unused_sessions(before)
        store = self._hub.sessions.store
        for session in old:
            with contextlib.suppress(PureAgentLoopError):
                if not await asyncio.to_thread(
                    store.exists, session
                ) and session in self._hub.unused_sessions(before):
                    self._hub.forget_session(session)
        self._hub.drop_event_files(before)


class _Sessions:
    """Deletion of sessions without an engine."""

    def __init__(self, delete: Callable[[str], None]) -> None:
        self.delete = delete

    def delete_stray(self, before: float) -> list[str]:  # noqa: ARG002 - each run has a session
        """Return no runs."""
        return []
