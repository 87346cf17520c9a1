"""What may watch the tools of a run without being part of the loop: an audit log, snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Literal, Protocol

from pure_agent_loop.permissions import Behavior
from pure_agent_loop.support.typed import dataclass

CallStatus = Literal["ok", "error", "denied", "stopped"]
ChangeKind = Literal["created", "modified", "deleted"]


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call that was decided about."""

    tool: str
    """The tool."""
    args: Mapping[str, Any]
    """The arguments in force."""
    behavior: Behavior
    """What was decided: ``allow`` or ``deny``."""
    reason: str = ""
    """Why, as far as there was something to say."""
    call_id: str = ""
    """Its id in the history."""
    step: int = 0
    """The step it belongs to."""
    session_id: str = ""
    """The session; empty for none."""
    agent: str = ""
    """The agent's name; empty for none."""
    task: str = ""
    """What the run was asked."""


class Auditor(Protocol):
    """Writes down every call. Both methods are called from the run's event loop and must be quick."""

    def begin(self, call: CallRecord) -> None:
        """A call is about to be made, or was denied. If this raises, the call is not made."""
        ...

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> None:
        """The same call is over; `text` is its result. ``stopped``: cancelled or out of time."""
        ...


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a step changed about one file of the workspace.

    Args:
        path: The file, relative to the workspace, with slashes.
        kind: ``created``, ``modified`` or ``deleted``.
        diff: A unified diff; empty for a file that is not text, cut if it is very long.
        added: Lines added.
        removed: Lines removed.
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
    """What a step changed in the workspace.

    Args:
        changes: One entry for each file.
        notice: Something people should know: what could not be looked at.
    """

    changes: Sequence[FileChange] = field(default_factory=tuple)
    notice: str = ""


class Snapshots(Protocol):
    """Knows what a step changed in a workspace, and can take it back."""

    async def before(self, session_id: str, step: int) -> None:
        """Tools that may change something are about to run.

        Raises:
            PureAgentLoopError: The state before them cannot be kept. The step goes on; a notice says so.
        """
        ...

    async def after(self, session_id: str, step: int) -> StepChanges:
        """They have run.

        Raises:
            PureAgentLoopError: It cannot be found out what they changed.
        """
        ...
