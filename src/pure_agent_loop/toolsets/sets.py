"""Derive toolsets from other toolsets. Each function takes a `Toolset`, or a list of tools and toolsets.

A tool without a function is bound to its set before any other change, so that it still reaches its set after
it has been renamed or guarded.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import current_prompts
from pure_agent_loop.schema.calling import call_user, contextual
from pure_agent_loop.support.abilities import check_shape
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import StepContext, Tool, ToolLike, Toolset, as_tool, as_toolset

if TYPE_CHECKING:
    from typing_extensions import Self

Tools = Toolset | Iterable[ToolLike | Toolset]
Change = Callable[[StepContext, Sequence[Tool]], "Sequence[Tool] | Awaitable[Sequence[Tool]]"]
Around = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], Awaitable[Any]]], Any]


async def tools_of(toolset: Toolset, context: StepContext) -> list[Tool]:
    """Enter a toolset and return its tools, each bound to a function unless it is external."""
    await context.enter(toolset)
    result: Any = toolset.list(context)
    listed = await result if inspect.isawaitable(result) else result
    return [
        tool
        if tool.is_bound or tool.external
        else tool.changed(function=partial(_call_by_name, toolset, tool.name))
        for tool in _checked_tools(f"{type(toolset).__name__}.list", listed, context)
    ]


async def _call_by_name(toolset: Toolset, name: str, /, **arguments: Any) -> Any:
    return await toolset.call(name, arguments)


class Derived:
    """Toolset derived from others; it has no resources of its own."""

    def __init__(self, change: Change | None, sources: Iterable[ToolLike | Toolset]) -> None:
        self._change = change
        self._sources = [as_toolset(source) or as_tool(cast("ToolLike", source)) for source in sources]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Do nothing, because the run that entered the sources also exits them."""

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the changed tools of the sources."""
        tools: list[Tool] = []
        for source in self._sources:
            tools += [source] if isinstance(source, Tool) else await tools_of(source, context)
        if self._change is None:
            return tools
        result = self._change(context, tools)
        changed = await result if inspect.isawaitable(result) else result
        return _checked_tools("The function of a toolset", changed, context)

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool by name. Runs do not call this method: the tools from `list` have functions."""
        for tool in await self.list(StepContext()):
            if tool.name == name:
                return await tool.invoke(args, current_prompts())
        raise LookupError(name)


def _checked_tools(owner: str, tools: Any, context: StepContext) -> Sequence[Tool]:
    if not isinstance(tools, (list, tuple)):
        raise ConfigError(f"{owner} must return a list of Tools; it returned {tools!r:.80}.")
    for entry in tools:
        if not isinstance(entry, Tool):
            context.tell(
                model_text(
                    "tool_left_out", tool=f"{entry!r:.80}", why=model_text("tool_no_tool", owner=owner)
                )
            )
    return [tool for tool in tools if isinstance(tool, Tool)]


def _check_function(owner: str, function: object, *parameters: str) -> None:
    if not callable(function):
        raise ConfigError(
            f"{owner}: the argument after the tools must be a function; it is {function!r:.80}."
        )
    check_shape(owner, function, parameters)


def _change_each(change: Callable[[Tool], Tool]) -> Change:
    """Change each tool. Leave out tools that cannot be changed, but fail if no tool can be changed."""

    def change_all(context: StepContext, tools: Sequence[Tool]) -> Sequence[Tool]:
        changed, errors = list[Tool](), dict[str, ConfigError]()
        for tool in tools:
            try:
                changed.append(change(tool))
            except ConfigError as error:  # noqa: PERF203 - per tool
                errors[tool.name] = error
        if errors and not changed:
            raise next(iter(errors.values()))
        for name, why in errors.items():
            context.tell(model_text("tool_left_out", tool=name, why=why))
        return changed

    return change_all


def sources_of(tools: Tools) -> Iterable[ToolLike | Toolset]:
    """Return the sources of a set.

    Raises:
        ConfigError: `tools` is neither a toolset nor a list.
    """
    toolset = as_toolset(tools)
    if toolset is not None:
        return [toolset]
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise ConfigError(f"tools must be a toolset, or a list of tools and toolsets; it is {tools!r:.80}.")
    return tools


def combined(*toolsets: ToolLike | Toolset) -> Toolset:
    """Combine tools and toolsets into one set."""
    return Derived(None, toolsets)


def filtered(tools: Tools, keep: Callable[[StepContext, Tool], bool]) -> Toolset:
    """Keep the tools that a function accepts. The function is called again in each step."""
    _check_function("filtered", keep, "context", "tool")
    return Derived(lambda context, all_: [tool for tool in all_ if keep(context, tool)], sources_of(tools))


def prefixed(tools: Tools, prefix: str) -> Toolset:
    """Add `prefix` to the name of each tool."""
    if not isinstance(prefix, str):
        raise ConfigError(f"prefixed: prefix must be a string; it is {prefix!r:.80}.")
    return Derived(_change_each(lambda tool: tool.changed(name=prefix + tool.name)), sources_of(tools))


def renamed(tools: Tools, names: Mapping[str, str]) -> Toolset:
    """Rename some of the tools.

    Args:
        tools: The tools.
        names: New names by old name. Unknown old names are rejected when the tools are listed.
    """

    if not isinstance(names, Mapping):
        raise ConfigError(f"renamed: names must map old names to new names; it is {names!r:.80}.")

    def rename(context: StepContext, listed: Sequence[Tool]) -> Any:
        if missing := names.keys() - {tool.name for tool in listed}:
            raise ConfigError(f"renamed: unknown tool {', '.join(sorted(missing))}.")
        return _change_each(lambda tool: tool.changed(name=names.get(tool.name, tool.name)))(context, listed)

    return Derived(rename, sources_of(tools))


def approval_required(tools: Tools, when: Callable[[str, dict[str, Any]], bool] | None = None) -> Toolset:
    """Ask a person before each call, in every permission mode except ``bypass``.

    Args:
        tools: The tools.
        when: Selects the calls by name and arguments; None for all. If a rule allows the call, nobody is
            asked.
    """

    if when is not None:
        _check_function("approval_required", when, "tool", "args")

    def guard(tool: Tool) -> Tool:
        return tool.changed(destructive=True if when is None else partial(when, tool.name))

    return Derived(_change_each(guard), sources_of(tools))


def wrapped(tools: Tools, around: Around) -> Toolset:
    """Wrap a function around each call.

    Args:
        tools: The tools. External tools stay unchanged.
        around: Takes ``(name, args, call)`` and returns the result; may be async. ``await call(args)`` runs
            the tool.
    """

    _check_function("wrapped", around, "tool", "args", "call")

    def wrap(tool: Tool) -> Tool:
        if tool.external:
            return tool

        function = contextual(tool.function)

        async def inside(args: dict[str, Any]) -> Any:
            return await call_user(function, **args)

        async def call(**args: Any) -> Any:
            result = around(tool.name, args, inside)
            return await result if inspect.isawaitable(result) else result

        return tool.changed(function=call)

    return Derived(_change_each(wrap), sources_of(tools))


def prepared(tools: Tools, prepare: Change) -> Toolset:
    """Change the tools from step to step.

    Args:
        tools: The tools.
        prepare: Takes ``(context, tools)`` and returns the step's tools; may be async. To change a tool, copy
            it with `Tool.changed`.
    """
    _check_function("prepared", prepare, "context", "tools")
    return Derived(prepare, sources_of(tools))
