"""Cache of a history in a protocol's form, so that a run's next request converts only new messages."""

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
    """The history of each running task in a protocol's form, so that a request converts only new messages.

    The beginning of a history is recognised by its values, not its objects, so a changed message is converted
    again. An entry is removed with its task.
    """

    def __init__(self) -> None:
        self._by_task: WeakKeyDictionary[asyncio.Task[Any], _Written] = WeakKeyDictionary()

    def find(self, settings: object, history: list[Message]) -> tuple[T | None, int]:
        """Return the written form of a history's beginning, and the number of messages that it covers.

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
        """Keep the written form of a history.

        Args:
            written: The written form, which must not be changed later.
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
