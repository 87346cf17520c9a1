"""Base of all events, and declarations of the keys of their data.

Each key is declared with its type and its visibility. Undeclared keys are never shown outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from pure_agent_loop.errors import ConfigError, portable
from pure_agent_loop.support.text import to_jsonable

VERSION = 1  # version of the plain form
IN_PROCESS = ("value", "exception")  # values from user functions, not in the plain form
_TEXT_KEYS = ("content", "result", "prompt", "error", "message", "text")
_now = time.time


class EventType(str, Enum):
    """Types of events."""

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
    """Visibility of event data for a viewer.

    Args:
        tools: Tools whose arguments and results are visible; True for all.
        reasoning: True if the model's reasoning is visible.
    """

    tools: Collection[str] | bool = ()
    reasoning: bool = False

    def has_tool(self, name: object) -> bool:
        """Return True if the arguments and results of a tool are visible."""
        return self.tools if isinstance(self.tools, bool) else isinstance(name, str) and name in self.tools


Picked = Callable[[Any, dict[str, Any], View], Any]  # the value, all data, the viewer's rights
HIDDEN = object()


class DataKey:
    """Key of ``data``, as a read-only attribute.

    Args:
        seen: Function that returns the visible part of the value, or `HIDDEN`.
        default: Value if the key is missing.
    """

    __slots__ = ("default", "name", "seen")

    def __init__(self, seen: Picked, default: Any) -> None:
        self.seen, self.default = seen, default

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, _: type | None = None) -> Any:
        return self if instance is None else instance.data.get(self.name, self.default)


def keys_of(kind: type) -> dict[str, DataKey]:
    """Return the keys of a class, inherited keys included."""
    return {
        n: key for base in reversed(kind.__mro__) for n, key in vars(base).items() if isinstance(key, DataKey)
    }


def shown(default: Any = "") -> Any:
    """Declare a key visible to all viewers."""
    return DataKey(lambda value, _, __: value, default)


def kept(default: Any = "") -> Any:
    """Declare a key hidden from all viewers."""
    return DataKey(lambda _, __, ___: HIDDEN, default)


def picked(seen: Picked, default: Any = "") -> Any:
    """Declare a key whose visible part a function selects."""
    return DataKey(seen, default)


def of_tool(default: Any = "") -> Any:
    """Declare a tool's argument or result, visible if the viewer may see the tool."""
    return DataKey(lambda value, data, view: value if view.has_tool(data.get("tool")) else HIDDEN, default)


def of_result() -> Any:
    """Declare a tool's result. Failures are restricted: they may name URLs and files."""
    return DataKey(
        lambda value, data, view: (
            value if view.has_tool(data.get("tool")) and not data.get("is_error") else HIDDEN
        ),
        "",
    )


def of_thinking() -> Any:
    """Declare the model's reasoning, hidden by default: it often repeats the system prompt."""
    return DataKey(lambda value, _, view: value if view.reasoning else HIDDEN, "")


def of_numbers() -> Any:
    """Declare a dict of which only the numbers are visible."""
    return DataKey(
        lambda value, _, __: _only(value, list(value) if isinstance(value, dict) else (), (int, float)), {}
    )


def of_task() -> Any:
    """Declare the record of a subtask, without its task, answer and location."""
    return DataKey(lambda value, _, __: _only(value, _TASK_KEYS), {})


def of_part() -> Any:
    """Declare a part of an answer."""
    return DataKey(_part, {})


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


def _seen(keys: dict[str, DataKey], data: dict[str, Any], view: View) -> dict[str, Any]:
    visible = {name: key.seen(data[name], data, view) for name, key in keys.items() if name in data}
    return {name: to_jsonable(value) for name, value in visible.items() if value is not HIDDEN}


@dataclass(frozen=True, slots=True, init=False)
class BaseEvent:
    """Fields of all events; see `events.Event`.

    Args:
        step: Step number, from 1; 0 before the first step.
        data: Details; the keys are the argument names of the factory.
        timestamp: Seconds since the epoch; now if None.
    """

    KEYS: ClassVar[dict[EventType, dict[str, DataKey]]] = {}
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
        # Slot setters cost half of `object.__setattr__` by name, and every delta comes through here.
        _set_type(self, type)
        _set_step(self, step)
        _set_data(self, data)
        _set_timestamp(self, _now() if timestamp is None else timestamp)
        set_number(self, number)

    @property
    def content(self) -> str:
        """Text of the event, or an empty string."""
        for key in _TEXT_KEYS:
            value = self.data.get(key)
            if isinstance(value, str):
                return value
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        data = {k: portable(v) if k in IN_PROCESS else v for k, v in self.data.items()}
        return type(self), (self.type, self.step, data, self.timestamp, self.number)

    def to_dict(self) -> dict[str, Any]:
        """Return the complete plain JSON form, for operators. Does not raise for any tool argument."""
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
        """Return the plain JSON form for outside viewers, such as a browser; see docs/events.md.

        Args:
            tools: Tools whose arguments, progress and results are visible; True for all.
            reasoning: True shows the model's reasoning, which often repeats the system prompt.

        Raises:
            ConfigError: `tools` is not a collection of names.
        """
        if isinstance(tools, (str, bytes)):
            raise ConfigError(
                f"tools must be a list of tool names, such as [{tools!r:.40}], or True for all."
            )
        return {
            "version": VERSION,
            "type": self.type.value,
            "number": self.number,
            "step": self.step,
            "timestamp": self.timestamp,
            "data": _seen(self.KEYS[self.type], self.data, View(tools, reasoning)),
        }

    def _repr_html_(self) -> str:
        """Return an escaped line for notebooks."""
        from html import escape  # slow to import: a table of all entities

        text = escape(self.content)
        return f"<b>{self.type.value}</b> <i>step {self.step}</i> <pre>{text}</pre>"


_SLOTS: Any = BaseEvent
_set_type, _set_step, _set_data = _SLOTS.type.__set__, _SLOTS.step.__set__, _SLOTS.data.__set__
_set_timestamp, set_number = _SLOTS.timestamp.__set__, _SLOTS.number.__set__
