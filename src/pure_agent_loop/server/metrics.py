"""Metrics of a server in Prometheus text format."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pure_agent_loop._version import __version__
from pure_agent_loop.server.runs_file import ChannelEntry, RunInfo

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_HELP = {
    "pal_requests_total": ("counter", "Requests, by method, route and status."),
    "pal_runs_started_total": ("counter", "Runs started or resumed, by agent."),
    "pal_runs_ended_total": ("counter", "Runs ended, by agent and stop reason."),
    "pal_tokens_total": ("counter", "Tokens of ended runs, by agent."),
    "pal_cost_total": ("counter", "Cost of ended runs, by agent, in the currency of the prices."),
    "pal_events_total": ("counter", "Events, by type."),
    "pal_viewers_dropped_total": ("counter", "Viewers dropped, by reason."),
    "pal_refused_total": ("counter", "Requests rejected before any handler, by reason."),
    "pal_runs": ("gauge", "Runs that have not ended, by state."),
    "pal_viewers": ("gauge", "Open event streams, by kind."),
    "pal_uptime_seconds": ("gauge", "Seconds since the start."),
    "pal_info": ("gauge", "The version."),
}
_SECONDS = "pal_request_seconds"
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and gauges of one server."""

    def __init__(self) -> None:
        self._values: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._started = time.monotonic()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Increase a metric of `_HELP`."""
        self._values[name][tuple(sorted(labels.items()))] += amount

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
        self.count("pal_tokens_total", info.tokens, agent=info.agent)
        self.count("pal_cost_total", info.cost, agent=info.agent)

    def viewers(self, kind: str, change: int) -> None:
        """Change the number of viewers."""
        self.count("pal_viewers", change, kind=kind)

    def text(self, runs: Iterable[RunInfo]) -> str:
        """Return all metrics as text.

        Args:
            runs: The runs that have not ended.
        """
        gauges: dict[_Labels, float] = defaultdict(float)
        for info in runs:
            gauges[(("state", info.state),)] += 1
        values: dict[str, Mapping[_Labels, float]] = {
            **self._values,
            "pal_runs": gauges,
            "pal_uptime_seconds": {(): time.monotonic() - self._started},
            "pal_info": {(("version", __version__),): 1},
        }
        lines = []
        for name, (kind, meaning) in _HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [
                f"{name}{_labels(labels)} {value:g}" for labels, value in sorted(values.get(name, {}).items())
            ]
        return "\n".join([*lines, *self._histogram()]) + "\n"

    def _histogram(self) -> Iterable[str]:
        yield f"# HELP {_SECONDS} Seconds until a request was answered."
        yield f"# TYPE {_SECONDS} histogram"
        total = 0
        for bound, number in zip((*BUCKETS, "+Inf"), self._buckets, strict=True):
            total += number
            yield f'{_SECONDS}_bucket{{le="{bound}"}} {total}'
        yield f"{_SECONDS}_sum {self._seconds:.6f}"
        yield f"{_SECONDS}_count {total}"


def _labels(labels: _Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
