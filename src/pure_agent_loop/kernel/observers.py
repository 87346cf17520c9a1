"""Observers of tool calls outside the loop: an audit log, snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pure_agent_loop.permissions import Behavior

CallStatus = Literal["ok", "error", "denied", "stopped"]
ChangeKind = Literal["created", "modified", "deleted"]


@dataclass(slots=True)
class CallRecord:
    """A call with its ruling, and at its end the exit code of its command."""

    tool: str
    """The tool."""
    args: Mapping[str, Any]
    """The arguments in force."""
    behavior: Behavior
    """The ruling: ``allow`` or ``deny``."""
    reason: str = ""
    """The reason; may be empty."""
    call_id: str = ""
    """Its id in the history."""
    step: int = 0
    """The step it belongs to."""
    session_id: str = ""
    """The session; empty for none."""
    agent: str = ""
    """The agent's name; empty for none."""
    task: str = ""
    """The task of the run."""
    exit_code: int | None = None
    """The exit code of its command, once it has ended; None if it ran none."""


class Auditor(Protocol):
    """Records every call. Both methods are called from the run's event loop and must be quick.

    A returned sentence becomes a notice of the run.
    """

    def begin(self, call: CallRecord) -> str | None:
        """Record a call that is about to run, or was denied. If this raises, the call does not run."""
        ...

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> str | None:
        """Record the end of the call; `text` is its result. ``stopped``: cancelled or timed out."""
        ...


@dataclass(frozen=True, slots=True)
class FileChange:
    """A step's change to one file of the workspace.

    Args:
        path: The file, relative to the workspace, with slashes.
        kind: ``created``, ``modified`` or ``deleted``.
        diff: A unified diff; empty for a file that is not text, cut if it is very long.
        is_binary: True if it is not text.
    """

    path: str
    kind: ChangeKind
    diff: str = ""
    added: int = 0
    removed: int = 0
    is_binary: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StepChanges:
    """A step's changes to the workspace.

    Args:
        notice: Notice for people about files that could not be read.
    """

    changes: Sequence[FileChange] = field(default_factory=tuple)
    notice: str = ""


class Snapshots(Protocol):
    """Records a step's changes to a workspace, and can undo them."""

    async def before(self, session_id: str, step: int) -> None:
        """Record the workspace before tools that may change it.

        Raises:
            PureAgentLoopError: The state cannot be kept. The step continues with a notice.
        """
        ...

    async def after(self, session_id: str, step: int) -> StepChanges:
        """Return the changes after the tools have run.

        Raises:
            PureAgentLoopError: The changes cannot be determined.
        """
        ...
