"""Events of a run: frozen values, with a class and a factory for each type.

The grammar of a run (``*`` any number, ``?`` at most once):

    run    = LOOP_START NOTICE* step* ERROR? LOOP_END
    step   = SOFT_LIMIT? NOTICE* answer (PERMISSION* ACTION+ OBSERVATION+ FILE_CHANGE* NOTICE?)? STEP_END
    answer = (REASONING_DELTA | TEXT_DELTA | TOOL_CALL_DELTA | PARTIAL_OUTPUT | RETRY | NOTICE | COMPACTION)*
             REASONING? THOUGHT?

After a LOOP_END with the stop reason ``handed_off``, the run of the next agent follows, with its name.

PART, TASK and PROGRESS may occur anywhere: for each change of a part or a subtask, and for each progress
report of a running call. If a run is cancelled, fails or suspends, the rest of `step` is missing, and results
without an OBSERVATION are in the messages of LOOP_END. An external call has two ACTIONs: one when the model
requests it, and one in the run that resumes with its result.

ACTIONs of one step are consecutive, in call order. So are its OBSERVATIONs, each sent as soon as it and all
earlier ones are known. After a RETRY with ``discard`` set, a view drops the text deltas of this step.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from pure_agent_loop.event_data import (
    IN_PROCESS,
    TASK_STATES,
    BaseEvent,
    EventType,
    TaskState,
    kept,
    keys_of,
    of_numbers,
    of_part,
    of_result,
    of_task,
    of_thinking,
    of_tool,
    shown,
)
from pure_agent_loop.stop_reasons import StopReason


class _Factories(type):
    """Factories of `Event`: on the metaclass, so that an event has only data attributes."""

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> _Factories:
        return super().__new__(cls, name, bases, {"__slots__": (), **names})

    def loop_start(cls, task: str, agent: str = "") -> LoopStartEvent:
        """Report the start of a run. `task` is empty when a state is resumed; `agent` is the agent's name."""
        named = {"agent": agent} if agent else {}
        return LoopStartEvent(EventType.LOOP_START, 0, {"task": task, **named})

    def thought(cls, step: int, content: str) -> ThoughtEvent:
        """Report the complete text of a response, with or without tool calls."""
        return ThoughtEvent(EventType.THOUGHT, step, {"content": content})

    def reasoning(cls, step: int, content: str) -> ReasoningEvent:
        """Report the complete reasoning of a response; only with ``emit_reasoning_events=True``."""
        return ReasoningEvent(EventType.REASONING, step, {"content": content})

    def action(cls, step: int, tool: str, args: Mapping[str, Any], call_id: str = "") -> ActionEvent:
        """Report that a tool is about to be called."""
        return ActionEvent(EventType.ACTION, step, {"tool": tool, "args": dict(args), "call_id": call_id})

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
    ) -> ObservationEvent:
        """Report a tool's result as the model reads it; `duration` is in seconds.

        `value` is the returned object. `exception` is the exception of the tool function, if probably a bug.
        The JSON form omits both.
        """
        data: dict[str, Any] = {"tool": tool, "result": result, "duration": duration}
        data |= {"call_id": call_id, "is_error": is_error}
        if value is not None:
            data["value"] = value
        if exception is not None:
            data["exception"] = exception
        return ObservationEvent(EventType.OBSERVATION, step, data)

    def soft_limit(cls, step: int, reason: str, prompt: str) -> SoftLimitEvent:
        """Report a soft limit; `prompt` is the notice for the model. The run continues."""
        return SoftLimitEvent(EventType.SOFT_LIMIT, step, {"reason": reason, "prompt": prompt})

    def error(cls, step: int, error: str, fatal: bool = False, kind: str = "unknown") -> ErrorEvent:
        """Report a failure. A fatal one ends the run."""
        return ErrorEvent(EventType.ERROR, step, {"error": error, "fatal": fatal, "kind": kind})

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

    def retry(cls, step: int, attempt: int, delay: float, error: str, discard: bool) -> RetryEvent:
        """Report a failed request that is retried after `delay` seconds; `attempt` counts from 1."""
        data = {"attempt": attempt, "delay": delay, "error": error, "discard": discard}
        return RetryEvent(EventType.RETRY, step, data)

    def notice(cls, step: int, message: str, **details: Any) -> NoticeEvent:
        """Report a notice for a person, such as a repaired history or a message put into the run."""
        return NoticeEvent(EventType.NOTICE, step, {"message": message, **details})

    def part(cls, step: int, part: Mapping[str, Any]) -> PartEvent:
        """Report a changed part; `part` is its plain form, see `parts.Part`."""
        return PartEvent(EventType.PART, step, {"part": dict(part)})

    def permission(
        cls, step: int, tool: str, args: Mapping[str, Any], behavior: str, reason: str = "", call_id: str = ""
    ) -> PermissionEvent:
        """Report a question about a call (``ask``), or a decision (``allow``, ``deny``)."""
        data = {"tool": tool, "args": dict(args), "behavior": behavior, "reason": reason, "call_id": call_id}
        return PermissionEvent(EventType.PERMISSION, step, data)

    def compaction(
        cls, step: int, rung: str, tokens: tuple[int, int], messages: tuple[int, int]
    ) -> CompactionEvent:
        """Report a compaction, with the numbers of tokens and of messages before and after."""
        data = {
            "rung": rung,
            "tokens_before": tokens[0],
            "tokens_after": tokens[1],
            "messages_before": messages[0],
            "messages_after": messages[1],
        }
        return CompactionEvent(EventType.COMPACTION, step, data)

    def file_change(cls, step: int, change: Mapping[str, Any]) -> FileChangeEvent:
        """Report a file changed by the tools of a step; see `observers.FileChange` for the keys."""
        return FileChangeEvent(EventType.FILE_CHANGE, step, dict(change))

    def task(cls, step: int, task: Mapping[str, Any], part: Mapping[str, Any] | None = None) -> TaskEvent:
        """Report a subtask's start, progress or end; `task`: its plain record; `part`: its changed call."""
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
        cls, step: int, usage: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> StepEndEvent:
        """Report the end of a step. `usage`: tokens of the run so far; `context`: use of the context
        window."""
        data = {"usage": dict(usage or {}), **({} if context is None else {"context": dict(context)})}
        return StepEndEvent(EventType.STEP_END, step, data)

    def from_dict(cls, plain: Mapping[str, Any], number: int = 0) -> AnyEvent:
        """Build an event from the form of ``to_dict``.

        Raises:
            KeyError, ValueError: The form is invalid.
        """
        kind = EventType(plain["type"])
        return _CLASSES[kind](kind, plain["step"], plain["data"], plain["timestamp"], number)


