"""Hand a run over to an engine that continues a copy of the session; the original accepts new tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pure_agent_loop.durable.client import Handle
from pure_agent_loop.durable.detaching import receiver
from pure_agent_loop.durable.engine import Engine
from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.values import queue_of
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.transcript import LEFT, read_resume_point

_QUEUED = "SELECT run FROM @runs WHERE run = ? UNION SELECT run FROM @deleted WHERE run = ?"


class SessionCopy:
    """Receiver for `Run.detach`; the session may be in any store, and can be continued while the copy runs.

        handle = await run.detach(SessionCopy(engine), "helper", to_session("chat"))

    The session is marked before the durable run is queued. A marked session takes new tasks, but its last run
    cannot be resumed there. If the process dies before the run is queued, `left` removes the mark.

    Args:
        engine: Engine that continues the copy.
        model: Name of the agent's model, used to register the agent; empty if a worker must have registered
            it.
        options: Further settings of the durable run, as for `Engine.submit`.
    """

    def __init__(self, engine: Engine, model: str = "", **options: Any) -> None:
        self._engine, self._model, self._options = engine, model, options

    def receive(
        self, journal: Journal, options: Mapping[str, Any], agent: str, deliver: Delivery | None
    ) -> Callable[[QueryState, Kit], Awaitable[Handle]]:
        """Check that a run can be continued; see `Engine.receive`."""
        engine, queue = self._engine, self._engine.queue
        _ = queue.carrier
        if self._model:
            queue.register_agents({agent: queue_of(self._model)})
        given = {**options, **self._options}
        return receiver(engine, engine.sessions, journal, given, agent, deliver, copies=True)

    def left(self, store: SessionStore, session_id: str) -> str:
        """Return the id of the durable run that continues the last run of a session; empty if there is none.

        If that run was never queued, because its process died first, the session can be resumed again.

        Raises:
            DurableError: The database is unavailable.
            SessionError: The session cannot be read or written, or is in use.
        """
        if not read_resume_point(store.read(session_id).records, session_id).left:
            return ""
        with store.open(session_id) as log:  # fails while another process is handing the run over
            run_id = read_resume_point(log.records, session_id).left
            if run_id and not self._engine.database.rows(_QUEUED, run_id, run_id):
                log.append(LEFT, {"run": ""}, durable=True)
                return ""
        return run_id
