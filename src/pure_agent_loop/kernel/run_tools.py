"""Toolsets of a run: entered at first use, listed per step, exited at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.kernel.journal import Journal, as_effect
from pure_agent_loop.llm.profiles import ForeignTool
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.failures import LOG, log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import StepContext, Tool, ToolLike, ToolRegistry, Toolset
from pure_agent_loop.toolsets.sets import tools_of

LEAVE_SECONDS = 5.0  # seconds for a toolset to close; then it is abandoned
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(
        ("idempotent", "read_only", "destructive", "polls", "exclusive", "external", "untrusted", "trusted"),
        False,
    ),
    "prose": [],
    "recipient": [],
    "timeout": None,
    "retries": 2,
    "asks": "",
    "running": "",
}
_OPEN: dict[tuple[int, int], _Keeper] = {}  # key: ids of the toolset and the event loop


def flags_of(tool: Tool) -> dict[str, Any]:
    """Return a tool's non-default flags, which its schema does not show, as plain JSON."""
    changed = {name: getattr(tool, name) for name in _DEFAULTS if getattr(tool, name) != _DEFAULTS[name]}
    depends = {"destructive": "depends"} if callable(tool.destructive) else {}
    return {**changed, **depends, **({"judge": True} if tool.judge is not None else {})}


