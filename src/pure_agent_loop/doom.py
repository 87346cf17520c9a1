"""Noticing a model that makes the same call again and again. Pure: one ledger, one question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pure_agent_loop.llm.values import ToolCall

DoomVerdict = Literal["run", "refuse", "stop"]


@dataclass(slots=True)
class DoomLedger:
    """The last call and how often it came in a row. Part of the state.

    Args:
        last: Name and arguments of the last call.
        count: How many times in a row it came.
    """

    last: str = ""
    count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DoomLedger:
        """The reverse of :meth:`to_dict`."""
        return cls(**data)


def judge_call(ledger: DoomLedger, call: ToolCall, threshold: int | None) -> DoomVerdict:
    """Count a call and say what to do with it.

    Args:
        ledger: Is brought up to date.
        call: The call the model asks for.
        threshold: That many equal calls in a row are too many; None switches this off.

    Returns:
        ``run``; ``refuse`` when it is one too many (the model is told); ``stop`` when it comes even then.
    """
    key = f"{call.name} {call.invalid or json.dumps(call.arguments, sort_keys=True)}"
    ledger.count = ledger.count + 1 if key == ledger.last else 1
    ledger.last = key
    if threshold is None or ledger.count < threshold:
        return "run"
    return "refuse" if ledger.count == threshold else "stop"
