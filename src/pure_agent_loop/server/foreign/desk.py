"""Runs of these endpoints that wait for results of their callers.

A run that called a tool of its caller has ended for the caller, who comes back with the results in a new
request. What the agent's own tools did in it stands in no message that the caller has. So its state is kept,
and the run goes on; only where it is not kept any more, a new run begins with what the request says.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.server.foreign.wanted import Wanted
from pure_agent_loop.server.people import Person

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
    """Those of one server."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, frozenset[str]], _Kept] = OrderedDict()
        self._bytes = 0

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
