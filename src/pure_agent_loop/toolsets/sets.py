"""Sets of tools made out of others. Each takes a `Toolset`, or a list of tools and toolsets.

A tool without a function of its own is bound to the set it comes from before anything else is done to it, so
a new name or a new guard never loses the way back.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import current_prompts
from pure_agent_loop.schema.calling import call_function
from pure_agent_loop.schema.context import contextual
from pure_agent_loop.tool import StepContext, Tool, ToolLike, Toolset, as_tool, as_toolset

if TYPE_CHECKING:
    from typing_extensions import Self

Tools = Toolset | Iterable[ToolLike | Toolset]
Change = Callable[[StepContext, Sequence[Tool]], "Sequence[Tool] | Awaitable[Sequence[Tool]]"]
Around = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], Awaitable[Any]]], Any]


async def tools_of(toolset: Toolset, context: StepContext) -> list[Tool]:
    """The tools of a set, entered before, each with a function."""
    await context.enter(toolset)
    given: Any = toolset.list(context)
    listed = await given if inspect.isawaitable(given) else given
    return [
        tool
        if tool.is_bound or tool.external
        else tool.changed(function=partial(_called, toolset, tool.name))
        for tool in _checked_tools(f"{type(toolset).__name__}.list", listed)
    ]


async def _called(toolset: Toolset, name: str, /, **arguments: Any) -> Any:
    return await toolset.call(name, arguments)


class Derived:
    """A toolset that has nothing of its own to enter.

    Args:
        change: Makes its tools out of those of the sources.
        sources: Tools and toolsets.
    """

    def __init__(self, change: Change | None, sources: Iterable[ToolLike | Toolset]) -> None:
        self._change = change
        self._sources = [as_toolset(each) or as_tool(cast("ToolLike", each)) for each in sources]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Its sources are left by the run that entered them."""

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """The tools of the sources, changed."""
        tools: list[Tool] = []
        for each in self._sources:
            tools += [each] if isinstance(each, Tool) else await tools_of(each, context)
        if self._change is None:
            return tools
        changed = self._change(context, tools)
        found = await changed if inspect.isawaitable(changed) else changed
        return _checked_tools("The function of a toolset", found)

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call one of its tools. A run does not need it: what `list` gives has a function."""
        for tool in await self.list(StepContext()):
            if tool.name == name:
                return await tool.invoke(args, current_prompts())
        raise LookupError(name)


def _checked_tools(owner: str, found: Any) -> Sequence[Tool]:
    if isinstance(found, (list, tuple)) and all(isinstance(each, Tool) for each in found):
        return found
    raise ConfigError(f"{owner} must return a list of Tools; it gave {found!r:.80}.")


def _check_function(owner: str, value: object) -> None:
    if not callable(value):
        raise ConfigError(f"{owner} takes a function after the tools; it is {value!r:.80}.")


def _each(change: Callable[[Tool], Tool]) -> Change:
    return lambda _, tools: [change(tool) for tool in tools]


def sources_of(tools: Tools) -> Iterable[ToolLike | Toolset]:
    """What a set is made of.

    Raises:
        ConfigError: It is neither a toolset nor a list.
    """
    toolset = as_toolset(tools)
    if toolset is not None:
        return [toolset]
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise ConfigError(f"It must be a toolset, or a list of tools and toolsets; it is {tools!r:.80}.")
    return tools


def combined(*toolsets: ToolLike | Toolset) -> Toolset:
    """Tools and toolsets as one set."""
    return Derived(None, toolsets)


def filtered(tools: Tools, keep: Callable[[StepContext, Tool], bool]) -> Toolset:
    """The tools that a function wants, asked anew in each step."""
    _check_function("filtered", keep)
    return Derived(lambda context, found: [each for each in found if keep(context, each)], sources_of(tools))


def prefixed(tools: Tools, prefix: str) -> Toolset:
    """The same tools under names that begin with `prefix`."""
    if not isinstance(prefix, str):
        raise ConfigError(f"prefixed takes a text after the tools; it is {prefix!r:.80}.")
    return Derived(_each(lambda tool: tool.changed(name=prefix + tool.name)), sources_of(tools))


def renamed(tools: Tools, names: Mapping[str, str]) -> Toolset:
    """Some of the tools under other names.

    Args:
        tools: The tools.
        names: New names by old ones; one that no tool has is refused when the tools are listed.
    """

    if not isinstance(names, Mapping):
        raise ConfigError(f"renamed takes new names by old ones after the tools; it is {names!r:.80}.")

    def rename(_: StepContext, found: Sequence[Tool]) -> Sequence[Tool]:
        if missing := names.keys() - {tool.name for tool in found}:
            raise ConfigError(f"renamed: there is no tool {', '.join(sorted(missing))}.")
        return [tool.changed(name=names.get(tool.name, tool.name)) for tool in found]

    return Derived(rename, sources_of(tools))


def approval_required(tools: Tools, when: Callable[[str, dict[str, Any]], bool] | None = None) -> Toolset:
    """The same tools, about which a person is asked in every permission mode but ``bypass``.

    Args:
        tools: The tools.
        when: Which calls, by name and arguments; None for all. A rule that allows a call stands above it.
    """

    if when is not None:
        _check_function("approval_required", when)

    def guard(tool: Tool) -> Tool:
        return tool.changed(destructive=True if when is None else partial(when, tool.name))

    return Derived(_each(guard), sources_of(tools))


def wrapped(tools: Tools, around: Around) -> Toolset:
    """The same tools, with a function around each call.

    Args:
        tools: The tools. Those whose results are made elsewhere stay as they are.
        around: ``(name, args, call)`` to the result, async or not; ``await call(args)`` makes the call.
    """

    _check_function("wrapped", around)

    def wrap(tool: Tool) -> Tool:
        if tool.external:
            return tool

        function = contextual(tool.function)

        async def inside(args: dict[str, Any]) -> Any:
            return await call_function(function, args, is_async=tool.is_async)

        async def call(**args: Any) -> Any:
            found = around(tool.name, args, inside)
            return await found if inspect.isawaitable(found) else found

        return tool.changed(function=call)

    return Derived(_each(wrap), sources_of(tools))


def prepared(tools: Tools, prepare: Change) -> Toolset:
    """Tools that appear or change from step to step.

    Args:
        tools: The tools.
        prepare: ``(context, tools)`` to the tools of the step; may be async. `Tool.changed` makes copies.
    """
    _check_function("prepared", prepare)
    return Derived(prepare, sources_of(tools))
