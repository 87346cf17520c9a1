"""Events of a run: frozen values, with a class and a factory for each type.

The grammar of a run (``*`` any number, ``?`` at most once):

    run    = LOOP_START NOTICE* step* ERROR? LOOP_END
    step   = SOFT_LIMIT? NOTICE* answer (PERMISSION* ACTION+ OBSERVATION+ FILE_CHANGE* NOTICE?)? STEP_END
    answer = (REASONING_DELTA | TEXT_DELTA | TOOL_CALL_DELTA | PARTIAL_OUTPUT | RETRY | NOTICE | COMPACTION)*
             REASONING? THOUGHT?

After a LOOP_END with the stop reason ``handed_off``, the run of the next agent follows, with its name.

PART, TASK and PROGRESS may occur anywhere: for each change of a part or a subtask, and for each progress
report of a running call. If a run is cancelled, fails or is suspended, the rest of `step` is missing, and
results without an OBSERVATION are in the messages of LOOP_END. An external call has two ACTIONs: one when the
model requests it, and one in the run that resumes with its result.

ACTIONs of one step are consecutive, in call order. OBSERVATIONs of one step are consecutive, too; each is
sent as soon as its result and all earlier results are known. After a RETRY with ``discard`` set, a view drops
the text deltas of this step.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from pure_agent_loop.errors import ConfigError, portable
from pure_agent_loop.stop_reasons import StopReason
from pure_agent_loop.support.text import present, to_jsonable

VERSION = 1  # version of the plain form
# Keys with Python objects from user functions; omitted from the plain form.
IN_PROCESS = ("value", "exception")
_TEXT_KEYS = ("content", "result", "prompt", "error", "message", "text")
_now = time.time
HIDDEN = object()
_TASK_KEYS = ("id", "agent", "state", "background", "step", "created", "started", "ended", "calls", "tokens",
              "cost", "last_activity", "last_tool", "stop_reason", "call_id", "session_id")  # fmt: skip
_PART_KEYS = ("id", "message_id", "type", "state", "tool", "call_id", "created", "started", "ended")


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


Picked = Callable[[Any, dict[str, Any], View], Any]  # takes a value, all data of its event, and a `View`


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


def _keys(seen: Picked, default: Any = "") -> Callable[..., Any]:
    """Return a function that declares a key; `default` applies unless the declaration sets its own."""
    return lambda default=default: DataKey(seen, default)


def _part(value: Any, _: Any, view: View) -> dict[str, Any]:
    value = value if isinstance(value, dict) else {}
    kind, failed = value.get("type"), value.get("state") == "error"
    open_call = kind == "tool" and view.has_tool(value.get("tool"))
    names = [*_PART_KEYS, *(["input", "title"] if open_call else [])]
    if kind == "text" or (kind == "reasoning" and view.reasoning) or (open_call and not failed):
        names.append("output")
    return _only(value, names)


def _only(value: Any, names: Iterable[str], kinds: Any = object) -> dict[str, Any]:
    known = value if isinstance(value, dict) else {}
    return {name: known[name] for name in names if name in known and isinstance(known[name], kinds)}


public = _keys(lambda value, _, __: value)  # visible to all viewers
hidden = _keys(lambda _, __, ___: HIDDEN)
# An argument or result of a tool, for viewers who may see the tool. `result_only` hides the text of a failed
# call, because it may contain URLs and file names.
tool_only = _keys(lambda value, data, view: value if view.has_tool(data.get("tool")) else HIDDEN)
result_only = _keys(
    lambda value, data, view: (
        value if view.has_tool(data.get("tool")) and not data.get("is_error") else HIDDEN
    )
)
# The model's reasoning, which often repeats the system prompt, for viewers who may see it.
reasoning_only = _keys(lambda value, _, view: value if view.reasoning else HIDDEN)
numbers_only = _keys(
    lambda value, _, __: _only(value, list(value) if isinstance(value, dict) else (), (int, float)), {}
)
# The record of a task, without the task's text, answer and location.
task_record = _keys(lambda value, _, __: _only(value, _TASK_KEYS), {})
answer_part = _keys(_part, {})


class _Factories(type):
    """Factories of `Event`, defined on the metaclass so that an event has only data attributes."""

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> _Factories:
        slots = {"__slots__": ()} if bases else {}
        return super().__new__(cls, name, bases, {**slots, **names})

    def loop_start(cls, task: str, agent: str = "") -> LoopStartEvent:
        """Report the start of a run. `task` is empty when a state is resumed; `agent` is the agent's name."""
        return LoopStartEvent(EventType.LOOP_START, 0, {"task": task, **present(agent=agent or None)})

    def thought(cls, step: int, content: str) -> ThoughtEvent:
        """Report the complete text of a response, with or without tool calls."""
        return ThoughtEvent(EventType.THOUGHT, step, {"content": content})

    def reasoning(cls, step: int, content: str) -> ReasoningEvent:
        """Report the complete reasoning of a response; only with ``emit_reasoning_events=True``."""
        return ReasoningEvent(EventType.REASONING, step, {"content": content})

    def action(
        cls, step: int, tool: str, args: Mapping[str, Any], call_id: str = "", title: str = ""
    ) -> ActionEvent:
        """Report that a tool is about to be called; `title` is from ``Tool(running=)``."""
        data = {"tool": tool, "args": dict(args), "call_id": call_id}
        if title:
            data["title"] = title
        return ActionEvent(EventType.ACTION, step, data)

    def observation(
        cls,
        step: int,
        tool: str,
        result: str,
        duration: float,
        call_id: str = "",
        is_error: bool = False,
        value: Any = None,
        exception: BaseException | None = None,
        *,
        command: Mapping[str, Any] | None = None,
        refused: str = "",
        unasked: bool = False,
    ) -> ObservationEvent:
        """Report a tool's result as the model reads it; `duration` is in seconds.

        `command` describes the end of a command: ``exit_code``, ``seconds``, ``read_only``, the number of
        output ``lines`` and their ``tail``; `is_error` is False for a command that ran and failed. `refused`
        is the error kind of an allowed call that was not made, because the tool is missing or rejects the
        arguments. `unasked`: the call was not made because it would have failed; otherwise a person would
        have been asked about it. `value` is the returned object. `exception` is what the tool function
        raised, if that is probably a bug. The JSON form omits `value` and `exception`.
        """
        data: dict[str, Any] = {"tool": tool, "result": result, "duration": duration}
        data |= {"call_id": call_id, "is_error": is_error}
        ended = None if command is None else dict(command)
        more = {"value": value, "exception": exception, "command": ended}
        more |= {"refused": refused or None, "unasked": unasked or None}
        data |= {name: item for name, item in more.items() if item is not None}
        return ObservationEvent(EventType.OBSERVATION, step, data)

    def soft_limit(cls, step: int, reason: str, prompt: str) -> SoftLimitEvent:
        """Report a soft limit; `prompt` is the notice for the model. The run continues."""
        return SoftLimitEvent(EventType.SOFT_LIMIT, step, {"reason": reason, "prompt": prompt})

    def error(
        cls,
        step: int,
        error: str,
        fatal: bool = False,
        kind: str = "unknown",
        *,
        title: Mapping[str, str] | None = None,
        fix: Mapping[str, str] | None = None,
        said: str = "",
    ) -> ErrorEvent:
        """Report a failure; with `fatal`, the failure ends the run.

        `title` says what happened and `fix` what to do, by language; `said` is the server's error text.
        """
        more = present(title=title or None, fix=fix or None, said=said or None)
        return ErrorEvent(EventType.ERROR, step, {"error": error, "fatal": fatal, "kind": kind, **more})

    def loop_end(
        cls,
        step: int,
        stop_reason: str,
        content: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> LoopEndEvent:
        """Report the end of the run. `messages` is the complete history, ready to be continued."""
        data = {"stop_reason": stop_reason, "content": content, "messages": list(messages or ())}
        return LoopEndEvent(EventType.LOOP_END, step, data)

    def text_delta(cls, step: int, content: str) -> TextDeltaEvent:
        """Report the next chunk of streamed text."""
        return TextDeltaEvent(EventType.TEXT_DELTA, step, {"content": content})

    def reasoning_delta(cls, step: int, content: str) -> ReasoningDeltaEvent:
        """Report the next chunk of streamed reasoning; only with ``emit_reasoning_events=True``."""
        return ReasoningDeltaEvent(EventType.REASONING_DELTA, step, {"content": content})

    def tool_call_delta(
        cls, step: int, index: int | None, tool: str | None, arguments: str
    ) -> ToolCallDeltaEvent:
        """Report the next chunk of a call's arguments. For display only: a retry may discard it."""
        data = {"index": index, "tool": tool, "arguments": arguments}
        return ToolCallDeltaEvent(EventType.TOOL_CALL_DELTA, step, data)

    def retry(
        cls,
        step: int,
        attempt: int,
        delay: float,
        error: str,
        discard: bool,
        *,
        attempts: int = 0,
        status: int | None = None,
        said: str = "",
        title: Mapping[str, str] | None = None,
    ) -> RetryEvent:
        """Report a failed request that is retried after `delay` seconds; `attempt` counts from 1.

        `attempts` is the maximum number of attempts; `status` and `said` are the server's HTTP status and
        error text, if it responded; `title` says what happened, by language.
        """
        data = {"attempt": attempt, "delay": delay, "error": error, "discard": discard}
        more = present(attempts=attempts or None, status=status or None, said=said or None)
        more |= present(title=title or None)
        return RetryEvent(EventType.RETRY, step, {**data, **more})

    def notice(cls, step: int, message: str, **details: Any) -> NoticeEvent:
        """Report a notice for a person, such as about a repaired history or a message added to the run."""
        return NoticeEvent(EventType.NOTICE, step, {"message": message, **details})

    def part(cls, step: int, part: Mapping[str, Any]) -> PartEvent:
        """Report a changed part; `part` is its plain form, see `parts.Part`."""
        return PartEvent(EventType.PART, step, {"part": dict(part)})

    def permission(
        cls,
        step: int,
        tool: str,
        args: Mapping[str, Any],
        behavior: str,
        reason: str = "",
        call_id: str = "",
        origins: Sequence[Mapping[str, Any]] = (),
        title: str = "",
    ) -> PermissionEvent:
        """Report a question about a call (``ask``), or a decision (``allow``, ``deny``).

        Args:
            origins: In the mode ``guard``: where each value comes from; see `PermissionRequest`.
            title: The question in the words of the tool: ``Tool(asks=)``.
        """
        data = {"tool": tool, "args": dict(args), "behavior": behavior, "reason": reason, "call_id": call_id}
        more = present(origins=[*map(dict, origins)] or None, title=title or None)
        return PermissionEvent(EventType.PERMISSION, step, {**data, **more})

    def compaction(
        cls,
        step: int,
        rung: str,
        tokens: tuple[int, int],
        messages: tuple[int, int],
        worth: tuple[int, int] | None = None,
    ) -> CompactionEvent:
        """Report a compaction, with the numbers of tokens and of messages before and after.

        Args:
            worth: Cost of rewriting the prefix, and savings of the shorter prompt; see `compaction.cost`.
        """
        data = {
            "rung": rung,
            "tokens_before": tokens[0],
            "tokens_after": tokens[1],
            "messages_before": messages[0],
            "messages_after": messages[1],
            **({} if worth is None else {"cost": worth[0], "saving": worth[1]}),
        }
        return CompactionEvent(EventType.COMPACTION, step, data)

    def file_change(cls, step: int, change: Mapping[str, Any]) -> FileChangeEvent:
        """Report a file changed by the tools of a step; see `observers.FileChange` for the keys."""
        return FileChangeEvent(EventType.FILE_CHANGE, step, dict(change))

    def task(cls, step: int, task: Mapping[str, Any], part: Mapping[str, Any] | None = None) -> TaskEvent:
        """Report a subtask's start, progress or end: its record, and the part of the call that changed."""
        return TaskEvent(EventType.TASK, step, {"task": dict(task), **({"part": dict(part)} if part else {})})

    def progress(cls, step: int, tool: str, text: str, call_id: str = "", **details: str) -> ProgressEvent:
        """Report the progress of a running call. `details`: ``level`` and ``logger`` of a log message."""
        return ProgressEvent(
            EventType.PROGRESS, step, {**details, "tool": tool, "text": text, "call_id": call_id}
        )

    def partial_output(cls, step: int, output: Any) -> PartialOutputEvent:
        """Report the partial typed output so far, in plain form."""
        return PartialOutputEvent(EventType.PARTIAL_OUTPUT, step, {"output": output})

    def step_end(
        cls,
        step: int,
        usage: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        step_usage: Mapping[str, Any] | None = None,
    ) -> StepEndEvent:
        """Report the end of a step. `usage`: tokens of the run so far; `context`: use of the context
        window; `step_usage`: tokens of the step's response."""
        more = present(context=context, step_usage=step_usage)
        data = {"usage": dict(usage or {}), **{name: dict(value) for name, value in more.items()}}
        return StepEndEvent(EventType.STEP_END, step, data)

    def from_dict(cls, plain: Mapping[str, Any], number: int = 0) -> AnyEvent:
        """Build an event from the form of ``to_dict``.

        Raises:
            KeyError, ValueError: The form is invalid.
        """
        kind = EventType(plain["type"])
        return _CLASSES[kind](kind, plain["step"], plain["data"], plain["timestamp"], number)


@dataclass(frozen=True, slots=True, init=False)
class Event(metaclass=_Factories):
    """Event of a run. Each type has a class with the keys of its `data` as attributes.

    Args:
        step: Step number, from 1; 0 before the first step.
        data: Details; the keys are the argument names of the factory.
        timestamp: Seconds since the epoch; now if None. As a positional argument it may also
            precede `data`.
        number: Position in the run, from 1; 0 outside a run.
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
        moment: Any = timestamp
        if moment.__class__ is dict:  # positional arguments in the order type, step, timestamp, data
            moment, data = data, moment
        # Slot setters take half the time of `object.__setattr__` by name, and this code runs for every delta.
        _set_type(self, type)
        _set_step(self, step)
        _set_data(self, data)
        _set_timestamp(self, _now() if moment is None else moment)
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
        view, data = View(tools, reasoning), self.data
        keys = self.KEYS[self.type].items()
        visible = {name: key.seen(data[name], data, view) for name, key in keys if name in data}
        return {
            "version": VERSION,
            "type": self.type.value,
            "number": self.number,
            "step": self.step,
            "timestamp": self.timestamp,
            "data": {name: to_jsonable(value) for name, value in visible.items() if value is not HIDDEN},
        }

    def _repr_html_(self) -> str:
        """Return an escaped line for notebooks."""
        # Imported here, because its table of entities loads slowly.
        from pure_agent_loop.support.prose import escaped

        return f"<b>{self.type.value}</b> <i>step {self.step}</i> <p>{escaped(self.content)}</p>"


_SLOTS: Any = Event
_set_type, _set_step, _set_data = _SLOTS.type.__set__, _SLOTS.step.__set__, _SLOTS.data.__set__
_set_timestamp, set_number = _SLOTS.timestamp.__set__, _SLOTS.number.__set__


class LoopStartEvent(Event):
    """See `Event.loop_start`."""

    type: Literal[EventType.LOOP_START]
    task: str = public()
    agent: str = hidden()


class ThoughtEvent(Event):
    """See `Event.thought`."""

    type: Literal[EventType.THOUGHT]
    content: str = public()


class ReasoningEvent(Event):
    """See `Event.reasoning`."""

    type: Literal[EventType.REASONING]
    content: str = reasoning_only()


class ActionEvent(Event):
    """See `Event.action`."""

    type: Literal[EventType.ACTION]
    tool: str = public()
    args: dict[str, Any] = tool_only({})
    call_id: str = public()
    title: str = tool_only()


class ObservationEvent(Event):
    """See `Event.observation`."""

    type: Literal[EventType.OBSERVATION]
    tool: str = public()
    result: str = result_only()
    duration: float = public(0.0)
    call_id: str = public()
    is_error: bool = public(default=False)
    command: dict[str, Any] | None = tool_only(None)
    refused: str = public()
    unasked: bool = public(default=False)
    value: Any = hidden(None)
    exception: BaseException | None = hidden(None)

    def _plain_data(self) -> dict[str, Any]:
        return {name: value for name, value in self.data.items() if name not in IN_PROCESS}


class SoftLimitEvent(Event):
    """See `Event.soft_limit`."""

    type: Literal[EventType.SOFT_LIMIT]
    reason: str = public()
    prompt: str = hidden()


class ErrorEvent(Event):
    """See `Event.error`."""

    type: Literal[EventType.ERROR]
    error: str = hidden()
    fatal: bool = public(default=False)
    kind: str = public("unknown")
    title: dict[str, str] | None = public(None)
    fix: dict[str, str] | None = hidden(None)
    said: str = hidden("")


class LoopEndEvent(Event):
    """See `Event.loop_end`."""

    type: Literal[EventType.LOOP_END]
    stop_reason: StopReason = public()
    content: str = public()
    messages: list[dict[str, Any]] = hidden([])


class TextDeltaEvent(Event):
    """See `Event.text_delta`."""

    type: Literal[EventType.TEXT_DELTA]
    content: str = public()


class ReasoningDeltaEvent(Event):
    """See `Event.reasoning_delta`."""

    type: Literal[EventType.REASONING_DELTA]
    content: str = reasoning_only()


class ToolCallDeltaEvent(Event):
    """See `Event.tool_call_delta`."""

    type: Literal[EventType.TOOL_CALL_DELTA]
    index: int | None = public(None)
    tool: str | None = public(None)
    arguments: str = tool_only()


class RetryEvent(Event):
    """See `Event.retry`."""

    type: Literal[EventType.RETRY]
    attempt: int = public(0)
    delay: float = public(0.0)
    error: str = hidden()
    discard: bool = public(default=False)
    attempts: int = public(0)
    status: int | None = public(None)
    said: str = hidden()
    title: dict[str, str] | None = public(None)


class NoticeEvent(Event):
    """See `Event.notice`."""

    type: Literal[EventType.NOTICE]
    message: str = hidden()
    synthetic: bool = public(default=False)
    model: str = hidden()
    start: int = hidden(default=0)


class PartEvent(Event):
    """See `Event.part`."""

    type: Literal[EventType.PART]
    part: dict[str, Any] = answer_part()


class PermissionEvent(Event):
    """See `Event.permission`."""

    type: Literal[EventType.PERMISSION]
    tool: str = public()
    args: dict[str, Any] = tool_only({})
    behavior: Literal["allow", "deny", "ask"] = public()
    reason: str = hidden()
    call_id: str = public()
    origins: list[dict[str, Any]] = hidden([])
    title: str = tool_only()


class CompactionEvent(Event):
    """See `Event.compaction`."""

    type: Literal[EventType.COMPACTION]
    rung: str = public()
    tokens_before: int = public(0)
    tokens_after: int = public(0)
    messages_before: int = public(0)
    messages_after: int = public(0)
    cost: int = public(0)
    saving: int = public(0)


class FileChangeEvent(Event):
    """See `Event.file_change`."""

    type: Literal[EventType.FILE_CHANGE]
    path: str = public()
    kind: Literal["created", "modified", "deleted"] = public()
    diff: str = hidden()
    added: int = public(0)
    removed: int = public(0)
    is_binary: bool = public(default=False)


class TaskEvent(Event):
    """See `Event.task`."""

    type: Literal[EventType.TASK]
    task: dict[str, Any] = task_record()
    part: dict[str, Any] = answer_part()


class ProgressEvent(Event):
    """See `Event.progress`."""

    type: Literal[EventType.PROGRESS]
    tool: str = public()
    text: str = tool_only()
    call_id: str = public()
    level: str = public()
    logger: str = tool_only()


class PartialOutputEvent(Event):
    """See `Event.partial_output`."""

    type: Literal[EventType.PARTIAL_OUTPUT]
    output: Any = public(None)


class StepEndEvent(Event):
    """See `Event.step_end`."""

    type: Literal[EventType.STEP_END]
    usage: dict[str, Any] = numbers_only()
    context: dict[str, Any] = numbers_only()
    served: list[list[Any]] = hidden(default=[])
    token_details: dict[str, Any] | None = hidden(default=None)
    step_usage: dict[str, Any] = numbers_only()


AnyEvent: TypeAlias = (
    LoopStartEvent
    | ThoughtEvent
    | ReasoningEvent
    | ActionEvent
    | ObservationEvent
    | SoftLimitEvent
    | ErrorEvent
    | LoopEndEvent
    | TextDeltaEvent
    | ReasoningDeltaEvent
    | ToolCallDeltaEvent
    | RetryEvent
    | NoticeEvent
    | PartEvent
    | PermissionEvent
    | CompactionEvent
    | FileChangeEvent
    | TaskEvent
    | ProgressEvent
    | PartialOutputEvent
    | StepEndEvent
)

_CLASSES: Mapping[EventType, type[AnyEvent]] = {
    EventType(re.sub("(?<!^)(?=[A-Z])", "_", event_class.__name__.removesuffix("Event")).lower()): event_class
    for event_class in get_args(AnyEvent)
}
for kind, event_class in _CLASSES.items():
    Event.KEYS[kind] = {name: key for name, key in vars(event_class).items() if isinstance(key, DataKey)}
Emit = Callable[[AnyEvent], Awaitable[None]]  # function that receives each event of a run
__all__ = ["TASK_STATES", "AnyEvent", "Emit", "Event", "EventType", "TaskState"]
__all__ += [event_class.__name__ for event_class in _CLASSES.values()]
