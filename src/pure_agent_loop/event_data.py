"""What all events have, and how the keys of their data are declared.

A key is declared beside its type, with who may see it. What nobody declared is seen by nobody outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.typed import dataclass

VERSION = 1  # of the plain form
_TEXT_KEYS = ("content", "result", "prompt", "error", "message", "text")
_now = time.time


class EventType(str, Enum):
    """The kinds of events."""

    LOOP_START = "loop_start"
    THOUGHT = "thought"
    REASONING = "reasoning"
    ACTION = "action"
    OBSERVATION = "observation"
    SOFT_LIMIT = "soft_limit"
    ERROR = "error"
    LOOP_END = "loop_end"
    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    RETRY = "retry"
    NOTICE = "notice"
    STEP_END = "step_end"
    PART = "part"
    PERMISSION = "permission"
    COMPACTION = "compaction"
    FILE_CHANGE = "file_change"
    TASK = "task"
    PROGRESS = "progress"
    PARTIAL_OUTPUT = "partial_output"

    def __str__(self) -> str:
        return self.value


TaskState = Literal[
    "pending",
    "running",
    "waiting_permission",
    "backgrounded",
    "completed",
    "failed",
    "cancelled",
    "killed",
]
TASK_STATES: tuple[str, ...] = get_args(TaskState)


class View(NamedTuple):
    """Whom data are shown to.

    Args:
        tools: Tools whose arguments and results may be seen; True for all.
        reasoning: The model's thinking may be seen.
    """

    tools: Collection[str] | bool = ()
    reasoning: bool = False

    def has_tool(self, name: object) -> bool:
        """True if what goes in and out of this tool may be seen."""
        return self.tools if isinstance(self.tools, bool) else isinstance(name, str) and name in self.tools


Picked = Callable[[Any, dict[str, Any], View], Any]  # the value, all data, who looks
HIDDEN = object()


class Key:
    """A key of ``data``, as an attribute that can only be read.

    Args:
        seen: What of its value is seen from outside: it returns that, or `HIDDEN`.
        default: Its value where the key is missing.
    """

    __slots__ = ("default", "name", "seen")

    def __init__(self, seen: Picked, default: Any) -> None:
        self.seen, self.default = seen, default

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, _: type | None = None) -> Any:
        return self if instance is None else instance.data.get(self.name, self.default)


def keys_of(kind: type) -> dict[str, Key]:
    """The keys that a class declares, those it inherits included."""
    return {
        n: key for each in reversed(kind.__mro__) for n, key in vars(each).items() if isinstance(key, Key)
    }


def shown(default: Any = "") -> Any:
    """A key that everybody may see."""
    return Key(lambda value, _, __: value, default)


def kept(default: Any = "") -> Any:
    """A key that nobody outside may see."""
    return Key(lambda _, __, ___: HIDDEN, default)


def picked(seen: Picked, default: Any = "") -> Any:
    """A key of which a function says what may be seen."""
    return Key(seen, default)


def of_tool(default: Any = "") -> Any:
    """What goes into a tool or comes out of it: the program says of which tools it may be seen."""
    return Key(lambda value, data, view: value if view.has_tool(data.get("tool")) else HIDDEN, default)


def of_result() -> Any:
    """A tool's result. A failure may name addresses and files, so it is not for everybody."""
    return Key(
        lambda value, data, view: (
            value if view.has_tool(data.get("tool")) and not data.get("is_error") else HIDDEN
        ),
        "",
    )


def of_thinking() -> Any:
    """The model's thinking, which often repeats what it was told."""
    return Key(lambda value, _, view: value if view.reasoning else HIDDEN, "")


def of_numbers() -> Any:
    """A dict of which only the numbers may be seen."""
    return Key(
        lambda value, _, __: _only(value, list(value) if isinstance(value, dict) else (), (int, float)), {}
    )


def of_task() -> Any:
    """The record of a subtask, without what was asked and answered, and where."""
    return Key(lambda value, _, __: _only(value, _TASK_KEYS), {})


def of_part() -> Any:
    """A fragment of an answer."""
    return Key(_part, {})


