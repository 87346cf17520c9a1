"""Many tools are not shown at once: the model gets one that searches among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_SHOWN = 40  # tools
List = Callable[[StepContext], Awaitable[Sequence[Tool]]]


class Shown:
    """What a model is shown of the tools that a function lists.

    Args:
        every: Lists all.
        most: How many are shown as they are.
        name: Of the tool that searches, where there are more.
        about: What the tools are for.
    """

    def __init__(self, every: List, most: int, name: str, about: str) -> None:
        self._every, self._most, self._name, self._about = every, most, name, about
        self._search: Any = None

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """The tools, or the search among them with what it has found in this run."""
        tools = await self._every(context)
        if len(tools) <= self._most:
            return tools
        if self._search is None:
            from pure_agent_loop.toolsets.search import searchable

            self._search = searchable(_Every(self._every), name=self._name, about=self._about)
        found: Sequence[Tool] = await self._search.list(context)
        return found


class _Every:
    """All of them as a toolset. What they come from is entered by whom it belongs to."""

    def __init__(self, every: List) -> None:
        self._every = every

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def list(self, context: StepContext) -> Sequence[Tool]:
        return await self._every(context)

    async def call(self, name: str, _: dict[str, Any]) -> Any:
        """Each tool has a function of its own."""
        raise LookupError(name)
