"""What all handlers of a server have at hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import People, Person
from pure_agent_loop.server.problems import Problem, not_found
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.sessions.store import check_session_id


def session_named(session_id: str) -> str:
    """The id of a session, if it can be one.

    Raises:
        Problem: It cannot.
    """
    try:
        return check_session_id(session_id)
    except ConfigError:
        raise not_found("session") from None


@dataclass
class Service:
    """One server.

    Args:
        hub: Its runs.
        people: Who may ask.
        settings: Limits.
        metrics: Counts.
        engine: The engine of durable runs; None for none.
        closing: Set when viewers are to go.
    """

    hub: Hub
    people: People
    settings: Settings
    metrics: Metrics
    engine: Any = None
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    _viewers: dict[str, int] = field(default_factory=dict)

    def run_of(self, person: Person, run_id: str) -> RunInfo:
        """A run that somebody may see.

        Raises:
            Problem: There is none, or it is somebody else's.
        """
        info = self.hub.run(run_id)
        if info is None or not (person.owns(info.session) or info.owner == person.name):
            raise not_found("run")
        return info

    def session_of(self, person: Person, session_id: str) -> str:
        """The id of a session that somebody may see.

        Raises:
            Problem: It is none, or somebody else's.
        """
        if not person.owns(session_id):
            raise not_found("session")
        return session_named(session_id)

    def open_viewer(self, person: Person, kind: str) -> None:
        """Count a viewer in.

        Raises:
            Problem: There are too many.
        """
        mine, all_of_them = self._viewers.get(person.name, 0), sum(self._viewers.values())
        limits = self.settings
        if mine >= limits.max_viewers_each or all_of_them >= limits.max_viewers:
            raise Problem(429, "Too many event streams are open.", {"Retry-After": "10"})
        self._viewers[person.name] = mine + 1
        self.metrics.viewers(kind, 1)

    def close_viewer(self, person: Person, kind: str) -> None:
        """Count a viewer out."""
        left = self._viewers.get(person.name, 1) - 1
        if left:
            self._viewers[person.name] = left
        else:
            self._viewers.pop(person.name, None)
        self.metrics.viewers(kind, -1)