_TASK_KEYS = ("id", "agent", "state", "background", "step", "created", "started", "ended", "calls", "tokens",
              "last_activity", "last_tool", "stop_reason")  # fmt: skip
_PART_KEYS = ("id", "message_id", "type", "state", "tool", "call_id", "created", "started", "ended")


def _part(value: Any, _: Any, view: View) -> dict[str, Any]:
    value = value if isinstance(value, dict) else {}
    kind, failed = value.get("type"), value.get("state") == "error"
    open_call = kind == "tool" and view.has_tool(value.get("tool"))
    names = [*_PART_KEYS, *(["input"] if open_call else [])]
    if kind == "text" or (kind == "reasoning" and view.reasoning) or (open_call and not failed):
        names.append("output")
    return _only(value, names)


def _only(value: Any, names: Iterable[str], kinds: Any = object) -> dict[str, Any]:
    known = value if isinstance(value, dict) else {}
    return {n: known[n] for n in names if n in known and isinstance(known[n], kinds)}


def _seen(keys: dict[str, Key], data: dict[str, Any], view: View) -> dict[str, Any]:
    found = {name: key.seen(data[name], data, view) for name, key in keys.items() if name in data}
    return {name: to_jsonable(value) for name, value in found.items() if value is not HIDDEN}


@dataclass(frozen=True, slots=True, init=False)
class BaseEvent:
    """What all events have; see `events.Event`.

    Args:
        type: What kind.
        step: The step it belongs to, from 1; 0 before the first.
        data: Its details; the keys are the argument names of the factory.
        timestamp: Seconds since the epoch; now if None.
    """

    KEYS: ClassVar[dict[EventType, dict[str, Key]]] = {}
    type: EventType
    step: int
    data: dict[str, Any]
    timestamp: float
    number: int = field(default=0, repr=False, compare=False)

    def __init__(
        self,
        type: EventType,  # noqa: A002 - the name of the field
        step: int,
        data: dict[str, Any],
        timestamp: float | None = None,
        number: int = 0,
    ) -> None:
        # The setters of the slots cost half of `object.__setattr__` by name; this is done for each piece.
        _set_type(self, type)
        _set_step(self, step)
        _set_data(self, data)
        _set_timestamp(self, _now() if timestamp is None else timestamp)
        set_number(self, number)

    @property
    def content(self) -> str:
        """The text this event carries, or an empty string."""
        for key in _TEXT_KEYS:
            value = self.data.get(key)
            if isinstance(value, str):
                return value
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form of all there is, for operators. Never fails, whatever a tool was given."""
        return {
            "version": VERSION,
            "type": self.type.value,
            "step": self.step,
            "timestamp": self.timestamp,
            "data": to_jsonable(self._plain_data()),
        }

    def _plain_data(self) -> dict[str, Any]:
        return self.data

    def public(self, *, tools: Collection[str] | bool = (), reasoning: bool = False) -> dict[str, Any]:
        """Plain JSON form of what somebody outside may see, such as a browser: see docs/events.md.

        Args:
            tools: Tools whose arguments, progress and results may be seen; True for all.
            reasoning: The model's thinking may be seen, which often repeats the system prompt.

        Raises:
            ConfigError: `tools` is no collection of names.
        """
        if isinstance(tools, (str, bytes)):
            raise ConfigError(f"tools must be names of tools, such as [{tools!r:.40}], or True for all.")
        return {
            "version": VERSION,
            "type": self.type.value,
            "number": self.number,
            "step": self.step,
            "timestamp": self.timestamp,
            "data": _seen(self.KEYS[self.type], self.data, View(tools, reasoning)),
        }

    def _repr_html_(self) -> str:
        """A line for notebooks, escaped."""
        from html import escape  # with a table of all names

        text = escape(self.content)
        return f"<b>{self.type.value}</b> <i>step {self.step}</i> <pre>{text}</pre>"


_SLOTS: Any = BaseEvent
_set_type, _set_step, _set_data = _SLOTS.type.__set__, _SLOTS.step.__set__, _SLOTS.data.__set__
_set_timestamp, set_number = _SLOTS.timestamp.__set__, _SLOTS.number.__set__
