"""Cache of the messages written for a history, for the next request of the same run."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from pure_agent_loop.llm.messages import Message

T = TypeVar("T")


class _Written(NamedTuple):
    settings: Any
    history: list[Message]
    written: Any


class WrittenHistories(Generic[T]):
    """Written messages for the history of each running task, so that its next request adds only new messages.

    The beginning of a history is recognised by its values, not its objects, so a changed message is written
    again. An entry is removed with its task.
    """

    def __init__(self) -> None:
        self._by_task: WeakKeyDictionary[asyncio.Task[Any], _Written] = WeakKeyDictionary()

    def find(self, settings: object, history: list[Message]) -> tuple[T | None, int]:
        """Return the messages written for the beginning of a history, and the number of messages in it.

        Args:
            settings: Other values that affect what is written.
            history: The messages of the new request.
        """
        task = _current_task()
        kept = None if task is None else self._by_task.get(task)
        if kept is None or kept.settings != settings or kept.history != history[: len(kept.history)]:
            return None, 0
        return kept.written, len(kept.history)

    def keep(self, settings: object, history: list[Message], written: T, known: int) -> None:
        """Keep the messages written for a history.

        Args:
            written: The written messages; they must not be changed later.
            known: Number of messages that `find` returned.
        """
        task = _current_task()
        if task is not None:
            earlier = self._by_task[task].history if known else []
            copies = [*earlier, *map(_copied, history[known:])]
            self._by_task[task] = _Written(settings, copies, written)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # there is no running event loop
        return None


def _copied(value: object) -> Any:
    """Copy dicts and lists; strings are shared."""
    if type(value) is dict:
        return {name: inner if type(inner) is str else _copied(inner) for name, inner in value.items()}
    if type(value) is list:
        return [inner if type(inner) is str else _copied(inner) for inner in value]
    return value
