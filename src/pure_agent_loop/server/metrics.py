"""Metrics of a server in Prometheus text format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pure_agent_loop.durable.health import ENGINE
from pure_agent_loop.server.entries import ChannelEntry
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.support.prometheus import USAGE, Gauge, Labels, Meters

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_HELP = {
    "pal_requests_total": ("counter", "Requests, by method, route and status."),
    "pal_runs_started_total": ("counter", "Runs started or resumed, by agent."),
    "pal_runs_ended_total": ("counter", "Runs ended, by agent and stop reason."),
    **USAGE,
    "pal_events_total": ("counter", "Events, by type."),
    "pal_viewers_dropped_total": ("counter", "Viewers dropped, by reason."),
    "pal_refused_total": ("counter", "Requests rejected before any handler, by reason."),
    "pal_runs": ("gauge", "Runs that have not ended, by state."),
    "pal_viewers": ("gauge", "Open event streams, by kind."),
    **ENGINE,
}
_SECONDS = "pal_request_seconds"


class Metrics(Meters):
    """Counters and gauges of one server."""

    def __init__(self) -> None:
        super().__init__(_HELP)
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a response and its duration in seconds; None for a stream, which has no useful duration."""
        self.count("pal_requests_total", method=method, route=route, status=str(status))
        if seconds is None:
            return
        self._seconds += seconds
        self._buckets[next((n for n, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1

    def event(self, entry: ChannelEntry) -> None:
        """Count an event."""
        self.count("pal_events_total", type=entry.type)

    def run_started(self, info: RunInfo) -> None:
        """Count a started or resumed run."""
        self.count("pal_runs_started_total", agent=info.agent)

    def run_ended(self, info: RunInfo) -> None:
        """Count an ended run, its tokens and cost."""
        self.count("pal_runs_ended_total", agent=info.agent, reason=info.stop_reason)
        self.usage(info.agent, info.tokens, info.cost)

    def viewers(self, kind: str, change: int) -> None:
        """Change the number of viewers."""
        self.count("pal_viewers", change, kind=kind)

    def text(self, runs: Iterable[RunInfo], gauges: Mapping[str, Gauge]) -> str:
        """Return all metrics as text.

        Args:
            runs: The runs that have not ended.
            gauges: Other current values, by name.
        """
        states: dict[Labels, float] = defaultdict(float)
        for info in runs:
            states[(("state", info.state),)] += 1
        return "\n".join([*self.lines({"pal_runs": states, **gauges}), *self._histogram()]) + "\n"

    def _histogram(self) -> Iterable[str]:
        yield f"# HELP {_SECONDS} Seconds until a request was answered."
        yield f"# TYPE {_SECONDS} histogram"
        total = 0
        for bound, number in zip((*BUCKETS, "+Inf"), self._buckets, strict=True):
            total += number
            yield f'{_SECONDS}_bucket{{le="{bound}"}} {total}'
        yield f"{_SECONDS}_sum {self._seconds:.6f}"
        yield f"{_SECONDS}_count {total}"
