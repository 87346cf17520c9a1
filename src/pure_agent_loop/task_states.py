"""The eight states of a task, for subagents and for durable runs."""

from __future__ import annotations

from typing import Literal, get_args

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
