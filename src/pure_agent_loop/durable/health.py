"""Worker health over HTTP: ``/live``, ``/ready``, and ``/metrics`` with the queue depths."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.values import WORKFLOW, DurableError
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.prometheus import CONTENT_TYPE, Gauge, Labels
from pure_agent_loop.support.text import safe_str

if TYPE_CHECKING:
    from typing_extensions import Self

SECONDS = 10.0  # maximum seconds to receive a request
ENGINE = {
    "pal_database_up": ("gauge", "1 if the engine's database is available."),
    "pal_queue_depth": ("gauge", "Runs that wait for a worker, by queue."),
    "pal_queue_running": ("gauge", "Running runs of all workers, by queue."),
    "pal_workers": ("gauge", "Workers registered in the database."),
    "pal_run_attempts": ("gauge", "Maximum attempts without progress of unfinished runs, by agent."),
}
_COUNT = """
SELECT queue_name, status, COUNT(*) FROM {table}
WHERE name = '{workflow}' AND status IN ({states}) GROUP BY queue_name, status
"""
_STATES = ("'ENQUEUED', 'PENDING'", "'DELAYED'")  # separate queries, so that each uses a DBOS index
_ATTEMPTS = "SELECT agent, MAX(attempts) FROM @runs WHERE attempts > 1 AND status = '' GROUP BY agent"


def measure(database: Database) -> dict[str, Gauge]:
    """Return the gauges of `ENGINE`. This function does not wait for an unavailable database.

    Raises:
        DurableError: The database is unavailable, or lacks the tables of the engine.
    """
    some = {"table": database.runs_table, "workflow": WORKFLOW}
    queues, delayed, workers, agents, attempts = database.ask(
        *(_COUNT.format(states=states, **some) for states in _STATES),
        "SELECT COUNT(*) FROM @workers",
        "SELECT queue FROM @agents",
        _ATTEMPTS,
    )
    gauges: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
    for (queue,) in agents:  # report empty queues too
        gauges["pal_queue_depth"][(("queue", str(queue)),)] = 0
    for agent, number in attempts:
        gauges["pal_run_attempts"][(("agent", str(agent)),)] = number
    for queue, status, number in queues + delayed:
        name = "pal_queue_running" if status == "PENDING" else "pal_queue_depth"
        gauges[name][(("queue", str(queue)),)] += number
    return {**gauges, "pal_workers": {(): workers[0][0]}, "pal_database_up": {(): 1}}


def measured(database: Database) -> dict[str, Gauge]:
    """Return the gauges of `ENGINE`, without database gauges if the database is unavailable."""
    try:
        return measure(database)
    except DurableError:
        return {"pal_database_up": {(): 0}}


class Measured(Protocol):
    """A worker whose health can be reported."""

    is_draining: bool

    def metrics(self, gauges: Mapping[str, Gauge]) -> str:
        """Return the worker's metrics as text for Prometheus."""


class HealthServer:
    """HTTP server that reports a worker's health, in its own thread; a context manager.

    ``/live`` returns 200 while the process is alive. ``/ready`` returns 200 while the worker is taking runs
    (it has started, is not stopping, and its database is available), else 503 with the reason. ``/metrics``
    returns text for Prometheus. There is no authentication; agent and queue names are visible.

    Args:
        database: Database that the worker uses.
        host: Address to listen on.
        port: Port; 0 for any free one.

    Raises:
        ConfigError: The address or port is not available.
    """

    def __init__(self, database: Database, host: str = "127.0.0.1", port: int = 0) -> None:
        self._database = database
        self.worker: Measured | None = None  # set once the worker is ready
        try:
            self._server = _Server((host, port), self)
        except OSError as error:
            raise ConfigError(
                notice("library.health_address", host=host, port=port, reason=error.strerror or error)
            ) from error
        name, number = self._server.server_address[:2]
        shown = f"[{name!s}]" if ":" in str(name) else name
        self.url = f"http://{shown!s}:{number}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="pal-health", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str]:
        """Return the HTTP status and the text for a path."""
        if path == "/live":
            return 200, "live\n"
        if path == "/ready":
            problem = self._problem()
            return (503, f"{problem}\n") if problem else (200, "ready\n")
        if path != "/metrics":
            return 404, "/live /ready /metrics\n"
        if self.worker is None:
            return 503, "starting\n"
        return 200, self.worker.metrics(measured(self._database))

    def _problem(self) -> str:
        """Return why the worker is not taking runs; empty if it is."""
        if self.worker is None:
            return "starting"
        if self.worker.is_draining:
            return "stopping"
        try:
            measure(self._database)
        except DurableError as error:
            return safe_str(error)
        return ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], health: HealthServer) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.health = health
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS
    server: _Server

    def do_GET(self) -> None:
        status, text = self.server.health.answer(self.path.partition("?")[0])
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name of the method in the request

    def version_string(self) -> str:
        return "pal"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
        LOG.debug(f"health: {format}", *args)
