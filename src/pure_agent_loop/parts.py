"""Parts of a response: text, reasoning and tool calls, each with a state, times, input and output.

    from          to                              meaning of the first state
    pending       running, error                  a call is waiting for permission or a slot; text has begun
    running       completed, error, backgrounded  the text is being written, or the call is running
    completed     (nothing)                       the text is complete, or the call is done
    error         (nothing)                       failed, denied, cancelled, or discarded by a retry
    backgrounded  (nothing)                       work continues in the background; a message reports its end

Every other transition raises. Parts are frozen: a transition returns a new `Part`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.language import checked_choice

PartType = Literal["text", "reasoning", "tool"]
PartState = Literal["pending", "running", "completed", "error", "backgrounded"]

TRANSITIONS: dict[PartState, frozenset[PartState]] = {
    "pending": frozenset({"running", "error"}),
    "running": frozenset({"completed", "error", "backgrounded"}),
    "completed": frozenset(),
    "error": frozenset(),
    "backgrounded": frozenset(),
}

# Fields that a dict passed as the state may hold.
_IN_STATE = ("status", "call_id", "input", "output", "created", "started", "ended")


class PartTransitionError(PureAgentLoopError):
    """Invalid transition of a part."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a response."""

    id: str = ""
    """Part id, unique in the session; empty outside a run."""
    session_id: str = ""
    """Session id."""
    message_id: str = ""
    """Id of the response."""
    type: PartType = "text"
    """``text``, ``reasoning`` or ``tool``."""
    tool: str = ""
    """Name of the tool; empty for other types."""
    state: PartState = "pending"
    """``pending``, ``running``, ``completed``, ``error`` or ``backgrounded``; or a dict with a ``status`` and
    further fields of the part, such as ``{"status": "running", "input": {"q": "tea"}}``."""
    call_id: str = ""
    """Id of the call in the history; empty for other types."""
    input: dict[str, Any] | None = None
    """Arguments of the call."""
    output: str = ""
    """Text written so far, or the result of the call."""
    created: float = 0.0
    """Time the part became pending, in seconds since the epoch."""
    started: float | None = None
    """Time the part began to run."""
    ended: float | None = None
    """Time the part was completed, failed or moved to the background."""
    title: str = ""
    """Text to show while a call runs, from ``Tool(running=)``; empty if the tool has none."""

    def __post_init__(self) -> None:
        given: object = self.state
        if isinstance(given, Mapping):
            for name, value in {"status": "pending", **given}.items():
                checked_choice("Part.state", name, _IN_STATE)
                object.__setattr__(self, "state" if name == "status" else name, value)
        for name, known in (("type", get_args(PartType)), ("state", tuple(TRANSITIONS))):
            checked_choice(f"Part.{name}", getattr(self, name), known)
        for name in ("id", "session_id", "message_id", "tool", "call_id"):
            require(isinstance(getattr(self, name), str), f"Part.{name}", getattr(self, name), "text")

    def to(self, state: PartState, now: float | None = None, output: str | None = None) -> Part:
        """Return the part in another state.

        Args:
            state: New state.
            now: Seconds since the epoch; None for the current time.
            output: Output so far; None keeps the current output.

        Raises:
            PartTransitionError: The transition is invalid.
        """
        return Part(**moved(self.to_dict(), state, time.time() if now is None else now, output))

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {  # built by hand, because `asdict` would copy deeply
            "id": self.id,
            "session_id": self.session_id,
            "message_id": self.message_id,
            "type": self.type,
            "state": self.state,
            "tool": self.tool,
            "call_id": self.call_id,
            "input": self.input,
            "output": self.output,
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
            **({"title": self.title} if self.title else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """Build a part from what :meth:`to_dict` returned."""
        return cls(**data)


def new_part(
    part_id: str,
    message_id: str,
    kind: PartType,
    now: float,
    *,
    session_id: str = "",
    tool: str = "",
    call_id: str = "",
    given: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plain form of a pending part. Runs use only plain forms, because parts change often."""
    return {
        "id": part_id,
        "session_id": session_id,
        "message_id": message_id,
        "type": kind,
        "state": "pending",
        "tool": tool,
        "call_id": call_id,
        "input": given,
        "output": "",
        "created": now,
        "started": None,
        "ended": None,
    }


def change_of(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a changed part for a record.

    Text and reasoning are included in full once the part has ended. A call's input and result are left out,
    because other records have them.
    """
    when = part["ended"] or part["started"] or part["created"]
    details = {"id": part["id"], "type": part["type"], "state": part["state"], "time": when}
    if part["call_id"]:
        title = {"title": part["title"]} if part["state"] == "running" and "title" in part else {}
        return {**details, "call_id": part["call_id"], "tool": part["tool"], **title}
    return details if part["ended"] is None else {**details, "output": part["output"]}


def moved(part: Mapping[str, Any], state: PartState, now: float, output: str | None = None) -> dict[str, Any]:
    """Return the plain form of a part in another state; see `Part.to`."""
    old_state: PartState = part["state"]
    if state not in TRANSITIONS[old_state]:
        allowed = ", ".join(sorted(TRANSITIONS[old_state])) or "nothing"
        raise PartTransitionError(
            f"Part {part['id']!r} cannot go from {old_state} to {state}; allowed: {allowed}."
        )
    output = part["output"] if output is None else output
    return {**part, "state": state, "output": output, "started" if state == "running" else "ended": now}
