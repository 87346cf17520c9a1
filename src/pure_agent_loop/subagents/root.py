"""What stands in the kit of an agent that can give tasks to others, until its run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.subagents.run_tasks import RunTasks
from pure_agent_loop.subagents.table import TaskTable

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore


class Root:
    """What stands in a kit until its run begins.

    Args:
        table: What the runs of a `SubagentManager` share.
        depth: How many agents stand above the run.
        sessions: Where sessions are kept.
    """

    def __init__(self, table: TaskTable, depth: int, sessions: SessionStore | None) -> None:
        self._table, self._depth, self._sessions = table, depth, sessions

    def with_run(self, state: QueryState, kit: Kit) -> RunTasks:
        """The tasks of a run that begins; it is told what it does not know of earlier ones."""
        session = state.session_id
        store = self._table.store_for(self._sessions) if session else None
        run = RunTasks(self._table, state, kit, self._sessions, store, self._depth, self.below)
        if store is not None:
            self._table.reports[session] = run.notify
            run.catch_up(store)
        return run

    def below(self, depth: int) -> Root:
        """The same, so many levels down."""
        return Root(self._table, depth, self._sessions)

    async def wait(self) -> None:
        """There is nothing to wait for."""
