"""What a kit needs to know about the run it is used for, added at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.kernel.kit import Background, Ends, Kit, KnowsKit, KnowsRun
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.long_results import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.tools.rules import check_listed
from pure_agent_loop.kernel.tools.run_tools import RunTools
from pure_agent_loop.kernel.window import result_chars
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.language import speaking
from pure_agent_loop.tool import StepContext

Drive = Callable[[QueryState, Kit], Coroutine[Any, Any, None]]


def spoken(drive: Drive) -> Drive:
    """Let all that happens in a run, its tools and its judges speak with the words of its kit."""

    @wraps(drive)
    async def in_its_words(state: QueryState, kit: Kit) -> None:
        with speaking(kit.prompts):
            await drive(state, kit)

    return in_its_words


def equipped(state: QueryState, kit: Kit) -> Kit:
    """The kit with the tool that reads what was cut, and with a compactor and tasks that know the run."""
    state.context.results_cut = state.context.results_cut or any_cut(state.messages)
    folder = ResultFolder(kit.results.folder)
    tasks, compactor = able(background_of(kit), KnowsRun), able(kit.compactor, KnowsKit)
    if tasks is not None:  # before the rest: what it begins is equipped by itself
        kit = kit.changed(background=tasks.with_run(state, kit))
    tools = with_toolsets(kit).tools
    reading = ReadableTools(tools, folder, result_chars(state, kit), kit.prompts)
    kit = kit.changed(tools=reading, silence=Interrupt(keeps_timer=True))
    return kit if compactor is None else kit.changed(compactor=compactor.with_kit(kit))


def background_of(kit: Kit) -> Background | None:
    """What goes on beside a run with this kit: what it was given, else what one of its tools needs."""
    return kit.background or next(filter(None, (getattr(each, "beside", None) for each in kit.tools)), None)


def with_toolsets(kit: Kit) -> Kit:
    """The kit with toolsets that can be listed for each step of one run."""
    if isinstance(kit.tools, RunTools) or not kit.tools.toolsets:
        return kit
    return kit.changed(tools=RunTools(kit.tools, kit.prompts))


def _run_tools(kit: Kit) -> RunTools | None:
    tools = kit.tools.inner if isinstance(kit.tools, ReadableTools) else kit.tools
    return tools if isinstance(tools, RunTools) else None


async def list_tools(state: QueryState, kit: Kit) -> None:
    """Have the toolsets say which tools there are in the step at hand.

    Raises:
        ConfigError: Two tools have one name, or a permission rule can match no argument of one.
        ToolExecutionError: A toolset failed, or took longer than a tool may.
    """
    tools = _run_tools(kit)
    if tools is None:
        return
    step = state.step + (not state.pending and not state.awaiting)  # it has not begun
    context = StepContext(step, state.task, state.session_id, state.messages, state.tools.found)
    with Interrupt() as block:
        block.after(kit.timeouts.tool)
        if await tools.refresh(context, kit.journal):
            await check_listed(kit.permissions.rules, tools, kit, step)
    if block.fired:
        seconds = f"{kit.timeouts.tool:g}"
        raise ToolExecutionError("toolsets", kit.prompts.tool_timed_out.format(seconds=seconds))


async def leave_tools(kit: Kit) -> None:
    """Leave the toolsets of a run, and what watched it."""
    if kit.silence is not None:
        kit.silence.close()
    tools = _run_tools(kit)
    if tools is not None:
        await tools.leave()


async def end_background(state: QueryState, kit: Kit) -> None:
    """The run has ended: so may what goes on beside it, and its toolsets."""
    await leave_tools(kit)
    ending = able(kit.background, Ends)
    if ending is not None:
        await ending.end(state)
