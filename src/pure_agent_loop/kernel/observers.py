"""Observers of tool calls outside the loop (audit log, snapshots), and how the loop informs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Emit, Event
from pure_agent_loop.permissions import Behavior
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.clock import Clock
from pure_agent_loop.support.text import PlainForm, safe_str

Effect = Callable[[], Awaitable[ToolOutcome]]
Notify = Callable[[str], Awaitable[None]]
CallStatus = Literal["ok", "error", "denied", "stopped"]
ChangeKind = Literal["created", "modified", "deleted"]


@dataclass(slots=True)
class CallRecord:
    """A call with its ruling and, once it has ended, the exit code of its command."""

    tool: str
    """Name of the tool."""
    args: Mapping[str, Any]
    """The effective arguments."""
    behavior: Behavior
    """The ruling: ``allow`` or ``deny``."""
    reason: str = ""
    """The reason; may be empty."""
    call_id: str = ""
    """Id of the call in the history."""
    step: int = 0
    """Step of the call."""
    session_id: str = ""
    """Session id; empty if there is none."""
    agent: str = ""
    """The agent's name; empty if none."""
    task: str = ""
    """The task of the run."""
    exit_code: int | None = None
    """Exit code of the tool's command, once it has ended; None without a command."""


class Auditor(Protocol):
    """Audit log: records every call. Both methods are called from the run's event loop and must be quick.

    A returned text is sent as a notice of the run.
    """

    def begin(self, call: CallRecord) -> str | None:
        """Record a call that is about to run, or was denied. If this raises, the call does not run."""

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> str | None:
        """Record the end of the call; `text` is its result. ``stopped``: cancelled or timed out."""


def audited(effect: Effect, audit: Auditor, call: CallRecord, clock: Clock, notify: Notify) -> Effect:
    """Record a call in the audit log before and after it. If the first record fails, the call is not made."""

    async def run() -> ToolOutcome:
        await _notify(audit.begin(call), notify)
        started = clock.monotonic()
        try:
            outcome = await effect()
        except BaseException:
            with suppress(PureAgentLoopError):  # an audit error must not hide the call's error
                audit.end(call, "", "stopped", clock.monotonic() - started)
            raise
        try:
            status: CallStatus = "error" if outcome.has_failed else "ok"
            measured = clock.monotonic() - started
            seconds = measured if outcome.command is None else outcome.command["seconds"]
            call.exit_code = None if outcome.command is None else outcome.command["exit_code"]
            notice = audit.end(call, outcome.text, status, seconds)
        except PureAgentLoopError as error:  # the call was made, so its result is kept
            notice = f"The end of a call of {call.tool} is missing from the audit log: {safe_str(error)}"
        await _notify(notice, notify)
        return outcome

    return run


async def audit_denied(
    audit: Auditor, call: CallRecord, text: str, notify: Notify, status: CallStatus
) -> None:
    """Record a call that was not made, with its result, in the audit log.

    Args:
        status: ``denied``, or ``error`` if the call would have failed, so no person was asked.
    """
    await _notify(audit.begin(call), notify)
    await _notify(audit.end(call, text, status, 0.0), notify)


async def _notify(notice: str | None, notify: Notify) -> None:
    if notice:
        await notify(notice)


@dataclass(frozen=True, slots=True)
class FileChange(PlainForm):
    """Change that a step made to one file of the workspace.

    Args:
        path: The file, relative to the workspace, with slashes.
        kind: ``created``, ``modified`` or ``deleted``.
        diff: A unified diff, truncated if it is very long; empty for a file that is not text.
        is_binary: True if the file is not text.
    """

    path: str
    kind: ChangeKind
    diff: str = ""
    added: int = 0
    removed: int = 0
    is_binary: bool = False


@dataclass(frozen=True, slots=True)
class StepChanges:
    """Changes that a step made to the workspace.

    Args:
        notice: Notice for people about files that could not be read.
    """

    changes: Sequence[FileChange] = field(default_factory=tuple)
    notice: str = ""


class Snapshots(Protocol):
    """Records what each step changes in a workspace, and can undo it."""

    async def before(self, session_id: str, step: int) -> None:
        """Record the workspace before tools that may change it run.

        Raises:
            PureAgentLoopError: The workspace cannot be recorded. The step continues with a notice.
        """

    async def after(self, session_id: str, step: int) -> StepChanges:
        """Return the changes after the tools have run.

        Raises:
            PureAgentLoopError: The changes cannot be determined.
        """


async def take_snapshot(snapshots: Snapshots, session_id: str, step: int, notify: Notify) -> None:
    """Record the workspace's content before the calls of a step."""
    try:
        await snapshots.before(session_id, step)
    except PureAgentLoopError as error:
        await notify(f"This step cannot be undone: {safe_str(error)}")


async def emit_file_changes(
    snapshots: Snapshots, session_id: str, step: int, emit: Emit, notify: Notify
) -> None:
    """Emit the changes that the calls of a step made to the workspace."""
    try:
        changes = await snapshots.after(session_id, step)
    except PureAgentLoopError as error:
        await notify(f"The changes of this step are unknown: {safe_str(error)}")
        return
    for change in changes.changes:
        await emit(Event.file_change(step, change.to_dict()))
    if changes.notice:
        await notify(changes.notice)
