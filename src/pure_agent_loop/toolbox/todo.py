"""A task list that the model keeps: writing it down keeps long work on course."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.words import TOOLS, say

MAX_ITEMS = 100
MAX_CHARS = 500

Status = Literal["pending", "in_progress", "done"]
_MARKS: dict[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class TodoError(PureAgentLoopError):
    """A list that cannot be kept. The message is for the model."""


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One task.

    Args:
        task: What is to be done.
        status: How far it is.
    """

    task: str
    status: Status = "pending"


class TodoList:
    """The list of one agent. Each agent, or run, should have its own."""

    def __init__(self) -> None:
        self._items: tuple[TodoItem, ...] = ()
        self._lock = threading.Lock()

    @property
    def items(self) -> tuple[TodoItem, ...]:
        """The tasks as they stand."""
        return self._items

    def tools(self) -> list[Tool]:
        """``todo_write``, for ``Agent(tools=...)``. It changes nothing but this list."""
        return [Tool(self.todo_write, read_only=True, words=TOOLS["todo_write"])]

    def todo_write(self, items: list[TodoItem]) -> str:
        """Keep a task list for work of several steps. Each call replaces the whole list and shows it.

        Args:
            items: All tasks in order, each with its status: pending, in_progress (one at a time) or done.
        """
        if len(items) > MAX_ITEMS:
            raise TodoError(say("too_many_tasks", count=len(items), limit=MAX_ITEMS))
        for number, item in enumerate(items, 1):
            if not item.task.strip() or len(item.task) > MAX_CHARS:
                raise TodoError(say("task_length", number=number, limit=MAX_CHARS))
        with self._lock:
            self._items = tuple(items)
        return clean_text(shown_tasks(items))


def shown_tasks(items: Sequence[TodoItem]) -> str:
    """A list as text, one task a line."""
    if not items:
        return say("empty_list")
    lines = [f"{number}. {_MARKS[item.status]} {item.task}" for number, item in enumerate(items, 1)]
    done = sum(item.status == "done" for item in items)
    return "\n".join([*lines, say("tasks_done", done=done, count=len(items))])
