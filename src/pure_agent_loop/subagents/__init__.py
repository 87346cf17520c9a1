"""Subagents: agents that run tasks for another agent, in the foreground or the background."""

from pure_agent_loop.events import TASK_STATES
from pure_agent_loop.subagents.definitions import (
    EXPLORE,
    VERIFY,
    AgentDefinition,
    load_definitions,
    read_definition,
)
from pure_agent_loop.subagents.manager import SubagentManager
from pure_agent_loop.subagents.places import PlaceError
from pure_agent_loop.subagents.tasks import (
    TRANSITIONS,
    TaskNotFoundError,
    TaskRecord,
    TaskStore,
    TaskTransitionError,
)

__all__ = [
    "EXPLORE",
    "TASK_STATES",
    "TRANSITIONS",
    "VERIFY",
    "AgentDefinition",
    "PlaceError",
    "SubagentManager",
    "TaskNotFoundError",
    "TaskRecord",
    "TaskStore",
    "TaskTransitionError",
    "load_definitions",
    "read_definition",
]
