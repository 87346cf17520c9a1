"""The task table: what all runs of one `SubagentManager` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from pure_agent_loop.kernel.kit import Background
from pure_agent_loop.subagents.child import Child
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.subagents.tasks import TaskStore
from pure_agent_loop.subagents.words import SubagentWords, words_for
from pure_agent_loop.support.paths import data_folder

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore
    from pure_agent_loop.tool import Tool

MOST_REMEMBERED = 64  # tasks of runs without a session
Report = Callable[[Child], None]


class GoesDown(Protocol):
    """What gives tasks, as it stands in the kit of a subagent."""

    def below(self, depth: int) -> Background:
        """The same, so many levels down."""
        ...


@dataclass(eq=False)
class TaskTable:
    """The settings of a `SubagentManager`, and the tasks that outlive the run that gave them.

    Args:
        reports: Of each session, how its newest run is told what came of a task.
        remembered: Tasks that can be taken up again, by id.
        runs: Those at work, for who speaks to their tasks from outside.
    """

    definitions: dict[str, AgentDefinition]
    workspace: Path | None
    store: TaskStore | None
    max_concurrent: int
    max_depth: int
    wait: bool
    tools_for: Callable[[str], Iterable[Tool]]
    language: str | None
    tools: Sequence[Tool] = ()
    reports: dict[str, Report] = field(default_factory=dict)
    remembered: dict[str, Child] = field(default_factory=dict)
    runs: WeakSet[Any] = field(default_factory=WeakSet)  # of `RunTasks`, which stands on this

    @property
    def words(self) -> SubagentWords:
        """What is said to models."""
        return words_for(self.language)

    def store_for(self, sessions: SessionStore | None) -> TaskStore:
        """Where the tasks of a run with a session are kept."""
        folder = getattr(sessions, "folder", None)
        return self.store or TaskStore(None if folder is None else Path(folder) / "agents")

    def close(self, session: str, report: Report) -> None:
        """A run of a session is over, and so are its tasks: they are not told to it any more."""
        if self.reports.get(session) == report:
            del self.reports[session]

    def remember(self, child: Child) -> None:
        """Keep a task, so that it can be taken up again."""
        self.remembered.pop(child.record.id, None)
        self.remembered[child.record.id] = child
        while len(self.remembered) > MOST_REMEMBERED:
            self.remembered.pop(next(iter(self.remembered)))

    def worktrees(self) -> Path:
        """Where checkouts are made."""
        return data_folder() / "worktrees"
