"""A run that the server's own process works on, in a task of its own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from pure_agent_loop.durable.attempt import already_done, failed_with, outcome_of
from pure_agent_loop.durable.guard import GuardedStore, attempts_of, part_of
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.runs.run import Run
from pure_agent_loop.server.entries import plain_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.runs_file import Live, RunInfo
from pure_agent_loop.sessions.stores.records import Record


async def work_here(hub: Hub, live: Live) -> None:
    """Work on a run until it ends, waits, or the process is to stop.

    What it recorded before counts: nothing that was finished happens twice.

    Args:
        hub: Where it belongs.
        live: The run.
    """
    info = live.info
    try:
        outcome = await _work(hub, live)
    except PureAgentLoopError as error:
        outcome = failed_with(error)
    if not live.guard.is_cut:
        hub.outcome(info, outcome)


async def _work(hub: Hub, live: Live) -> dict[str, Any]:
    info, channel = live.info, hub.channel(live.info.session)
    records = await asyncio.to_thread(_records, hub, info)
    part = part_of(records, info.id)
    count = attempts_of(records, info.id)
    done = already_done(part) if count and len(part) == len(records) else None
    if done is not None:
        return done
    run = await asyncio.to_thread(_open, hub, live, records, count)
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


def _open(hub: Hub, live: Live, records: list[Record], count: int) -> Run:
    info = live.info
    store = GuardedStore(hub.sessions.store, info.id, info.session, live.guard, records, takeover=False)
    return hub.agents[info.agent].prepare(
        None if count else info.task,
        session_id=info.session,
        sessions=store,
        cancel_token=live.token,
        inbox=live.inbox,
        media=None if count else list(live.media),
    )
