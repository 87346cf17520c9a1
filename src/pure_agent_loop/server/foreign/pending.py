"""Suspended runs that are waiting for results from the caller's tools.

A response with calls to the caller's tools ends the request; the results of these calls arrive in the next
request. That request's messages lack the agent's calls to its own tools, so the run's state is saved here,
and the run is resumed from it. If the saved state has expired, a new run starts from the caller's messages.
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
from pure_agent_loop.server.foreign.run_request import RunRequest
from pure_agent_loop.server.people import Person
from pure_agent_loop.support.parsing import read_json

EXPIRY_SECONDS = 3_600.0
MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class _SavedRun:
    expires: float
    agent: str
    count: int
    digest: str
    state: bytes
    calls: Mapping[str, str]  # the caller's call id -> the state's call id


class PendingCalls:
    """The suspended runs of one server."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, frozenset[str]], _SavedRun] = OrderedDict()
        self._bytes = 0

    def save(self, person: Person, request: RunRequest, state: QueryState, calls: Mapping[str, str]) -> None:
        """Save a run that is waiting for its caller; drop expired runs, and the oldest above `MAX_BYTES`."""
        packed = zlib.compress(json.dumps(state.to_dict()).encode(), 1)
        count = len(request.messages)
        expires = time.monotonic() + EXPIRY_SECONDS
        self._runs[person.name, frozenset(calls)] = _SavedRun(
            expires, request.agent, count, request.digest(count), packed, calls
        )
        self._bytes += len(packed)
        while self._runs and (
            self._bytes > MAX_BYTES or next(iter(self._runs.values())).expires < time.monotonic()
        ):
            self._bytes -= len(self._runs.popitem(last=False)[1].state)

    def resume(self, person: Person, request: RunRequest) -> dict[str, Any] | None:
        """Add a request's results to the saved state they belong to, and return it; None if there is none.

        The saved run remains, so that the caller can repeat a failed request.
        """
        results = request.new_results
        saved = self._runs.get((person.name, frozenset(results)))
        if saved is None or saved.agent != request.agent or saved.digest != request.digest(saved.count):
            return None
        if any(message["role"] not in ("assistant", "tool") for message in request.messages[saved.count :]):
            return None
        state = QueryState.from_dict(read_json(zlib.decompress(saved.state)))
        for caller_id, own_id in saved.calls.items():
            state.give_result(own_id, results[caller_id])
        return state.to_dict()
