"""Data classes for durable runs, and names shared by all processes that use one database."""

from __future__ import annotations

import math
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.stop_reasons import WAITING, WAITING_TOOL
from pure_agent_loop.support.language import TranslatedText, notice
from pure_agent_loop.support.text import as_text, shorten

APP_NAME = "pure-agent-loop"
# Runs are resumed from records, not by replaying code, so any version can resume any run.
APP_VERSION = "durable-1"
WORKFLOW = "pure_agent_loop.run"
PARKED_QUEUE = "parked"  # queue of runs that must wait for their turn; workers do not poll it
FIRED = "schedule."  # prefix of run ids for runs that schedules submit
MAX_ATTEMPTS = 3  # default limit of attempts without progress, because a run may crash its workers
ENDED = frozenset({"completed", "failed", "cancelled", "killed"})
TASK_STATES = ("pending", "running", *WAITING, "completed", "failed", "cancelled", "killed")
STATUS_BY_STATE = {
    "ENQUEUED": "pending",
    "DELAYED": "pending",
    "PENDING": "running",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "killed",
}
_STATUS_REASONS = ("completed", *WAITING, "cancelled", "killed")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}")


class DurableError(PureAgentLoopError):
    """The database of durable runs is unavailable, or a run does not exist."""


class DurableNotFoundError(DurableError):
    """A run or a schedule does not exist in the database."""


class RunExistsError(ConfigError):
    """A run with this id already exists, for a different agent, task or session."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Maximum rate at which a model's runs start, across all workers.

    Args:
        limit: Number of runs.
        seconds: Length of the period.

    Raises:
        ConfigError: A value is not positive.
    """

    limit: int
    seconds: float

    def __post_init__(self) -> None:
        if not (self.limit >= 1 and 0 < self.seconds < math.inf):
            raise ConfigError(f"Rate({self.limit!r}, {self.seconds!r}) is invalid: both must be above 0.")


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """Information about a durable run.

    Args:
        run_id: Id of the run.
        agent: Name of the agent.
        task: Task of the run.
        status: One of `TASK_STATES`.
        stop_reason: Why the run ended or is waiting; empty otherwise.
        content: The answer, if there is one.
        error: The error, if there is one.
        session_id: Session of the run.
        worker: Process that is executing the run, or executed it last; empty if none has.
        created: Time of submission, in seconds since the epoch.
        updated: Time of the last change of status.
        questions: Calls that are waiting for a person's answer.
        open_calls: Calls whose results come from outside the run and have not been given yet.
        attempts: Attempts since the last finished call or answer; the process of each but the newest died.
        details: Further data. For a run that has ended: steps, tokens and error type. For a pending run:
            `run_ahead`, the run that must end before this one can use the session. For a killed run:
            `exit_code` of its last process, if a `WorkerProcess` started that process. `void_approvals` are
            approved calls that were not made, because the worker's code has changed since the approval.
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
    attempts: int = 0

    @property
    def output(self) -> Any:
        """Typed output in plain JSON form; None if there is none.

        ``pydantic.TypeAdapter(T).validate_python(info.output)`` restores the typed value.
        """
        return self.details.get("output")

    @property
    def steps(self) -> int | None:
        """Number of steps; None until the run has ended or is waiting."""
        return self.details.get("steps")

    @property
    def tokens(self) -> int | None:
        """Tokens of all requests; None until the run has ended or is waiting."""
        return self.details.get("tokens")

    @property
    def cost(self) -> float | None:
        """Cost of all requests; None if a price is unknown, or until the run has ended or is waiting."""
        return self.details.get("cost")

    @property
    def exit_code(self) -> int | None:
        """Exit code of a killed run's last process, negative for a signal; None if unknown."""
        return self.details.get("exit_code")

    @property
    def has_ended(self) -> bool:
        """True if the run is over."""
        return self.status in ENDED

    def _repr_html_(self) -> str:
        """Return the answer and the status as HTML for notebooks."""
        from pure_agent_loop.sessions.export import moment
        from pure_agent_loop.support.prose import prose_to_html, table_to_html

        times = {"created": self.created, "updated": self.updated}
        facts = {
            "task": shorten(self.task, 2_000),
            "status": self.status,
            "stop reason": "" if self.stop_reason == self.status else self.stop_reason,
            "error": shorten(self.error, 2_000),
            "waits for": ", ".join(call.name for call in self.open_calls),
            "asks about": ", ".join(
                f"{question.tool} {shorten(as_text(question.args), 500)}" for question in self.questions
            ),
            "agent": self.agent,
            "run": self.run_id,
            "session": self.session_id,
            "worker": self.worker,
            "attempts": str(self.attempts) if self.attempts > 1 else "",
            **{name: f"{moment(at)} UTC" for name, at in times.items() if at},
        }
        rows = [(name, text) for name, text in facts.items() if text]
        return f"<div>{prose_to_html(shorten(self.content, 20_000))}{table_to_html(rows)}</div>"


