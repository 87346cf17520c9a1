"""Limit the tools that a model sees: if there are many, the model gets one search tool instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pure_agent_loop.tool import StepContext, Tool

MAX_SHOWN = 40  # tools
List = Callable[[StepContext], Awaitable[Sequence[Tool]]]


class ToolSearch:
    """The tools shown to a model: all that a function lists or, if those are too many, a search tool.

    Args:
        most: Maximum number of tools shown directly.
    """

    def __init__(self, every: List, maximum: int, name: str, description: str) -> None:
        self._every, self._most, self._name, self._about = every, maximum, name, description
        self._search: Any = None

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the tools, or the search tool with the tools it has found in this run."""
        tools = await self._every(context)
        if len(tools) <= self._most:
            return tools
        if self._search is None:
            from pure_agent_loop.toolsets.search import searchable
            from pure_agent_loop.toolsets.sets import Derived

            # Nothing is entered here: the owner of the servers enters and exits them.
            all_tools = Derived(lambda context, _: self._every(context), ())
            self._search = searchable(all_tools, name=self._name, about=self._about)
        matches: Sequence[Tool] = await self._search.list(context)
        return matches
