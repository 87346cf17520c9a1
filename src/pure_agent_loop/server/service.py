"""The service that request handlers share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import People, Person
from pure_agent_loop.server.problems import HttpProblem, not_found
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.sessions.store import check_session_name
from pure_agent_loop.support.language import notice


def session_named(session_id: str) -> str:
    """Return a session id if it is valid.

    Raises:
        HttpProblem: The id is invalid (404).
    """
    try:
        return check_session_name(session_id)
    except ConfigError:
        raise not_found("session") from None


@dataclass
class Service:
    """The state of one server.

    Args:
        engine: The engine of durable runs, if any.
        closing: Set when event streams must end.
    """

    hub: Hub
    people: People
    settings: Settings
    metrics: Metrics
    engine: Any = None
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    # Session id -> first task, for sessions of other programs.
    titles: dict[str, str] = field(default_factory=dict)
    _viewers: dict[str, int] = field(default_factory=dict)

    def end_streams(self) -> None:
        """End the event streams, because the server is stopping."""
        self.closing.set()
        self.hub.wake_viewers()

    def run_of(self, person: Person, run_id: str) -> RunInfo:
        """Return a run that a person may see.

        Raises:
            HttpProblem: The run does not exist, or belongs to another person.
        """
        info = self.hub.runs.get(run_id)
        if info is None or not (person.owns(info.session) or info.owner == person.name):
            raise not_found("run")
        return info

    def session_of(self, person: Person, session_id: str) -> str:
        """Return the id of a session that a person may see.

        Raises:
            HttpProblem: The id is invalid, or the session belongs to another person.
        """
        if not person.owns(session_id):
            raise not_found("session")
        return session_named(session_id)

    def open_viewer(self, person: Person, kind: str) -> None:
        """Count a new viewer.

        Raises:
            HttpProblem: A viewer limit has been reached.
        """
        own, total = self._viewers.get(person.name, 0), sum(self._viewers.values())
        limits = self.settings
        if own >= limits.max_viewers_each or total >= limits.max_viewers:
            raise HttpProblem(429, notice("library.server_too_many_streams"), {"Retry-After": "10"})
        self._viewers[person.name] = own + 1
        self.metrics.viewers(kind, 1)

    def close_viewer(self, person: Person, kind: str) -> None:
        """Stop counting a viewer."""
        remaining = self._viewers.get(person.name, 1) - 1
        if remaining:
            self._viewers[person.name] = remaining
        else:
            self._viewers.pop(person.name, None)
        self.metrics.viewers(kind, -1)
