"""The toolsets of a run: entered when they are needed first, listed for each step, left at the end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import StepContext, Tool, ToolLike, ToolRegistry, Toolset
from pure_agent_loop.toolsets.sets import tools_of

LOG = logging.getLogger("pure_agent_loop")
LEAVE_SECONDS = 5.0  # for a toolset to close; then it is left behind
_DEFAULTS = {
    **dict.fromkeys(
        ("idempotent", "read_only", "destructive", "polls", "exclusive", "external", "untrusted"), False
    ),
    "timeout": None,
    "retries": 2,
}


def flags_of(tool: Tool) -> dict[str, Any]:
    """What is said about a tool besides its schema, where that is not the default, as plain JSON."""
    found = {name: getattr(tool, name) for name in _DEFAULTS if getattr(tool, name) != _DEFAULTS[name]}
    depends = {"destructive": "depends"} if callable(tool.destructive) else {}
    return {**found, **depends, **({"judge": True} if tool.judge is not None else {})}


class RunTools(ToolRegistry):
    """The tools of one run: those that were given, and those that toolsets have in the step at hand.

    What the toolsets list is recorded when it changes, so that a replay has the same tools.

    Args:
        given: The tools and toolsets of the agent; more tools may be registered there at any time.
        prompts: In whose words the tools are described where they are recorded.
    """

    changes = True

    def __init__(self, given: ToolRegistry, prompts: Prompts) -> None:
        super().__init__()
        self.given, self.toolsets = given, given.toolsets
        self._prompts = prompts
        self._in_step: Sequence[Tool] = ()
        self._recorded: list[dict[str, Any]] | None = None
        self._held: dict[int, _Keeper] = {}
        self._tools = {tool.name: tool for tool in given}

    def register(self, value: ToolLike) -> Tool:
        """Add a tool to those that were given; it is there from the next step on."""
        return self.given.register(value)

    async def refresh(self, context: StepContext, journal: Journal) -> bool:
        """Find out which tools there are in a step.

        Returns:
            True if they are others than before.

        Raises:
            ConfigError: Two have one name.
            ToolExecutionError: A toolset cannot be entered or listed.
        """
        tools = await self._listed(replace(context, enter=self.enter), journal)
        given = list(self.given)
        if list(self._tools.values()) == [*given, *tools]:  # the same objects
            return False
        names = [tool.name for tool in [*given, *tools]]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ConfigError(
                f"Two tools have the name {twice[0]!r}. Give those of a toolset other names: "
                "toolsets.prefixed(tools, 'x_')."
            )
        self._tools.clear()  # others hold this dict
        self._tools.update(zip(names, [*given, *tools], strict=True))
        self._in_step, self._schemas = tools, None
        self.given.listed.update((tool.name, tool) for tool in tools if tool.examples)
        return True

    async def _listed(self, context: StepContext, journal: Journal) -> Sequence[Tool]:
        number = 0
        while journal.recorded(key := f"{context.step}:tools:{number}"):  # by a process that was cut off here
            await journal.effect(key, partial(_same, []))
            number += 1
        tools = [tool for toolset in self.toolsets for tool in await _listed_by(toolset, context)]
        if self._recorded is None or tools != self._in_step:
            plain = [self._plain(tool) for tool in tools]
            if plain != self._recorded:
                self._recorded = await journal.effect(key, partial(_same, plain))
        return tools

    def _plain(self, tool: Tool) -> dict[str, Any]:
        return {**tool.to_openai_schema(self._prompts)["function"], "flags": flags_of(tool)}

    async def enter(self, toolset: Toolset) -> None:
        """Enter a toolset for this run, unless it is."""
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
        """The run is over: leave what it entered. What goes wrong then is logged."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(keeper.release() for keeper in held))


async def _listed_by(toolset: Toolset, context: StepContext) -> Sequence[Tool]:
    try:
        return await tools_of(toolset, context)
    except (ConfigError, ToolExecutionError):
        raise
    except Exception as error:
        name, text = type(toolset).__name__, f"{type(error).__name__}: {safe_str(error)}"
        raise ToolExecutionError(name, say("toolset_failed", name=name, error=text)) from error


async def _same(value: Any) -> Any:
    return value


_OPEN: dict[tuple[int, int], _Keeper] = {}  # by toolset and event loop


def _keeper_of(toolset: Toolset) -> _Keeper:
    key = id(toolset), id(asyncio.get_running_loop())
    keeper = _OPEN.get(key)
    if keeper is None or not keeper.is_for(toolset):
        keeper = _OPEN[key] = _Keeper(toolset, key, keeper)
    keeper.users += 1
    return keeper


class _Keeper:
    """Holds a toolset open in a task of its own, because some can only be left where they were entered.

    Args:
        key: Where this stands in `_OPEN`.
        before: One that is still closing it.
    """

    def __init__(self, toolset: Toolset, key: tuple[int, int], before: _Keeper | None) -> None:
        self.users = 0
        self._toolset, self._key = toolset, key
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._entered, self._leave = asyncio.Event(), asyncio.Event()
        closing = before._task if before is not None and before._loop is self._loop else None
        self._task: asyncio.Task[None] = asyncio.create_task(self._hold(closing))

    def is_for(self, toolset: Toolset) -> bool:
        """True if another run may share it: ids are used again when what had them is gone."""
        return self._toolset is toolset and self._loop is asyncio.get_running_loop() and not self._is_over

    async def _hold(self, closing: asyncio.Task[None] | None) -> None:
        if closing is not None:
            await asyncio.wait({closing})
        try:
            async with self._toolset:
                self._entered.set()
                await self._leave.wait()
        finally:
            self._is_over = True
            if _OPEN.get(self._key) is self:
                del _OPEN[self._key]

    async def ready(self) -> None:
        """Return when the toolset is entered, or raise why it cannot be."""
        if not self._entered.is_set():
            entered = asyncio.create_task(self._entered.wait())
            try:
                await asyncio.wait({entered, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                entered.cancel()
        if self._task.done() and not self._leave.is_set():
            self._task.result()
            raise RuntimeError("it closed by itself")

    async def release(self) -> None:
        """One user less; the last one closes it."""
        self.users -= 1
        if self.users:
            return
        self._is_over = True
        if not self._entered.is_set():
            self._task.cancel()
        self._leave.set()
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