class Event(BaseEvent, metaclass=_Factories):
    """Event of a run. Each type has a class with the keys of its `data` as attributes.

    Fields: `type`; `step`, from 1, or 0 before the first; `data`, whose keys are the argument names of the
    factory; `timestamp`, in seconds since the epoch; `number`, the position in the run from 1, or 0 outside a
    run.
    """


class LoopStartEvent(Event):
    """See `Event.loop_start`."""

    type: Literal[EventType.LOOP_START]
    task: str = shown()
    agent: str = kept()


class ThoughtEvent(Event):
    """See `Event.thought`."""

    type: Literal[EventType.THOUGHT]
    content: str = shown()


class ReasoningEvent(Event):
    """See `Event.reasoning`."""

    type: Literal[EventType.REASONING]
    content: str = of_thinking()


class ActionEvent(Event):
    """See `Event.action`."""

    type: Literal[EventType.ACTION]
    tool: str = shown()
    args: dict[str, Any] = of_tool({})
    call_id: str = shown()


class ObservationEvent(Event):
    """See `Event.observation`."""

    type: Literal[EventType.OBSERVATION]
    tool: str = shown()
    result: str = of_result()
    duration: float = shown(0.0)
    call_id: str = shown()
    is_error: bool = shown(default=False)
    value: Any = kept(None)
    exception: BaseException | None = kept(None)

    def _plain_data(self) -> dict[str, Any]:
        return {name: value for name, value in self.data.items() if name not in IN_PROCESS}


