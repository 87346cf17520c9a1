"""Hand a run in progress over to an engine: its session is marked first, then a durable run is queued.

The handover is complete when the queueing transaction commits. Before that, the session holds an interrupted
run, which a person can resume. After that, a worker continues the session as if an earlier worker had died,
and this process writes no further record. With `copies`, the worker continues a copy of the session; see
`SessionCopy`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pure_agent_loop.durable.client import Client, Handle
from pure_agent_loop.durable.database import Change
from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.schedules.schedule import Schedule
from pure_agent_loop.durable.schedules.schedules import FIRE
from pure_agent_loop.durable.task_options import pack_options
from pure_agent_loop.durable.values import FIRED, check_agent_name
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.fork import copy_session
from pure_agent_loop.sessions.transcript import SessionJournal
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.threads import in_thread

_DAY = 86_400.0


def receiver(
    client: Client,
    store: SessionStore,
    journal: Journal,
    options: Mapping[str, Any],
    agent: str,
    deliver: Delivery | None,
    *,
    copies: bool = False,
) -> Callable[[QueryState, Kit], Awaitable[Handle]]:
    """Check that a run can be handed over, and return the function that does so; see `Engine.receive`.

    Args:
        store: Store of the durable run, which must hold the run's session.
        copies: True to continue a copy of the session, which may be in another store.
    """
    source = journal.store if isinstance(journal, SessionJournal) else None
    if not isinstance(journal, SessionJournal) or source is None or not (copies or source is store):
        raise ConfigError(notice("library.detach_store"))
    queue, packed = client.queue.queue_for(check_agent_name(agent)), pack_options(options)
    name = f"detached-{secrets.token_hex(8)}"
    # The answer is delivered through a schedule without due times, whose only run has already begun.
    spec = None if deliver is None else Schedule(name, agent, name, every=_DAY, deliver=deliver)
    run_id = name if spec is None else f"{FIRED}{name}"

    def add(change: Change) -> None:
        if spec is not None:
            now = time.time()
            change(FIRE, run_id, name, now, json.dumps(spec.to_dict()), "running", "", now)

    async def hand_over(state: QueryState, kit: Kit) -> Handle:
        session_id = state.session_id
        if copies:
            session_id, run = name, await journal.leave(state, kit, run_id)
            await in_thread(lambda: copy_session(source, state.session_id, store, name, run))
        else:
            await journal.hand_over(state, kit, run_id)
        work = (agent, state.task, session_id)
        await in_thread(lambda: client.queue.enqueue(run_id, work, queue, packed, add=add))
        return Handle(client, run_id)

    return hand_over
