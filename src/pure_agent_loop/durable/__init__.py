"""Durable runs: agents on an engine whose runs survive the death of a process. Needs the extra ``[durable]``.

    values        statuses, rates and information about runs
    listener      wake-ups by PostgreSQL notifications, instead of polling
    connections   a process's few connections to PostgreSQL
    database      the database, this package's tables in it, and run events
    run_table     the run table, with each run's agent, place in its session, and status
    carrier       delivery of runs to processes: the protocol, and its implementation with DBOS
    table_carrier  a carrier that keeps run states in a table, for engines that only start processes
    session_worker  executes a session's runs, for engines that only start processes
    table_engine  base class for engines that only start processes
    run_queue     operations on runs, by run id: state, turns, answers, ownership
    client        submit and list runs; `Handle`, a view of one run
    task_options  task options, kept until a worker starts the run
    attempt       one attempt to execute a run, and the guard for its session
    taking        DBOS's threads that claim runs, woken by notifications
    liveness      detection of dead workers
    worker        a process that executes runs
    worker_process  a worker in a child process
    detaching     continues a run that began outside the engine
    session_copy  continues a run that began outside the engine, in a copy of its session
    deletion      delete runs and sessions with all their data
    health        worker liveness, readiness and metrics over HTTP
    engine        a client that can also execute runs
    schedules/    runs at scheduled times

The default carrier takes queues, limits, ownership and states from DBOS; `pure_agent_loop.ray` has a carrier
of its own. The session's journal ensures that a finished effect is not repeated. See docs/durable.md for the
details.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.carrier import Carrier
from pure_agent_loop.durable.client import Handle
from pure_agent_loop.durable.database import SharedLimits, default_database, hide_password
from pure_agent_loop.durable.deletion import Deletion
from pure_agent_loop.durable.engine import Engine
from pure_agent_loop.durable.health import HealthServer
from pure_agent_loop.durable.schedules.delivery import Delivery, to_command, to_file, to_session
from pure_agent_loop.durable.schedules.schedule import Schedule, heartbeat
from pure_agent_loop.durable.schedules.schedules import Firing, ScheduleInfo, Schedules
from pure_agent_loop.durable.schedules.when import read_when
from pure_agent_loop.durable.session_copy import SessionCopy
from pure_agent_loop.durable.session_worker import SessionWorker
from pure_agent_loop.durable.table_engine import TableEngine
from pure_agent_loop.durable.values import (
    ENDED,
    TASK_STATES,
    DurableError,
    DurableNotFoundError,
    Rate,
    RunExistsError,
    TaskInfo,
)
from pure_agent_loop.durable.worker import Worker
from pure_agent_loop.durable.worker_process import WorkerProcess, stop_with_stdin
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pure_agent_loop.runs.options import RunOptions

__all__ = [
    "ENDED",
    "TASK_STATES",
    "Carrier",
    "Deletion",
    "Delivery",
    "DurableError",
    "DurableNotFoundError",
    "Engine",
    "Firing",
    "Handle",
    "HealthServer",
    "Rate",
    "RunExistsError",
    "Schedule",
    "ScheduleInfo",
    "Schedules",
    "SessionCopy",
    "SessionWorker",
    "SharedLimits",
    "TableEngine",
    "TaskInfo",
    "Worker",
    "WorkerProcess",
    "default_database",
    "heartbeat",
    "hide_password",
    "read_when",
    "stop_with_stdin",
    "submit",
    "to_command",
    "to_file",
    "to_session",
]

_LOCK = threading.Lock()
_ENGINES: dict[str, Engine] = {}  # at most one engine: DBOS allows one per process


def submit(
    agent: Agent,
    task: str,
    *,
    name: str | None = None,
    database: str | None = None,
    run_id: str | None = None,
    deps: Callable[..., Any] | None = None,
    **options: Unpack[RunOptions],
) -> Handle:
    """Submit a task to an engine in this process; start the engine if necessary.

    If the process dies, call this again for the same agent and database to resume the run.

    Args:
        agent: Agent for the task.
        task: Task to do.
        name: Name to register the agent under; ``default`` if None.
        database: Database for the run; see `Engine`.
        run_id: Id of the run; see `Engine.submit`.
        deps: Function that makes the deps for each attempt; see `Engine`.
        options: Options of `Agent.run`; see `Engine.submit`.

    Raises:
        ConfigError: An engine for a different database is already running in this process.
        DurableError: The database is unavailable.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """
    url = database or default_database()
    name = name or "default"
    with _LOCK:
        if _ENGINES and url not in _ENGINES:
            raise ConfigError(
                notice("library.engine_twice", place=next(iter(_ENGINES.values())).database.display_url)
            )
        engine = _ENGINES.get(url)
        agents = {} if engine is None else engine.agents
        if engine is None or agents.get(name) is not agent or engine.deps is not deps:
            if engine is not None:
                engine.close()
            else:
                atexit.register(_close_engines)
            _ENGINES[url] = engine = Engine(url, agents={**agents, name: agent}, deps=deps)
            engine.start()
        return engine.submit(name, task, run_id=run_id, **options)


def _close_engines() -> None:
    with _LOCK:
        while _ENGINES:
            _ENGINES.popitem()[1].close()
