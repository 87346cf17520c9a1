"""Counters and gauges in the text format of Prometheus."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

from pure_agent_loop._version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]
Gauge = Mapping[Labels, float]
ALWAYS = {
    "pal_uptime_seconds": ("gauge", "Seconds since the start."),
    "pal_info": ("gauge", "The version."),
}
USAGE = {
    "pal_tokens_total": ("counter", "Tokens used by ended runs, by agent."),
    "pal_cost_total": ("counter", "Known cost of ended runs, by agent, in the currency of the prices."),
    "pal_unpriced_runs_total": ("counter", "Ended runs whose cost is not known, by agent."),
}


class Meters:
    """Counters of one process, for `/metrics`.

    Args:
        described: Kind and meaning of each metric, by name.
    """

    def __init__(self, described: Mapping[str, tuple[str, str]]) -> None:
        self._described = {**described, **ALWAYS}
        self._values: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._started = time.monotonic()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Increase a metric."""
        self._values[name][tuple(sorted(labels.items()))] += amount

    def usage(self, agent: str, tokens: int, cost: float | None) -> None:
        """Count the usage of a run that has ended.

        Args:
            cost: None if the price of a request is unknown.
        """
        self.count("pal_tokens_total", tokens, agent=agent)
        self.count("pal_cost_total", cost or 0.0, agent=agent)
        self.count("pal_unpriced_runs_total", bool(tokens) and cost is None, agent=agent)

    def lines(self, gauges: Mapping[str, Gauge]) -> list[str]:
        """Return the text of all metrics.

        Args:
            gauges: Current values, by name.
        """
        values: dict[str, Gauge] = {
            **self._values,
            "pal_uptime_seconds": {(): time.monotonic() - self._started},
            "pal_info": {(("version", __version__),): 1},
            **gauges,
        }
        lines = []
        for name, (kind, meaning) in self._described.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [
                f"{name}{_shown(labels)} {value:g}" for labels, value in sorted(values.get(name, {}).items())
            ]
        return lines


def _shown(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
