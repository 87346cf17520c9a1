"""Durable runs: the same agents on an engine that outlives processes. Needs the extra ``[durable]``.

    values    the words: statuses, rates, what is known of a run
    database  the one database, and the tables beside those of the engine
    client    what any process can do: submit, look, answer, cancel
    handle    one run, seen from outside
    events    events of runs, for readers in other processes
    guard     the session of an attempt
    attempt   one attempt of a run
    liveness  which workers live
    schedules/ runs at set times
    worker    a process that works
    engine    both sides together

DBOS gives queues, limits, ownership and states. That a finished effect does not happen twice is the doing of
the session's journal. docs/durable.md says what follows from that.
"""

from __future__ import annotations

import atexit
import threading

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.database import default_database
from pure_agent_loop.durable.engine import Engine
from pure_agent_loop.durable.handle import Handle
from pure_agent_loop.durable.schedules.delivery import Delivery, to_command, to_file, to_session
from pure_agent_loop.durable.schedules.schedule import Schedule, heartbeat
from pure_agent_loop.durable.schedules.schedules import Firing, ScheduleInfo, Schedules
from pure_agent_loop.durable.values import ENDED, DurableError, Rate, TaskInfo
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import TASK_STATES

__all__ = [
    "ENDED",
    "TASK_STATES",
    "Delivery",
    "DurableError",
    "Engine",
    "Firing",
    "Handle",
    "Rate",
    "Schedule",
    "ScheduleInfo",
    "Schedules",
    "TaskInfo",
    "default_database",
    "heartbeat",
    "submit",
    "to_command",
    "to_file",
    "to_session",
]

_LOCK = threading.Lock()
_EMBEDDED: dict[str, Engine] = {}  # one: the engine underneath is one for each process


def submit(
    agent: Agent,
    task: str,
    *,
    name: str | None = None,
    database: str | None = None,
    run_id: str | None = None,
) -> Handle:
    """Submit a task to an engine that works in this process, which is started for that.

    If the process dies, the run goes on when this is called again for the same agent and database.

    Args:
        agent: Who does it.
        task: What to do.
        name: The name of the agent among others; ``default`` if None.
        database: Where it is kept; see `Engine`.
        run_id: Names the run; see `Engine.submit`.

    Raises:
        ConfigError: An engine with another database works in this process.
        DurableError: The database cannot be used.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """
    url = database or default_database()
    name = name or "default"
    with _LOCK:
        if _EMBEDDED and url not in _EMBEDDED:
            raise ConfigError(f"This process works on {next(iter(_EMBEDDED.values())).database.shown}.")
        engine = _EMBEDDED.get(url)
        known = {} if engine is None else engine.agents
        if engine is None or known.get(name) is not agent:
            if engine is not None:
                engine.close()
            else:
                atexit.register(_close)
            _EMBEDDED[url] = engine = Engine(url, agents={**known, name: agent})
            engine.start()
        return engine.submit(name, task, run_id=run_id)


def _close() -> None:
    with _LOCK:
        while _EMBEDDED:
            _EMBEDDED.popitem()[1].close()
