"""Tool ledger, part of a run's state: external results, tools from a search, corrections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import Ruling
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.text import as_text


class OutsideResult(NamedTuple):
    """Result of a call that is executed outside the run.

    Args:
        text: Text that the model reads; until the result arrives, a note that it is missing.
        is_error: True if the external call failed.
    """

    text: str
    is_error: bool = False
    came: bool = False


def check_waits(what: str, call_id: str, waiting: Collection[str]) -> None:
    """Reject an answer or a result for a call that is not pending.

    Raises:
        ConfigError: The call is not pending; the message names the pending calls.
    """
    if call_id not in waiting:
        names = ", ".join(waiting) or "none"
        raise ConfigError(f"Call {call_id!r:.80} has no pending {what}. Pending: {names}.")


@dataclass(slots=True)
class ToolLedger:
    """Tool state, part of a `QueryState`.

    Args:
        outside: Pending calls whose results come from outside, by call id.
        found: Tools from a search, the newest last.
        retries: Number of consecutive `Retry` errors, by tool.
    """

    outside: dict[str, OutsideResult] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)

    def open_calls(self, pending: Iterable[ToolCall], rulings: Mapping[str, Ruling]) -> list[ToolCall]:
        """Return the pending calls without a result, with their effective arguments."""
        waiting = [call for call in pending if self.awaits(call.id)]
        return [replace(call, arguments=rulings[call.id].args) for call in waiting]

    def awaits(self, call_id: str) -> bool:
        """Return True if the external result of a call is missing."""
        return call_id in self.outside and not self.outside[call_id].came

    def text_of(self, call_id: str, default: str) -> str:
        """Return the text of a call's external result; `default` if the call has none."""
        return self.outside[call_id].text if call_id in self.outside else default

    def has_succeeded(self, call_id: str) -> bool:
        """Return True if an external result has arrived and is not an error."""
        result = self.outside.get(call_id)
        return result is not None and result.came and not result.is_error

    def give(self, call_id: str, result: object, *, is_error: bool) -> None:
        """Store an external result; see `QueryState.give_result`."""
        check_waits("result", call_id, [known for known in self.outside if self.awaits(known)])
        require(isinstance(is_error, bool), "is_error", is_error, "True or False")
        self.outside[call_id] = OutsideResult(as_text(result), is_error, came=True)

    def take(self, tool: str, outcome: ToolOutcome) -> None:
        """Record the outcome of a call."""
        if outcome.found:
            self.find(outcome.found)
        if outcome.is_retry:
            self.retries[tool] = self.retries.get(tool, 0) + 1
        elif self.retries and not outcome.is_error:
            self.retries.pop(tool, None)

    def find(self, names: Iterable[str]) -> None:
        """Add tools from a search; the model may call them from the next step on."""
        for name in names:
            self.found = [*(known for known in self.found if known != name), name]

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return asdict(self) | {"outside": {call_id: list(result) for call_id, result in self.outside.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolLedger:
        """Build a ledger from the form of :meth:`to_dict`."""
        outside = {call_id: OutsideResult(*result) for call_id, result in data["outside"].items()}
        return cls(outside, list(data["found"]), dict(data["retries"]))
