"""Other agents made of one: with other settings, with more checks and handoffs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.result import Out
from pure_agent_loop.runs.checks import checked_function
from pure_agent_loop.runs.handoff import Handoff, Member, checked_handoffs
from pure_agent_loop.runs.settings import UNSET, Makings, overriding
from pure_agent_loop.runs.ways import WaysToRun
from pure_agent_loop.tool import ToolLike, ToolRegistry
from pure_agent_loop.tool_context import Deps, RunContext

if TYPE_CHECKING:
    from typing_extensions import Self


class Variants(WaysToRun[Deps, Out]):
    """What `Agent` offers beside runs."""

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
        tools: Iterable[ToolLike] | ToolRegistry = UNSET,
        deps: Deps = UNSET,
    ) -> AbstractContextManager[None]:
        """Let the runs that begin in a ``with`` block have another client, other tools or other deps.

        It goes before what the runs are given, and holds in this task or thread, and what it begins.
        """
        return overriding(self._makings, llm=llm, tools=tools, deps=deps)

    def clone(self, **changes: Any) -> Self:
        """An agent of the same arguments with some changes, and the same output checks.

        Args:
            changes: Arguments of `Agent`. With ``llm`` those that name a model are left out, and the other
                way round; with ``output_type`` the checks are.

        Raises:
            ConfigError: An argument cannot work.
        """
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
