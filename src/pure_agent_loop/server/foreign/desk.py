"""The runs of these endpoints: how many are at work, and those that wait for results of their callers.

A run that called a tool of its caller has ended for the caller, who comes back with the results in a new
request. What the agent's own tools did in it stands in no message that the caller has. So its state is kept,
and the run goes on; only where it is not kept any more, a new run begins with what the request says.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.server.foreign.wanted import Wanted
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.server.service import Service

KEPT_SECONDS = 3_600.0
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class _Kept:
    until: float
    agent: str
    count: int
    digest: str
    state: bytes
    calls: Mapping[str, str]  # the ids that the caller has: those in the state


class Desk:
    """The runs of one server."""

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()
        self._kept: OrderedDict[tuple[str, frozenset[str]], _Kept] = OrderedDict()
        self._bytes = 0

    @contextmanager
    def place(self, service: Service, person: Person) -> Iterator[None]:
        """Count a run, while it is at work.

        Raises:
            Problem: There is no room.
        """
        hub, limits = service.hub, service.settings
        if hub.is_draining:
            raise Problem(503, "The server is about to stop. Try again soon.", {"Retry-After": "5"})
        mine = self._at_work[person.name] + sum(each.info.owner == person.name for each in hub.at_work)
        if mine >= limits.max_running_each or len(hub.at_work) + self._at_work.total() >= limits.max_running:
            raise Problem(429, "Too many runs are at work. Wait until one has ended.", {"Retry-After": "5"})
        self._at_work[person.name] += 1
        try:
            yield
        finally:
            self._at_work[person.name] -= 1
            self._at_work += Counter()  # without those that have none

    def keep(self, person: Person, wanted: Wanted, state: QueryState, calls: Mapping[str, str]) -> None:
        """Keep a run that waits for its caller."""
        packed = zlib.compress(json.dumps(state.to_dict()).encode(), 1)
        count = len(wanted.messages)
        until = time.monotonic() + KEPT_SECONDS
        self._kept[person.name, frozenset(calls)] = _Kept(
            until, wanted.agent, count, wanted.digest(count), packed, calls
        )
        self._bytes += len(packed)
        while self._kept and (
            self._bytes > MOST_BYTES or next(iter(self._kept.values())).until < time.monotonic()
        ):
            self._bytes -= len(self._kept.popitem(last=False)[1].state)

    def going_on(self, person: Person, wanted: Wanted) -> dict[str, Any] | None:
        """The state of the run that a request brings the results for; None if there is none.

        It stays, so that a request that failed can be sent again.
        """
        answered = wanted.answered
        kept = self._kept.get((person.name, frozenset(answered)))
        if kept is None or kept.agent != wanted.agent or kept.digest != wanted.digest(kept.count):
            return None
        if any(each["role"] not in ("assistant", "tool") for each in wanted.messages[kept.count :]):
            return None
        state = QueryState.from_dict(json.loads(zlib.decompress(kept.state)))
        for known, own in kept.calls.items():
            state.give_result(own, answered[known])
        return state.to_dict()


def desk_of(app: Any) -> Desk:
    """The desk of an application."""
    found: Desk | None = getattr(app.state, "desk", None)
    if found is None:
        found = app.state.desk = Desk()
    return found
