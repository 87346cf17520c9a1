"""The words and values of durable runs, and the names that all processes on one database agree on."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.stop_reasons import WAITING, WAITING_TOOL

APP_NAME = "pure-agent-loop"
# Runs are gone on with from their records, never by replaying code: any version can take up any run.
APP_VERSION = "durable-1"
WORKFLOW = "pure_agent_loop.run"
PARKED_QUEUE = "parked"  # nobody listens to it
ENDED = frozenset({"completed", "failed", "cancelled", "killed", "backgrounded"})
_BY_STATE = {
    "ENQUEUED": "pending",
    "DELAYED": "pending",
    "PENDING": "running",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "killed",
}
_BY_REASON = ("completed", *WAITING, "backgrounded", "cancelled", "killed")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}")


class DurableError(PureAgentLoopError):
    """The database of durable runs cannot be used, or a run cannot be found there."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many runs of a model may begin in a time, all workers together.

    Args:
        limit: How many.
        seconds: In how long.

    Raises:
        ConfigError: One of them is not above zero.
    """

    limit: int
    seconds: float

    def __post_init__(self) -> None:
        if not (self.limit >= 1 and 0 < self.seconds < math.inf):
            raise ConfigError(f"Rate({self.limit!r}, {self.seconds!r}) cannot be kept. Both must be above 0.")


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A durable run, as it stands.

    Args:
        run_id: Names it.
        agent: Who does it.
        task: What to do.
        status: One of `TASK_STATES`.
        stop_reason: Why it ended or waits; empty before.
        content: The answer, once there is one.
        error: What went wrong, if something did.
        session_id: The session it is kept in.
        worker: The process that works on it, or did last; empty before.
        created: When it was submitted, in seconds since the epoch.
        updated: When its status changed last.
        questions: Calls that wait for the answer of a person.
        open_calls: Calls whose results are made elsewhere and have not come.
        details: What else is known of an ended run: steps, tokens, kind of error.
    """

    run_id: str
    agent: str
    task: str
    status: str
    stop_reason: str = ""
    content: str = ""
    error: str = ""
    session_id: str = ""
    worker: str = ""
    created: float = 0.0
    updated: float = 0.0
    questions: list[PermissionRequest] = field(default_factory=list)
    open_calls: list[ToolCall] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> Any:
        """The typed output of an agent that has one, in its plain JSON form; None before, and for others.

        ``pydantic.TypeAdapter(T).validate_python(info.output)`` makes a value of the type again.
        """
        return self.details.get("output")

    @property
    def has_ended(self) -> bool:
        """True if nothing more will happen."""
        return self.status in ENDED


def check_agent_name(name: object) -> str:
    """Return the name if it can be one.

    Raises:
        ConfigError: It cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r:.80} cannot name an agent. Use at most 100 letters, digits and '_ . : / -'."
        )
    return name


def queue_of(model: str) -> str:
    """The queue of the runs that use a model: limits on a model are limits on its queue."""
    return f"model {model or 'unnamed'}"


def task_info(found: Any) -> TaskInfo:
    """What the engine's own record of a workflow says about a run."""
    args = _arguments(found.input)
    outcome = found.output if isinstance(found.output, Mapping) else {}
    reason = str(outcome.get("stop_reason", ""))
    if found.status == "SUCCESS":
        status = reason if reason in _BY_REASON else "failed"
    else:
        status = _BY_STATE.get(str(found.status), "failed")
    error = str(outcome.get("error", "")) or ("" if found.error is None else str(found.error))
    questions = outcome.get("questions") if status == "waiting_permission" else None
    calls = outcome.get("open_calls") if status == WAITING_TOOL else None
    known = ("stop_reason", "content", "error", "questions", "open_calls")
    return TaskInfo(
        run_id=found.workflow_id,
        agent=args[0],
        task=args[1],
        status=status,
        stop_reason=reason,
        content=str(outcome.get("content", "")),
        error=error,
        session_id=args[2] or found.workflow_id,
        worker=found.executor_id or "",
        created=(found.created_at or 0) / 1000,
        updated=(found.updated_at or time.time() * 1000) / 1000,
        questions=[PermissionRequest(**each) for each in questions or ()],
        open_calls=[ToolCall.from_dict(each) for each in calls or ()],
        details={key: value for key, value in outcome.items() if key not in known},
    )


def _arguments(given: Any) -> list[str]:
    args = list(given.get("args", ())) if isinstance(given, Mapping) else []
    return [str(each or "") for each in [*args, "", "", ""][:3]]