class RunTools(ToolRegistry):
    """Tools of one run: the agent's tools, and the toolsets' tools in the current step.

    A changed list is recorded, so that a replay has the same tools.

    Args:
        given: The tools and toolsets of the agent; more tools may be registered there at any time.
    """

    changes = True

    def __init__(self, given: ToolRegistry, prompts: Prompts) -> None:
        super().__init__()
        self.given, self.toolsets = given, given.toolsets
        self._prompts = prompts
        self._in_step: Sequence[Tool] = ()
        self.is_listed_anew = False  # True if the toolsets, not the program, changed the list
        self._recorded: list[dict[str, Any]] | None = None
        self._held: dict[int, _Keeper] = {}
        self._notices: dict[str, bool] = {}  # notices in order, True if emitted
        self._tools = {tool.name: tool for tool in given}

    def register(self, value: ToolLike) -> Tool:
        """Add a tool to the agent's tools, from the next step on."""
        return self.given.register(value)

    async def refresh(self, context: StepContext, journal: Journal) -> bool:
        """Update the list of tools for a step.

        Returns:
            True if the list has changed.

        Raises:
            ConfigError: A toolset returned a value that is not a list.
            ToolExecutionError: A toolset cannot be entered or listed.
        """
        tools = await self._listed(replace(context, enter=self.enter, tell=self._note), journal)
        given = list(self.given)
        self.is_listed_anew = list(tools) != list(self._in_step)
        if list(self._tools.values()) == [*given, *tools]:  # the tool objects are unchanged
            return False
        self._tools.clear()  # keep the dict object, because it is shared
        self._tools.update((tool.name, tool) for tool in [*given, *tools])
        self._in_step, self._schemas = tools, None
        self.given.listed.update((tool.name, tool) for tool in tools if tool.examples)
        return True

    async def _listed(self, context: StepContext, journal: Journal) -> Sequence[Tool]:
        number = 0
        while journal.recorded(key := f"{context.step}:tools:{number}"):  # recorded by a killed process
            await journal.effect(key, partial(as_effect, []))
            number += 1
        tools = self._usable(
            [tool for toolset in self.toolsets for tool in await _listed_by(toolset, context)]
        )
        if self._recorded is None or tools != self._in_step:
            plain = [self._plain(tool) for tool in tools]
            if plain != self._recorded:
                self._recorded = await journal.effect(key, partial(as_effect, plain))
        return tools

    def _entry(self, tool: Tool, prompts: Prompts | None) -> dict[str, Any]:
        entry = super()._entry(tool, prompts)
        return ForeignTool(entry) if tool.name not in self.given else entry

    def _usable(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return the tools that have a unique name and a schema; add a notice about each tool left out."""
        usable, names = list[Tool](), {tool.name for tool in self.given}
        for tool in tools:
            if tool.name in names:
                self._note(model_text("tool_left_out", tool=tool.name, why=model_text("tool_same_name")))
                continue
            try:
                _ = tool.parameters
            except ConfigError as error:
                self._note(model_text("tool_left_out", tool=tool.name, why=error))
                continue
            names.add(tool.name)
            usable.append(tool)
        return usable

    def _note(self, text: str) -> None:
        self._notices.setdefault(text, False)

    def new_notices(self) -> Sequence[str]:
        """Return new notices about the tools, each once per run."""
        new = [text for text, was_told in self._notices.items() if not was_told]
        self._notices.update(dict.fromkeys(new, True))
        return new

    def _plain(self, tool: Tool) -> dict[str, Any]:
        return {**tool.to_openai_schema(self._prompts)["function"], "flags": flags_of(tool)}

    async def enter(self, toolset: Toolset) -> None:
        """Enter a toolset for this run, unless it is already entered."""
        keeper = self._held.get(id(toolset))
        if keeper is None:
            keeper = self._held[id(toolset)] = _keeper_of(toolset)
        try:
            await keeper.ready()
        except BaseException:
            self._held.pop(id(toolset), None)
            await keeper.release()
            raise

    async def leave(self) -> None:
        """Exit the run's toolsets at its end. Errors are logged."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(keeper.release() for keeper in held))


async def _listed_by(toolset: Toolset, context: StepContext) -> Sequence[Tool]:
    try:
        return await tools_of(toolset, context)
    except (ConfigError, ToolExecutionError):
        raise
    except Exception as error:
        log_failure(f"The toolset {type(toolset).__name__}", error)
        name, text = type(toolset).__name__, f"{type(error).__name__}: {safe_str(error)}"
        raise ToolExecutionError(name, model_text("toolset_failed", name=name, error=text)) from error


def _keeper_of(toolset: Toolset) -> _Keeper:
    # Ids stay unique, because the keeper keeps both objects alive.
    key = id(toolset), id(asyncio.get_running_loop())
    keeper = _OPEN.get(key)
    if keeper is None or keeper.is_over:
        keeper = _OPEN[key] = _Keeper(toolset, key, keeper)
    keeper.users += 1
    return keeper


class _Keeper:
    """Holds a toolset open in a task, because some must be exited by the same task that entered them.

    Args:
        key: Key of this keeper in `_OPEN`.
        before: A previous keeper that is still closing the toolset.
    """

    def __init__(self, toolset: Toolset, key: tuple[int, int], before: _Keeper | None) -> None:
        self.users = 0
        self._toolset, self._key = toolset, key
        self.is_over = False
        self._entered, self._close_requested = asyncio.Event(), asyncio.Event()
        closing = before._task if before is not None else None
        self._task: asyncio.Task[None] = asyncio.create_task(self._hold(closing))

    async def _hold(self, closing: asyncio.Task[None] | None) -> None:
        if closing is not None:
            await asyncio.wait({closing})
        try:
            async with self._toolset:
                self._entered.set()
                await self._close_requested.wait()
        finally:
            self.is_over = True
            if _OPEN.get(self._key) is self:
                del _OPEN[self._key]

    async def ready(self) -> None:
        """Wait until the toolset has been entered, or raise its error."""
        if not self._entered.is_set():
            entered = asyncio.create_task(self._entered.wait())
            try:
                await asyncio.wait({entered, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                entered.cancel()
        if self._task.done() and not self._close_requested.is_set():
            self._task.result()
            raise RuntimeError("it closed unexpectedly")

    async def release(self) -> None:
        """Release one use; the last release closes the toolset."""
        self.users -= 1
        if self.users:
            return
        self.is_over = True
        if not self._entered.is_set():
            self._task.cancel()
        self._close_requested.set()
        ended, _ = await asyncio.wait({self._task}, timeout=LEAVE_SECONDS)
        if not ended:
            self._task.cancel()
        self._task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        name = type(self._toolset).__name__
        if task.cancelled():
            LOG.warning("The toolset %s was stopped before it had closed.", name)
        elif (error := task.exception()) is not None and self._entered.is_set():
            LOG.warning("The toolset %s failed while it closed: %s", name, safe_str(error))
