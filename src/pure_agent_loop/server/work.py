"""Execute a run in the server's process."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

from pure_agent_loop.durable.attempt import (
    GuardedStore,
    already_done,
    attempts_of,
    failed_with,
    outcome_of,
    records_of_run,
)
from pure_agent_loop.errors import PureAgentLoopError, SessionLockedError
from pure_agent_loop.limits import PERSON
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import naming
from pure_agent_loop.server.entries import plain_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.runs_file import ActiveRun, RunInfo
from pure_agent_loop.sessions.stores.records import Record

LOCKED_SECONDS = 2.0  # how long a new run waits for a session that another process has locked
PAUSE_SECONDS = 0.1


async def work_here(hub: Hub, live: ActiveRun) -> None:
    """Execute a run until it ends, suspends, or the process stops.

    A resumed run reuses its records: finished calls are not repeated.
    """
    info = live.info
    deadline = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            outcome = await _execute(hub, live)
        except SessionLockedError as error:
            # Another process is recording an answer, or is running a task in this session. A new run gives up
            # after `LOCKED_SECONDS`; a resumed run keeps trying.
            if not live.token.is_cancelled and (info.attempt > 1 or time.monotonic() < deadline):
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            outcome = failed_with(error)
            outcome["stop_reason"] = "cancelled" if live.token.is_cancelled else "error"
        except PureAgentLoopError as error:
            outcome = failed_with(error)
        break
    if not live.guard.is_cut:
        hub.outcome(info, outcome)


async def _execute(hub: Hub, live: ActiveRun) -> dict[str, Any]:
    info, channel = live.info, hub.channel(live.info.session)
    records = await asyncio.to_thread(_records, hub, info)
    own_records = records_of_run(records, info.id)
    attempts = attempts_of(records, info.id)
    outcome = already_done(own_records) if attempts and len(own_records) == len(records) else None
    if outcome is not None:
        return outcome
    run = await asyncio.to_thread(_prepare, hub, live, records, attempts)
    async with aclosing(run.stream()) as events:
        async for event in events:
            if live.guard.is_cut:
                break
            channel.add(plain_event(event), info.id)
            if event.step > info.steps:
                info.steps = event.step
    return outcome_of(run.result())


def _records(hub: Hub, info: RunInfo) -> list[Record]:
    store = hub.sessions.store
    return store.read(info.session).records if store.exists(info.session) else []


def _prepare(hub: Hub, live: ActiveRun, records: list[Record], attempts: int) -> Run:
    info = live.info
    store = GuardedStore(hub.sessions.store, info.id, info.session, live.guard, records, takeover=False)
    agent = hub.agents[info.agent]
    with naming(agent, info.agent):
        return agent.prepare(
            None if attempts else info.task,
            session_id=info.session,
            sessions=store,
            cancel_token=live.token,
            inbox=live.inbox,
            media=None if attempts else list(live.media),
            metadata={PERSON: info.owner},
            **settings_of(info),
        )


def settings_of(info: RunInfo) -> dict[str, Any]:
    """Return the settings of a run that differ from its agent's."""
    return {"model": info.model} if info.model else {}
