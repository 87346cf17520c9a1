"""What a run knows about its tools: results made elsewhere, tools that were found, corrections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, field, replace
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.permission_ledger import Ruling
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.text import as_text
from pure_agent_loop.support.typed import dataclass


class Outside(NamedTuple):
    """The result of a call that is made elsewhere.

    Args:
        text: What the model reads; until it has come, that it has not.
        is_error: True if the call failed there.
        came: True once it has come.
    """

    text: str
    is_error: bool = False
    came: bool = False


def check_waits(what: str, call_id: str, waiting: Collection[str]) -> None:
    """Refuse an answer or a result for a call that is none of these.

    Raises:
        ConfigError: So it is; the message names the calls.
    """
    if call_id not in waiting:
        names = ", ".join(waiting) or "none"
        raise ConfigError(f"No {what} waits for the call {call_id!r:.80}. Waiting: {names}.")


@dataclass(slots=True)
class ToolLedger:
    """Part of a `QueryState`.

    Args:
        outside: Pending calls whose results are made elsewhere, by call id.
        found: Tools that a search has found, the newest last.
        retries: By tool, how often in a row it has sent the model back.
    """

    outside: dict[str, Outside] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)

    def open_calls(self, pending: Iterable[ToolCall], rulings: Mapping[str, Ruling]) -> list[ToolCall]:
        """The pending calls whose results have yet to come, with the arguments in force."""
        waiting = [call for call in pending if self.awaits(call.id)]
        return [replace(call, arguments=rulings[call.id].args) for call in waiting]

    def awaits(self, call_id: str) -> bool:
        """True if the result of a call has yet to come from elsewhere."""
        return call_id in self.outside and not self.outside[call_id].came

    def text_of(self, call_id: str, default: str) -> str:
        """What is known of the result of a call that is made elsewhere; `default` of another call."""
        return self.outside[call_id].text if call_id in self.outside else default

    def give(self, call_id: str, result: Any, *, is_error: bool) -> None:
        """Take in a result; see `QueryState.give_result`."""
        check_waits("result", call_id, [each for each in self.outside if self.awaits(each)])
        if not isinstance(is_error, bool):
            raise ConfigError(f"is_error must be True or False; it is {is_error!r:.80}.")
        self.outside[call_id] = Outside(as_text(result), is_error, came=True)

    def take(self, tool: str, outcome: ToolOutcome) -> None:
        """Note what came of a call."""
        if outcome.found:
            self.find(outcome.found)
        if outcome.is_retry:
            self.retries[tool] = self.retries.get(tool, 0) + 1
        elif self.retries and not outcome.is_error:
            self.retries.pop(tool, None)

    def find(self, names: Iterable[str]) -> None:
        """Tools were found: the model may call them from the next step on."""
        for name in names:
            self.found = [*(each for each in self.found if each != name), name]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self) | {"outside": {call_id: list(each) for call_id, each in self.outside.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolLedger:
        """The reverse of :meth:`to_dict`."""
        outside = {call_id: Outside(*each) for call_id, each in data["outside"].items()}
        return cls(outside, list(data["found"]), dict(data["retries"]))
