"""The ``todo_write`` tool: a task list for work of many steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool

TODO_TOOL = "todo_write"
MAX_ITEMS = 100
MAX_CHARS = 500

Status = Literal["pending", "in_progress", "done"]
_MARKS: dict[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class TodoError(PureAgentLoopError):
    """A task list was rejected. The message is for the model."""


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One task.

    Args:
        task: The work to do.
        status: ``pending``, ``in_progress`` or ``done``.
    """

    task: str
    status: Status = "pending"


class TodoList:
    """The task list of one agent. Do not share a list between agents or runs."""

    def __init__(self) -> None:
        self._items: tuple[TodoItem, ...] = ()
        self._lock = threading.Lock()

    @property
    def items(self) -> tuple[TodoItem, ...]:
        """The current tasks."""
        return self._items

    def tools(self) -> list[Tool]:
        """Return ``todo_write``, for ``Agent(tools=...)``. The tool changes only this list."""
        return [Tool(self.todo_write, read_only=True, words=TOOLS[TODO_TOOL])]

    def todo_write(self, items: list[TodoItem]) -> str:
        """Keep a task list for work of several steps. Each call replaces the whole list and shows it.

        Args:
            items: All tasks in order, each with its status: pending, in_progress (one at a time) or done.
        """
        if len(items) > MAX_ITEMS:
            raise TodoError(model_text("too_many_tasks", count=len(items), limit=MAX_ITEMS))
        for number, item in enumerate(items, 1):
            if not item.task.strip() or len(item.task) > MAX_CHARS:
                raise TodoError(model_text("task_length", number=number, limit=MAX_CHARS))
        with self._lock:
            self._items = tuple(items)
        return clean_text(shown_tasks(items))


def shown_tasks(items: Sequence[TodoItem]) -> str:
    """Format a task list, one task per line."""
    if not items:
        return model_text("empty_list")
    lines = [f"{number}. {_MARKS[item.status]} {item.task}" for number, item in enumerate(items, 1)]
    done = sum(item.status == "done" for item in items)
    return "\n".join([*lines, model_text("tasks_done", done=done, count=len(items))])
