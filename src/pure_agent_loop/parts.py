"""The fragments of an answer: text, reasoning and tool calls, each with a state, times, input and output.

============  ==============================  =======================================================
from          to                              when
============  ==============================  =======================================================
pending       running, error                  a call waits for permission or its turn; text has begun
running       completed, error, backgrounded  it is written, or carried out
completed     (nothing)
error         (nothing)                       failed, refused, cancelled, or taken back by a retry
backgrounded  (nothing)                       the work goes on beside the run; a message tells its end
============  ==============================  =======================================================

Every other change raises. Frozen values: a change is a new `Part`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.typed import dataclass

PartType = Literal["text", "reasoning", "tool"]
PartState = Literal["pending", "running", "completed", "error", "backgrounded"]

TRANSITIONS: dict[PartState, frozenset[PartState]] = {
    "pending": frozenset({"running", "error"}),
    "running": frozenset({"completed", "error", "backgrounded"}),
    "completed": frozenset(),
    "error": frozenset(),
    "backgrounded": frozenset(),
}


class PartTransitionError(PureAgentLoopError):
    """A part was asked to change in a way the table does not have."""


@dataclass(frozen=True, slots=True)
class Part:
    """A fragment of an answer."""

    id: str
    """Unique in the session."""
    session_id: str
    """The session."""
    message_id: str
    """The answer it belongs to."""
    type: PartType
    """``text``, ``reasoning`` or ``tool``."""
    state: PartState = "pending"
    """``pending``, ``running``, ``completed``, ``error`` or ``backgrounded``."""
    tool: str = ""
    """Name of the tool, empty for others."""
    call_id: str = ""
    """The call's id in the history, empty for others."""
    input: dict[str, Any] | None = None
    """Arguments of the call."""
    output: str = ""
    """What was written, or the result of the call."""
    created: float = 0.0
    """When it became pending, in seconds since the epoch."""
    started: float | None = None
    """When it began to run."""
    ended: float | None = None
    """When it was completed, failed or went to the background."""

    def to(self, state: PartState, now: float, output: str | None = None) -> Part:
        """The part in another state.

        Args:
            state: The new state.
            now: Seconds since the epoch.
            output: What came out so far; None leaves it.

        Raises:
            PartTransitionError: The table does not allow it.
        """
        return Part(**moved(self.to_dict(), state, now, output))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {  # `asdict` would copy deeply
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
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """The reverse of :meth:`to_dict`."""
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
    """The plain form of a part that is pending. Runs keep no other: parts change several times a step."""
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
    """What a record says of a part that has changed; what was said or given out stands in other records."""
    when = part["ended"] or part["started"] or part["created"]
    about = {"id": part["id"], "type": part["type"], "state": part["state"], "time": when}
    return about | ({"call_id": part["call_id"], "tool": part["tool"]} if part["call_id"] else {})


def moved(part: Mapping[str, Any], state: PartState, now: float, output: str | None = None) -> dict[str, Any]:
    """The plain form of a part in another state; see `Part.to`."""
    before: PartState = part["state"]
    if state not in TRANSITIONS[before]:
        allowed = ", ".join(sorted(TRANSITIONS[before])) or "nothing"
        raise PartTransitionError(
            f"Part {part['id']!r} cannot go from {before} to {state}; from there only to: {allowed}."
        )
    output = part["output"] if output is None else output
    return {**part, "state": state, "output": output, "started" if state == "running" else "ended": now}
