"""Other agents made of one: with other settings, with more checks and handoffs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.base import ChatModel, close_client, model_of
from pure_agent_loop.result import Out
from pure_agent_loop.runs.checks import checked_function
from pure_agent_loop.runs.handoff import Handoff, Member, checked_handoffs
from pure_agent_loop.runs.settings import UNSET, Makings, overriding
from pure_agent_loop.runs.ways import WaysToRun
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset
from pure_agent_loop.tool_context import Deps, RunContext

if TYPE_CHECKING:
    from typing_extensions import Self


class Variants(WaysToRun[Deps, Out]):
    """What `Agent` offers beside runs."""

    llm: ChatModel
    handoffs: dict[str, Handoff]
    tools: ToolRegistry
    system_prompt: str
    _given: dict[str, Any]
    _kit: Kit
    _makings: Makings
    _own_tools: ToolRegistry

    @overload
    def output_check(
        self, check: Callable[[Out], Out | Awaitable[Out | None] | None]
    ) -> Callable[[Out], Any]: ...
    @overload
    def output_check(
        self, check: Callable[[RunContext[Deps], Out], Out | Awaitable[Out | None] | None]
    ) -> Callable[[RunContext[Deps], Out], Any]: ...
    def output_check(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """Have a function look at each output; a decorator.

        It takes the output, after a `RunContext` if it likes, and may be async. What it returns takes the
        place of the output, unless that is None. It may raise `Retry` to tell the model what is wrong.
        """
        self._makings.checks.append(checked_function("output_check", check))
        self._kit = replace(self._kit, output=self._makings.output())
        return check

    def override(
        self,
        *,
        llm: ChatModel = UNSET,
        tools: Iterable[ToolLike | Toolset] | ToolRegistry = UNSET,
        deps: Deps = UNSET,
    ) -> AbstractContextManager[None]:
        """Let the runs that begin in a ``with`` block have another client, other tools or other deps.

        It goes before what the runs are given, and holds in this task or thread, and what it begins.
        """
        return overriding(self._makings, llm=llm, tools=tools, deps=deps)

    async def aclose(self) -> None:
        """Give back the connections of the running event loop, and the embedded model if one was started.

        Sync code need not: what `run` and `run_stream` opened is closed when the program ends.
        """
        await close_client(self.llm)
        await self._makings.aclose()

    def __repr__(self) -> str:
        """Without addresses and keys."""
        name = f"{self._kit.name!r}, " if self._kit.name else ""
        model = model_of(self.llm) or type(self.llm).__name__
        return f"<{type(self).__name__} {name}model={model!r}, tools={[each.name for each in self.tools]}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _cloned(self, changes: dict[str, Any]) -> Self:
        named = {"model", "api_key", "base_url", "profile"}
        without = named if "llm" in changes else {"llm"} if named & changes.keys() else set()
        kept = {name: each for name, each in self._given.items() if name not in without}
        made = type(self)(**{**kept, **changes})
        if "output_type" not in changes:
            for check in self._makings.checks:
                made.output_check(check)
        return made

    def add_handoff(self, agent: Member | Handoff) -> None:
        """Let conversations be handed over to another agent, such as one that can hand back to this one.

        Raises:
            ConfigError: It has no name, or that of one there is.
        """
        found, self.tools = checked_handoffs(
            [*self.handoffs.values(), agent], self._kit.name, self._own_tools
        )
        self.handoffs.update(found)
        self._kit = replace(self._kit, tools=self.tools)