def check_agent_name(name: object) -> str:
    """Return the name if it is a valid agent name.

    Raises:
        ConfigError: The name is invalid.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(notice("library.agent_name", name=name))
    return name


def queue_of(model: str) -> str:
    """Return the queue of a model's runs; model limits apply to this queue."""
    return f"model {model or 'unnamed'}"


def queues_of(agents: Mapping[str, Agent]) -> dict[str, str]:
    """Return the queue of each agent, by the agent's name.

    Raises:
        ConfigError: A name is invalid.
    """
    return {check_agent_name(name): queue_of(model_of(agent.llm)) for name, agent in agents.items()}


def new_executor() -> str:
    """Return a new name for a process that executes runs; see `is_of_this_host`."""
    return f"{_host()}-{os.getpid()}-{secrets.token_hex(3)}"


def is_of_this_host(executor: str) -> bool:
    """Return True if a process with this name is on this machine."""
    return executor.rsplit("-", 2)[0] == _host()


def _host() -> str:
    return socket.gethostname()[:40]


def check_settings(counts: Mapping[str, int], **seconds: float) -> None:
    """Check an engine's settings: counts must be at least 1, and seconds above 0 and below a day.

    Raises:
        ConfigError: A setting is out of range.
    """
    for name, number in counts.items():
        if number < 1:
            raise ConfigError(f"{name}={number!r:.40} must be at least 1.")
    for name, value in seconds.items():
        if not 0 < value < 86_400:
            raise ConfigError(f"{name}={value!r:.40} must be above 0 and below 86400 seconds.")


def shown_exit(code: int) -> TranslatedText:
    """Describe how a process ended.

    Args:
        code: Exit code, negative for a signal.
    """
    if code >= 0:
        return notice("library.exit_status", status=code)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "?"
    return notice("library.exit_signal", number=-code, name=name)


def states_of(status: str) -> list[str]:
    """Return the DBOS states that a run with this status may have."""
    states = [state for state, name in STATUS_BY_STATE.items() if name == status]
    # A run that has stopped has returned an outcome, whatever the stop reason is.
    return states if status in ("pending", "running") else [*states, "SUCCESS"]


def status_of(stop_reason: str) -> str:
    """Return the status of a run that has stopped for this reason."""
    return stop_reason if stop_reason in _STATUS_REASONS else "failed"


def task_info(workflow: Any) -> TaskInfo:
    """Return the information about a run from DBOS's workflow record."""
    args = _arguments(workflow.input)
    outcome = workflow.output if isinstance(workflow.output, Mapping) else {}
    reason = str(outcome.get("stop_reason", ""))
    if workflow.status == "SUCCESS":
        status = status_of(reason)
    else:
        status = STATUS_BY_STATE.get(str(workflow.status), "failed")
    error = str(outcome.get("error", "")) or ("" if workflow.error is None else str(workflow.error))
    questions = outcome.get("questions") if status == "waiting_permission" else None
    calls = outcome.get("open_calls") if status == WAITING_TOOL else None
    known = ("stop_reason", "content", "error", "questions", "open_calls")
    return TaskInfo(
        run_id=workflow.workflow_id,
        agent=args[0],
        task=args[1],
        status=status,
        stop_reason=reason,
        content=str(outcome.get("content", "")),
        error=error,
        session_id=args[2] or workflow.workflow_id,
        worker=workflow.executor_id or "",
        created=(workflow.created_at or 0) / 1000,
        updated=(workflow.updated_at or time.time() * 1000) / 1000,
        questions=[PermissionRequest(**question) for question in questions or ()],
        open_calls=[ToolCall.from_dict(call) for call in calls or ()],
        details={key: value for key, value in outcome.items() if key not in known},
    )


def _arguments(plain: Any) -> list[str]:
    args = list(plain.get("args", ())) if isinstance(plain, Mapping) else []
    return [str(arg or "") for arg in [*args, "", "", ""][:3]]
