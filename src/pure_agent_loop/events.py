"""What a run tells the outside: frozen events with one factory each.

The grammar of a run (``*`` any number, ``?`` at most once):

    run    = LOOP_START NOTICE* step* ERROR? LOOP_END
    step   = SOFT_LIMIT? NOTICE* answer (PERMISSION* ACTION+ OBSERVATION+ FILE_CHANGE* NOTICE?)? STEP_END
    answer = (REASONING_DELTA | TEXT_DELTA | TOOL_CALL_DELTA | RETRY | NOTICE | COMPACTION)*
             REASONING? THOUGHT?

A PART may stand anywhere beside these: one for each change of a fragment of text, of reasoning or of a call.
So may a TASK: one for each change of a subtask; and a PROGRESS: what a call says while it runs. A
PARTIAL_OUTPUT stands among the deltas of an answer: the typed output as far as it is written.

A run that is cancelled, fails or waits for a permission leaves its step where it is: the rest of `step` is
missing, and calls without an OBSERVATION have their result in the messages of LOOP_END.

ACTIONs of one step come together, in call order; so do its OBSERVATIONs, each as soon as it and those
before it are known. After a RETRY with ``discard`` set, a view drops the text deltas of this step.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, get_args

from pure_agent_loop.support.text import to_jsonable

_TEXT_KEYS = ("content", "result", "prompt", "error", "message", "text")


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


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a run.

    Args:
        type: What kind.
        step: The step it belongs to, from 1; 0 before the first.
        data: Its details; the keys are the argument names of the factory.
        timestamp: Seconds since the epoch.
    """

    type: EventType
    step: int
    data: dict[str, Any]
    timestamp: float = field(default_factory=time.time)

    @property
    def content(self) -> str:
        """The text this event carries, or an empty string."""
        for key in _TEXT_KEYS:
            value = self.data.get(key)
            if isinstance(value, str):
                return value
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form; never fails, whatever a tool was given or returned."""
        return {
            "type": self.type.value,
            "step": self.step,
            "timestamp": self.timestamp,
            "data": to_jsonable(self.data),
        }

    def _repr_html_(self) -> str:
        """A line for notebooks, escaped."""
        import html

        return f"<b>{self.type.value}</b> <i>step {self.step}</i> <pre>{html.escape(self.content)}</pre>"

    @classmethod
    def loop_start(cls, task: str) -> Event:
        """A run begins. `task` is what was asked, empty when a run goes on from a state."""
        return cls(EventType.LOOP_START, 0, {"task": task})

    @classmethod
    def thought(cls, step: int, content: str) -> Event:
        """The whole text of an answer, whether or not calls follow it."""
        return cls(EventType.THOUGHT, step, {"content": content})

    @classmethod
    def reasoning(cls, step: int, content: str) -> Event:
        """The whole thinking of an answer; only with ``emit_reasoning_events=True``."""
        return cls(EventType.REASONING, step, {"content": content})

    @classmethod
    def action(cls, step: int, tool: str, args: Mapping[str, Any], call_id: str = "") -> Event:
        """A tool is about to be called."""
        return cls(EventType.ACTION, step, {"tool": tool, "args": dict(args), "call_id": call_id})

    @classmethod
    def observation(
        cls, step: int, tool: str, result: str, duration: float, call_id: str = "", is_error: bool = False
    ) -> Event:
        """A tool's result, as the model reads it. `duration` is in seconds."""
        data = {
            "tool": tool,
            "result": result,
            "duration": duration,
            "call_id": call_id,
            "is_error": is_error,
        }
        return cls(EventType.OBSERVATION, step, data)

    @classmethod
    def soft_limit(cls, step: int, reason: str, prompt: str) -> Event:
        """A soft limit was reached; `prompt` is the notice the model gets. The run goes on."""
        return cls(EventType.SOFT_LIMIT, step, {"reason": reason, "prompt": prompt})

    @classmethod
    def error(cls, step: int, error: str, fatal: bool = False, kind: str = "unknown") -> Event:
        """Something failed. After a fatal one the run ends."""
        return cls(EventType.ERROR, step, {"error": error, "fatal": fatal, "kind": kind})

    @classmethod
    def loop_end(
        cls,
        step: int,
        stop_reason: str,
        content: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> Event:
        """The run is over. `messages` is the whole history, ready to go on from."""
        data = {"stop_reason": stop_reason, "content": content, "messages": list(messages or ())}
        return cls(EventType.LOOP_END, step, data)

    @classmethod
    def text_delta(cls, step: int, content: str) -> Event:
        """The next piece of an answer, while the model writes it."""
        return cls(EventType.TEXT_DELTA, step, {"content": content})

    @classmethod
    def reasoning_delta(cls, step: int, content: str) -> Event:
        """The next piece of the thinking; only with ``emit_reasoning_events=True``."""
        return cls(EventType.REASONING_DELTA, step, {"content": content})

    @classmethod
    def tool_call_delta(cls, step: int, index: int | None, tool: str | None, arguments: str) -> Event:
        """The next piece of a call's arguments. For display only: it may still be dropped."""
        return cls(EventType.TOOL_CALL_DELTA, step, {"index": index, "tool": tool, "arguments": arguments})

    @classmethod
    def retry(cls, step: int, attempt: int, delay: float, error: str, discard: bool) -> Event:
        """A request failed and will be sent again after `delay` seconds; `attempt` counts from 1."""
        data = {"attempt": attempt, "delay": delay, "error": error, "discard": discard}
        return cls(EventType.RETRY, step, data)

    @classmethod
    def notice(cls, step: int, message: str, **details: Any) -> Event:
        """Something worth knowing happened (a repaired history, a message put into the run)."""
        return cls(EventType.NOTICE, step, {"message": message, **details})

    @classmethod
    def part(cls, step: int, part: Mapping[str, Any]) -> Event:
        """A fragment of an answer changed its state; `part` is its plain form, see `parts.Part`."""
        return cls(EventType.PART, step, {"part": dict(part)})

    @classmethod
    def permission(
        cls, step: int, tool: str, args: Mapping[str, Any], behavior: str, reason: str = "", call_id: str = ""
    ) -> Event:
        """A person is asked about a call (``ask``), or it was answered or refused (``allow``, ``deny``)."""
        data = {"tool": tool, "args": dict(args), "behavior": behavior, "reason": reason, "call_id": call_id}
        return cls(EventType.PERMISSION, step, data)

    @classmethod
    def compaction(cls, step: int, rung: str, tokens: tuple[int, int], messages: tuple[int, int]) -> Event:
        """A rule shortened earlier messages: how many tokens, and messages, before and after."""
        data = {
            "rung": rung,
            "tokens_before": tokens[0],
            "tokens_after": tokens[1],
            "messages_before": messages[0],
            "messages_after": messages[1],
        }
        return cls(EventType.COMPACTION, step, data)

    @classmethod
    def file_change(cls, step: int, change: Mapping[str, Any]) -> Event:
        """Tools of a step changed a file of the workspace; see `observers.FileChange` for the keys."""
        return cls(EventType.FILE_CHANGE, step, dict(change))

    @classmethod
    def task(cls, step: int, task: Mapping[str, Any]) -> Event:
        """A subtask began, got on, or ended; `task` is the plain form of its record."""
        return cls(EventType.TASK, step, {"task": dict(task)})

    @classmethod
    def progress(cls, step: int, tool: str, text: str, call_id: str = "") -> Event:
        """What a call says of itself while it runs."""
        return cls(EventType.PROGRESS, step, {"tool": tool, "text": text, "call_id": call_id})

    @classmethod
    def partial_output(cls, step: int, output: Any) -> Event:
        """The typed output as far as it is written, in plain form; later ones hold more."""
        return cls(EventType.PARTIAL_OUTPUT, step, {"output": output})

    @classmethod
    def step_end(
        cls, step: int, usage: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Event:
        """A step is complete. `usage`: tokens of the run so far; `context`: how full the window is."""
        data = {"usage": dict(usage or {})}
        return cls(EventType.STEP_END, step, data if context is None else {**data, "context": dict(context)})


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
Emit = Callable[[Event], Awaitable[None]]  # where events go
