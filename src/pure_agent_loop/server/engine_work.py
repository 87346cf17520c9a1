"""Runs that an engine of durable runs works on: here, and in every other process on its database.

The server submits, answers and cancels, and takes the engine's events over into the channel of the session.
Each keeps the number it had in the engine, so that after a restart the next one follows the last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import failed_with
from pure_agent_loop.durable.engine import Engine
from pure_agent_loop.durable.events import handovers
from pure_agent_loop.durable.handle import POLL_SECONDS
from pure_agent_loop.durable.values import DurableError, TaskInfo
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.permissions import Permission
from pure_agent_loop.server.entries import plain_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.runs_file import Live, RunInfo
from pure_agent_loop.sessions import SessionStore, new_session_id
from pure_agent_loop.stop_reasons import WAITING

if TYPE_CHECKING:
    from pure_agent_loop.durable.schedules.schedules import Schedules

LOG = logging.getLogger("pure_agent_loop.server")
AGAIN_SECONDS = 1.0  # while the database is away


class EngineWork:
    """An engine, as a hub uses it.

    Args:
        database: Where durable runs are kept.
        agents: Who can do what; this process works, too.
        grace: Seconds that tools at work get to end when the server stops.
    """

    def __init__(self, database: str, agents: Mapping[str, Agent], grace: float) -> None:
        self._engine = Engine(database, agents=agents, grace=grace)

    @property
    def sessions(self) -> SessionStore:
        """Where the engine keeps sessions."""
        return self._engine.sessions

    @property
    def schedules(self) -> Schedules:
        """What workers run again and again."""
        return self._engine.schedules

    def fleet(
        self, limit: int
    ) -> tuple[list[TaskInfo], dict[str, str], dict[str, int], list[tuple[str, str]]]:
        """The newest runs; the queue of each agent that workers have had; how often runs were left before
        their end, by run; and the workers, each with its host.

        Raises:
            DurableError: The database cannot be used.
        """
        client, tasks = self._engine._client, self._engine.tasks(limit=limit)  # one package
        left = handovers(client.database, [each.run_id for each in tasks])
        workers = client.database.rows("SELECT executor, host FROM @workers ORDER BY executor")
        return tasks, client.agents(), left, [(str(name), str(host)) for name, host in workers]

    async def start(self) -> None:
        """Begin to work."""
        await asyncio.to_thread(self._engine.start)

    async def close(self) -> None:
        """Stop working; what is at work is handed back, for this or another process."""
        await asyncio.to_thread(self._engine.close)

    def cancel(self, run_id: str) -> None:
        """Cancel a run."""
        self._engine.handle(run_id).cancel()

    def answer(self, run_id: str, call_id: str, said: Permission) -> None:
        """Answer a question of a run."""
        self._engine.handle(run_id).answer(call_id, said)

    def give_result(self, run_id: str, call_id: str, result: str, *, is_error: bool) -> None:
        """Bring a result that a run waits for."""
        self._engine.handle(run_id).give_result(call_id, result, is_error=is_error)

    async def follow(self, hub: Hub, live: Live) -> None:
        """Have a run done, and take its events over until it ends or waits.

        Args:
            hub: Where it belongs.
            live: The run.
        """
        info = live.info
        if not info.durable:  # kept before it is submitted: a second time it is the same run
            hub.note(info, durable=new_session_id())
        found: TaskInfo | None = None
        try:
            while found is None:
                found = await self._followed(hub, info)
        except PureAgentLoopError as error:
            hub.outcome(info, failed_with(error))
            return
        about = {
            "content": found.content,
            "error": found.error,
            "questions": [asdict(each) for each in found.questions],
            "open_calls": [each.to_dict() for each in found.open_calls],
        }
        hub.outcome(info, {**found.details, **about, "stop_reason": found.stop_reason or found.status})

    async def _followed(self, hub: Hub, info: RunInfo) -> TaskInfo | None:
        try:
            return await self._watched(hub, info)
        except DurableError as error:
            LOG.warning("The run %s waits for its database: %s", info.id, error)
            await asyncio.sleep(AGAIN_SECONDS)
            return None

    async def _watched(self, hub: Hub, info: RunInfo) -> TaskInfo:
        """Submit the run, which has an effect only once, and take events over until it has stopped."""
        handle = await self._engine.asubmit(
            info.agent, info.task, run_id=info.durable, session_id=info.session
        )
        channel = hub.channel(info.session)
        seen = await channel.newest_source(info.id)
        while True:
            found, before = await asyncio.to_thread(handle.info), seen
            async for event in handle.events(follow=False, after=seen):
                seen = event.number
                info.steps = max(info.steps, event.step)
                channel.add({**plain_event(event), "source": seen}, info.id)
            if seen == before and (found.has_ended or found.status in WAITING):
                return found
            if seen == before:
                await asyncio.sleep(POLL_SECONDS)
