"""Many tools behind one: the model searches, and calls what it has found from the next step on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import current_prompts
from pure_agent_loop.schema.described import check_name
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.tool import StepContext, Tool, ToolLike, Toolset
from pure_agent_loop.toolsets.ranking import Ranking
from pure_agent_loop.toolsets.sets import Derived, Tools, sources_of
from pure_agent_loop.toolsets.words import SEARCH, say

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
_NAME_WEIGHT = 3  # a word of the name says as much as so many of the description
_LINE_CHARS = 160


def searchable(
    tools: Tools, *, name: str = "search_tools", about: str = "", most: int = 5, keep: int = 30
) -> Toolset:
    """One tool that searches, instead of many; the many are not even listed before the first search.

    Args:
        tools: The many.
        name: What the searching tool is called.
        about: What the tools are for, in a few words; the model reads it.
        most: How many a search finds.
        keep: How many of those found last stay callable.

    Raises:
        ConfigError: A number is below 1, or `tools` are none.
    """
    if most < 1 or keep < most:
        raise ConfigError(
            f"searchable: most={most!r} must be at least 1, and keep={keep!r} at least as many."
        )
    return _Searchable(sources_of(tools), check_name(name), about, most, keep)


class _Searchable(Derived):
    def __init__(
        self, sources: Iterable[ToolLike | Toolset], name: str, about: str, most: int, keep: int
    ) -> None:
        super().__init__(None, sources)
        self._most, self._keep = most, keep
        self._index: tuple[list[str], Ranking] = ([], Ranking([]))
        words = {
            language: replace(each, description=f"{each.description} {about}".rstrip())
            for language, each in SEARCH.items()
        }
        self._searcher = Tool(
            None,
            name=name,
            description=words["en"].description,
            parameters=_PARAMETERS,
            words=words,
            read_only=True,
            idempotent=True,
        )

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """The searching tool, and what was found."""
        names = context.found[-self._keep :]
        known = {tool.name: tool for tool in await super().list(context)} if names else {}
        searcher = self._searcher.changed(function=partial(self._search, context))
        return [searcher, *(known[each] for each in names if each in known)]

    async def _search(self, context: StepContext, /, query: str) -> ToolOutcome:
        tools = await super().list(context)
        texts = [f"{f'{tool.name} ' * _NAME_WEIGHT}{tool.said}" for tool in tools]
        if self._index[0] != texts:
            self._index = texts, Ranking(texts)
        found = [tools[number] for number in self._index[1].best(query, self._most)]
        if not found:
            return ToolOutcome(say("no_tool_found", count=len(tools), query=query))
        lines = "\n".join(f"- {tool.name}: {_first_line(tool)}" for tool in found)
        return ToolOutcome(say("tools_found", tools=lines), found=[tool.name for tool in found])


def _first_line(tool: Tool) -> str:
    described: str = tool.to_openai_schema(current_prompts())["function"]["description"]
    return described.strip().partition("\n")[0][:_LINE_CHARS]
