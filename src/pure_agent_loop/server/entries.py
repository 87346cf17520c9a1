"""One event of a session as clients get it: numbered over the session, and as much of it as they may see."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pure_agent_loop.event_data import VERSION
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.media import File, Image

RUN_START, RUN_STATE, RUN_END = "run_start", "run_state", "run_end"
QUESTION, ANSWERED, STEERED = "question", "answered", "steered"
# Events of the server itself, beside those of the kernel, and what everybody may see of them.
OWN = {
    RUN_START: ("agent", "task", "attempt"),
    RUN_STATE: ("state", "calls"),
    RUN_END: ("state", "stop_reason", "steps", "tokens", "cost"),
    QUESTION: ("call_id", "tool", "question"),
    ANSWERED: ("call_id", "behavior"),
    STEERED: ("text", "when"),
}
_KEYS = {"type", "step", "timestamp", "data"}


@dataclass(frozen=True)
class Sight:
    """How much somebody sees of events.

    Args:
        full: Everything, as `Event.to_dict` has it.
        tools: Else the tools of which what goes in and out may be seen; True for all.
        reasoning: Else whether the model's thinking may be.
    """

    full: bool = False
    tools: frozenset[str] | bool = frozenset()
    reasoning: bool = False

    def shows(self, tool: str) -> bool:
        """What goes in and out of a tool."""
        return self.full or (self.tools if isinstance(self.tools, bool) else tool in self.tools)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its place.

    Args:
        number: Its number in the session, from 1; it never comes twice.
        session: The session.
        run: The run it belongs to.
        plain: Its type, step, timestamp and data, all there is; its number in an engine as `source`.
    """

    number: int
    session: str
    run: str
    plain: Mapping[str, Any]
    _wires: dict[Sight, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def type(self) -> str:
        """What kind."""
        return str(self.plain["type"])

    def wire(self, sight: Sight) -> str:
        """It as JSON, as somebody sees it; made once for all who see as much."""
        found = self._wires.get(sight)
        if found is None:
            found = self._wires[sight] = json.dumps(self.seen(sight), separators=(",", ":"))
        return found

    def seen(self, sight: Sight) -> dict[str, Any]:
        """It as a dict, as somebody sees it."""
        return {
            "version": VERSION,
            "type": self.plain["type"],
            "number": self.number,
            "session": self.session,
            "run": self.run,
            "step": self.plain["step"],
            "timestamp": self.plain["timestamp"],
            "data": self._data(sight),
        }

    def _data(self, sight: Sight) -> Mapping[str, Any]:
        data: Mapping[str, Any] = self.plain["data"]
        if sight.full:
            return data
        if self.type in OWN:
            return {key: data[key] for key in OWN[self.type] if key in data}
        event = Event.from_dict(self.plain)
        seen: dict[str, Any] = event.public(tools=sight.tools, reasoning=sight.reasoning)["data"]
        return seen

    def to_line(self) -> bytes:
        """It as a line of the session's file of events."""
        about = {"n": self.number, "run": self.run, **self.plain}
        return json.dumps(about, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, session: str, line: bytes) -> Entry:
        """The reverse of `to_line`.

        Raises:
            ValueError, KeyError, TypeError: It is no such line.
        """
        about = json.loads(line)
        number, run = int(about.pop("n")), str(about.pop("run"))
        if not about.keys() >= _KEYS:
            raise ValueError("a key is missing")
        return cls(number, session, run, about)


def plain_event(event: Event) -> dict[str, Any]:
    """An event of the kernel as it is kept. The history at the end of a run stands in the session."""
    if event.type is EventType.LOOP_END:
        event = replace(event, data={**event.data, "messages": []})
    plain = event.to_dict()
    del plain["version"]
    if event.type is EventType.OBSERVATION and _has_file(event.data.get("value")):
        plain["data"]["has_files"] = (
            True  # so that a page asks for them at once, and not at the end of the run
        )
    return plain


def _has_file(value: Any) -> bool:
    return any(
        isinstance(each, (Image, File)) for each in (value if isinstance(value, (list, tuple)) else [value])
    )


def own_event(kind: str, **data: Any) -> dict[str, Any]:
    """An event of the server itself, as it is kept."""
    return {"type": kind, "step": 0, "timestamp": time.time(), "data": data}
