"""Other agents made of one: with other settings, as a tool of another one, with more checks and handoffs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.result import Out
from pure_agent_loop.runs.checks import checked_function
from pure_agent_loop.runs.handoff import Handoff, checked_handoffs
from pure_agent_loop.runs.settings import UNSET, Makings, overriding
from pure_agent_loop.runs.ways import T, WaysToRun
from pure_agent_loop.tool import Tool, ToolLike, ToolRegistry
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from typing_extensions import Self


class Variants(WaysToRun[Deps, Out]):
    """What `Agent` offers beside runs."""

    description: str
    handoffs: dict[str, Handoff]
    tools: ToolRegistry
    system_prompt: str
    _given: dict[str, Any]
    _kit: Kit
    _makings: Makings
    _own_tools: ToolRegistry

    def output_check(self, check: Callable[..., T]) -> Callable[..., T]:
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

    def as_tool(self, name: str = "", description: str = "", input_type: Any = str) -> Tool:
        """This agent as a tool of another one, which is also what ``Agent(tools=[agent])`` does.

        It works in a context of its own and gives back its answer. Rules, budget, audit and limits of the
        agent above hold for it too. In a session it has a session of its own beside that of the run, and
        goes on where it stood when the program was killed.

        Args:
            name: As the model sees it; the agent's name if empty.
            description: What it is good for; that of the agent if empty.
            input_type: What the model gives it: text, or a dataclass, a TypedDict or a pydantic model, which
                reaches it as JSON.

        Raises:
            ConfigError: There is no name, or the type has no JSON form.
        """
        from pure_agent_loop.subagents.agent_tool import agent_tool

        return agent_tool(self, name or self._kit.name, description or self.description, input_type)

    def add_handoff(self, agent: Any) -> None:
        """Let conversations be handed over to another agent, such as one that can hand back to this one.

        Raises:
            ConfigError: It has no name, or that of one there is.
        """
        found, self.tools = checked_handoffs(
            [*self.handoffs.values(), agent], self._kit.name, self._own_tools
        )
        self.handoffs.update(found)
        self._kit = replace(self._kit, tools=self.tools)
