"""Tool search: one tool finds other tools, which the model can call from the next step on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import ToolWords, current_prompts
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.schema.described import check_name
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import StepContext, Tool, ToolLike, Toolset
from pure_agent_loop.toolsets.sets import Derived, Tools, sources_of

# -- rank texts by a few words: BM25 over words of letters and over pairs of Chinese characters ----------

_PIECES = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+|[\u3040-\u30ff\u3400-\u9fff]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STEM = 5  # words with this many first letters in common, such as `create` and `created`, count as related
_K, _B = 1.2, 0.75  # usual values for BM25: saturation of repeated terms, and weight of the text length
_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
_NAME_WEIGHT = 3  # a word in the name counts as much as three words in the description
_LINE_CHARS = 160
_WORDS = {
    "en": ToolWords(
        "Search for further tools. What it finds can be called in the next step.",
        {"query": "What the tool should do, in a few words."},
    ),
    **TOOLS["tool_search"],
}


def terms_of(text: str) -> Iterator[str]:
    """Yield words and word beginnings; for scripts without spaces, single characters and pairs."""
    for match in _PIECES.findall(_HUMPS.sub(" ", text)):
        piece = match.lower()
        if "\u3040" <= piece[0] <= "\u9fff":
            yield from piece
            yield from map("".join, pairwise(piece))
        else:
            yield piece
            if len(piece) > _STEM:
                yield f"{piece[:_STEM]}*"
            elif len(piece) == _STEM:
                yield f"{piece}*"


class Ranking:
    """Searchable texts.

    Args:
        texts: Texts to search; equally good matches keep their order.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(terms_of(text)) for text in texts]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / len(texts) if texts else 0.0
        documents = Counter(term for counts in self._counts for term in counts)
        total = len(texts)
        self._weights = {
            term: math.log(1 + (total - number + 0.5) / (number + 0.5)) for term, number in documents.items()
        }

    def best(self, query: str, most: int) -> list[int]:
        """Return the indexes of the best matches, best first. Matches share a term with the query."""
        query_terms = [term for term in dict.fromkeys(terms_of(query)) if term in self._weights]
        scored = [(self._score(number, query_terms), -number) for number in range(len(self._counts))]
        return [-number for score, number in sorted(scored, reverse=True)[:most] if score > 0]

    def _score(self, number: int, query_terms: Sequence[str]) -> float:
        counts, length_norm = self._counts[number], 1 - _B + _B * self._lengths[number] / (self._mean or 1.0)
        return sum(
            self._weights[term] * counts[term] * (_K + 1) / (counts[term] + _K * length_norm)
            for term in query_terms
            if term in counts
        )


def searchable(
    tools: Tools, *, name: str = "search_tools", about: str = "", most: int = 5, keep: int = 30
) -> Toolset:
    """Replace many tools with one that searches them.

    The searched tools are not listed before the first search.

    Args:
        tools: The tools to search.
        name: The name of the search tool.
        about: A few words that tell the model what the tools are for.
        most: Maximum number of matches per search.
        keep: Number of most recent matches that stay callable.

    Raises:
        ConfigError: A number is below 1, or `tools` is empty.
    """
    if most < 1 or keep < most:
        raise ConfigError(
            f"searchable: most={most!r} must be at least 1, and keep={keep!r} at least as large as most."
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
            language: replace(entry, description=f"{entry.description} {about}".rstrip())
            for language, entry in _WORDS.items()
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
        """Return the search tool and the tools found so far."""
        names = context.found[-self._keep :]
        known = {tool.name: tool for tool in await super().list(context)} if names else {}
        searcher = self._searcher.changed(function=partial(self._search, context))
        return [searcher, *(known[name] for name in names if name in known)]

    async def _search(self, context: StepContext, /, query: str) -> ToolOutcome:
        tools = await super().list(context)
        texts = [f"{f'{tool.name} ' * _NAME_WEIGHT}{tool.said}" for tool in tools]
        if self._index[0] != texts:
            self._index = texts, Ranking(texts)
        matches = [tools[number] for number in self._index[1].best(query, self._most)]
        if not matches:
            return ToolOutcome(model_text("no_tool_found", count=len(tools), query=query))
        lines = "\n".join(f"- {tool.name}: {_first_line(tool)}" for tool in matches)
        return ToolOutcome(model_text("tools_found", tools=lines), found=[tool.name for tool in matches])


def _first_line(tool: Tool) -> str:
    description: str = tool.to_openai_schema(current_prompts())["function"]["description"]
    return description.strip().partition("\n")[0][:_LINE_CHARS]
