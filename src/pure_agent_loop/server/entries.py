"""Events of a session as clients receive them: numbered per session, reduced to what the client may see."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pure_agent_loop.events import VERSION, Event, EventType
from pure_agent_loop.media import File, Image
from pure_agent_loop.support.parsing import read_json

RUN_START, RUN_STATE, RUN_END = "run_start", "run_state", "run_end"
QUESTION, ANSWERED, STEERED = "question", "answered", "steered"
# The server's own event types, with the fields that every client may see.
OWN = {
    RUN_START: ("agent", "task", "media", "attempt", "model"),
    RUN_STATE: ("state", "calls"),
    RUN_END: ("state", "stop_reason", "steps", "tokens", "cost"),
    QUESTION: ("call_id", "tool", "question"),
    ANSWERED: ("call_id", "behavior", "by"),
    STEERED: ("text", "when"),
}
_KEYS = {"type", "step", "timestamp", "data"}


@dataclass(frozen=True)
class Visibility:
    """The parts of events that a client may see.

    Args:
        full: Whether everything in `Event.to_dict` is visible.
        tools: If not `full`, the tools whose arguments and results are visible; True for all.
        reasoning: If not `full`, whether reasoning is visible.
    """

    full: bool = False
    tools: frozenset[str] | bool = frozenset()
    reasoning: bool = False

    def shows(self, tool: str) -> bool:
        """Return whether a tool's arguments and results are visible."""
        return self.full or (self.tools if isinstance(self.tools, bool) else tool in self.tools)


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A numbered event of a session.

    Args:
        number: Number in the session, from 1; never reused.
        session: The session's id.
        run: The run's id.
        plain: Type, step, timestamp and unreduced data; `source` is the event's number in an engine, if any.
    """

    number: int
    session: str
    run: str
    plain: Mapping[str, Any]
    _json: dict[Visibility, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def type(self) -> str:
        """The event type."""
        return str(self.plain["type"])

    def to_json(self, visibility: Visibility) -> str:
        """Return the visible part as JSON, cached per visibility."""
        text = self._json.get(visibility)
        if text is None:
            text = self._json[visibility] = json.dumps(self.to_dict(visibility), separators=(",", ":"))
        return text

    def to_dict(self, visibility: Visibility) -> dict[str, Any]:
        """Return the visible part as a dict."""
        return {
            "version": VERSION,
            "type": self.plain["type"],
            "number": self.number,
            "session": self.session,
            "run": self.run,
            "step": self.plain["step"],
            "timestamp": self.plain["timestamp"],
            "data": self._data(visibility),
        }

    def _data(self, visibility: Visibility) -> Mapping[str, Any]:
        data: Mapping[str, Any] = self.plain["data"]
        if visibility.full:
            return data
        if self.type in OWN:
            return {key: data[key] for key in OWN[self.type] if key in data}
        event = Event.from_dict(self.plain)
        public: dict[str, Any] = event.public(tools=visibility.tools, reasoning=visibility.reasoning)["data"]
        return public

    def to_line(self) -> bytes:
        """Return a line for the session's event file."""
        fields = {"n": self.number, "run": self.run, **self.plain}
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, session: str, line: bytes) -> ChannelEntry:
        """Parse a line that `to_line` created.

        Raises:
            ValueError, KeyError, TypeError: The line is malformed.
        """
        fields = read_json(line)
        number, run = int(fields.pop("n")), str(fields.pop("run"))
        if not fields.keys() >= _KEYS:
            raise ValueError("a key is missing")
        return cls(number, session, run, fields)


def plain_event(event: Event) -> dict[str, Any]:
    """Convert a kernel event for storage. The final history is dropped: the session has it."""
    if event.type is EventType.LOOP_END:
        event = replace(event, data={**event.data, "messages": []})
    plain = event.to_dict()
    del plain["version"]
    if event.type is EventType.OBSERVATION and _has_file(event.data.get("value")):
        plain["data"]["has_files"] = True  # makes the page fetch the files at once, not at the run's end
    return plain


def _has_file(value: Any) -> bool:
    return any(
        isinstance(item, (Image, File)) for item in (value if isinstance(value, (list, tuple)) else [value])
    )


def own_event(kind: str, **data: Any) -> dict[str, Any]:
    """Create one of the server's own events, for storage."""
    return {"type": kind, "step": 0, "timestamp": time.time(), "data": data}
