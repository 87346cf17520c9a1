"""Move the answers of scheduled runs to a session, whose next run reads each answer once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pure_agent_loop.durable.database import Database
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import LEFT

_WAITING = "SELECT run, schedule, due, answer FROM @notices WHERE session = ? ORDER BY number"


def bring_notices(
    database: Database,
    session_id: str,
    read: Callable[[], Sequence[Record]],
    prompts: Prompts,
    inbox: Inbox,
) -> None:
    """Move a session's notices to the inbox of its run. The session must be open for that run.

    A notice counts as read when the session's records contain it, so a process that dies earlier loses
    nothing.

    Args:
        read: Function that returns all records of the session; called only if there are notices.
    """
    waiting = database.rows(_WAITING, session_id)
    records = read() if waiting else ()
    for run_id, schedule, due, answer in waiting:
        if _has_read(records, run_id):
            database.change("DELETE FROM @notices WHERE run = ?", run_id)
            continue
        text = prompts.scheduled.format(run=run_id, name=schedule, due=due, answer=answer)
        inbox.put(text if run_id in text else f"[{run_id}] {text}", synthetic=True)


def _has_read(records: Sequence[Record], run_id: str) -> bool:
    return any(record.type not in ("run", LEFT) and run_id in json.dumps(record.data) for record in records)