class SoftLimitEvent(Event):
    """See `Event.soft_limit`."""

    type: Literal[EventType.SOFT_LIMIT]
    reason: str = shown()
    prompt: str = kept()


class ErrorEvent(Event):
    """See `Event.error`."""

    type: Literal[EventType.ERROR]
    error: str = kept()
    fatal: bool = shown(default=False)
    kind: str = shown("unknown")


class LoopEndEvent(Event):
    """See `Event.loop_end`."""

    type: Literal[EventType.LOOP_END]
    stop_reason: StopReason = shown()
    content: str = shown()
    messages: list[dict[str, Any]] = kept([])


class TextDeltaEvent(Event):
    """See `Event.text_delta`."""

    type: Literal[EventType.TEXT_DELTA]
    content: str = shown()


class ReasoningDeltaEvent(Event):
    """See `Event.reasoning_delta`."""

    type: Literal[EventType.REASONING_DELTA]
    content: str = of_thinking()


class ToolCallDeltaEvent(Event):
    """See `Event.tool_call_delta`."""

    type: Literal[EventType.TOOL_CALL_DELTA]
    index: int | None = shown(None)
    tool: str | None = shown(None)
    arguments: str = of_tool()


class RetryEvent(Event):
    """See `Event.retry`."""

    type: Literal[EventType.RETRY]
    attempt: int = shown(0)
    delay: float = shown(0.0)
    error: str = kept()
    discard: bool = shown(default=False)


class NoticeEvent(Event):
    """See `Event.notice`."""

    type: Literal[EventType.NOTICE]
    message: str = kept()
    synthetic: bool = shown(default=False)


class PartEvent(Event):
    """See `Event.part`."""

    type: Literal[EventType.PART]
    part: dict[str, Any] = of_part()


class PermissionEvent(Event):
    """See `Event.permission`."""

    type: Literal[EventType.PERMISSION]
    tool: str = shown()
    args: dict[str, Any] = of_tool({})
    behavior: Literal["allow", "deny", "ask"] = shown()
    reason: str = kept()
    call_id: str = shown()


class CompactionEvent(Event):
    """See `Event.compaction`."""

    type: Literal[EventType.COMPACTION]
    rung: str = shown()
    tokens_before: int = shown(0)
    tokens_after: int = shown(0)
    messages_before: int = shown(0)
    messages_after: int = shown(0)


class FileChangeEvent(Event):
    """See `Event.file_change`."""

    type: Literal[EventType.FILE_CHANGE]
    path: str = shown()
    kind: Literal["created", "modified", "deleted"] = shown()
    diff: str = kept()
    added: int = shown(0)
    removed: int = shown(0)
    is_binary: bool = shown(default=False)


class TaskEvent(Event):
    """See `Event.task`."""

    type: Literal[EventType.TASK]
    task: dict[str, Any] = of_task()
    part: dict[str, Any] = of_part()


class ProgressEvent(Event):
    """See `Event.progress`."""

    type: Literal[EventType.PROGRESS]
    tool: str = shown()
    text: str = of_tool()
    call_id: str = shown()
    level: str = shown()
    logger: str = of_tool()


class PartialOutputEvent(Event):
    """See `Event.partial_output`."""

    type: Literal[EventType.PARTIAL_OUTPUT]
    output: Any = shown(None)


class StepEndEvent(Event):
    """See `Event.step_end`."""

    type: Literal[EventType.STEP_END]
    usage: dict[str, Any] = of_numbers()
    context: dict[str, Any] = of_numbers()


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
BaseEvent.KEYS.update({kind: keys_of(event_class) for kind, event_class in _CLASSES.items()})
Emit = Callable[[AnyEvent], Awaitable[None]]  # receives each event
__all__ = ["TASK_STATES", "AnyEvent", "Emit", "Event", "EventType", "TaskState"]
__all__ += [event_class.__name__ for event_class in _CLASSES.values()]
