"""Bind a kit to one run: its tools, timeouts, notices and system prompt; release it at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.checks import check_deps
from pure_agent_loop.kernel.kit import Background, Ends, Kit, KitAware, RunAware
from pure_agent_loop.kernel.long_results import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.prefix import DEBUG_VARIABLE, PrefixWatch
from pure_agent_loop.kernel.request import result_chars
from pure_agent_loop.kernel.rule_checks import check_listed
from pure_agent_loop.kernel.run_tools import RunTools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import BecomesReady, is_on_this_machine
from pure_agent_loop.llm.profiles import DefaultFloat
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import StepContext


def bind_kit(state: QueryState, kit: Kit) -> Kit:
    """Bind a kit to a run, with its compactor and background; add the tool that reads truncated results."""
    state.context.results_cut = state.context.results_cut or any_cut(state.messages)
    folder = ResultFolder(kit.results.folder)
    tasks, compactor = as_protocol(background_of(kit), RunAware), as_protocol(kit.compactor, KitAware)
    if tasks is not None:  # before the rest: the runs that it starts are bound separately
        kit = kit.replace(background=tasks.with_run(state, kit))
    tools = with_toolsets(kit).tools
    reading = ReadableTools(tools, folder, result_chars(state, kit), kit.prompts)
    if isinstance(kit.timeouts.first_byte, DefaultFloat) and is_on_this_machine(kit.client):
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None))
    if getattr(kit.client, "takes_timeouts", False):  # the client may have a fallback model
        limits = {"timeouts": (kit.timeouts.first_byte, kit.timeouts.idle)}
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None, idle=None), client_options=limits)
    kit = kit.replace(tools=reading, silence=Interrupt(keeps_timer=True))
    if os.environ.get(DEBUG_VARIABLE):
        kit = kit.replace(prefix_watch=PrefixWatch(str if kit.redactor is None else kit.redactor.redact))
    return kit if compactor is None else kit.replace(compactor=compactor.with_kit(kit))


async def notices_of_client(kit: Kit) -> Sequence[str]:
    """Return the notices of a client that chooses its model at the first request."""
    client = as_protocol(kit.client, BecomesReady)
    return () if client is None else await client.become_ready()


def background_of(kit: Kit) -> Background | None:
    """Return a kit's background work: what is set in the kit, or else what one of its tools needs."""
    needed = (getattr(tool, "background_work", None) for tool in kit.tools)
    return kit.background or next(filter(None, needed), None)


def with_toolsets(kit: Kit) -> Kit:
    """Return the kit with tools that are listed before each step, if it has toolsets."""
    if isinstance(kit.tools, RunTools) or not kit.tools.toolsets:
        return kit
    return kit.replace(tools=RunTools(kit.tools, kit.prompts))


def _run_tools(kit: Kit) -> RunTools | None:
    tools = kit.tools.inner if isinstance(kit.tools, ReadableTools) else kit.tools
    return tools if isinstance(tools, RunTools) else None


async def write_system_prompt(state: QueryState, kit: Kit, *, begins: bool = False) -> None:
    """Write the system prompt with the caller's function, when a run begins or in each step."""
    if kit.lead is not None and kit.lead_each_step is not begins:
        key = f"{state.step}:{'lead' if begins else 'lead_of_step'}"
        prompt = clean_text(str(await kit.journal.effect(key, kit.lead)))
        if prompt != state.system_prompt:
            state.system_prompt, state.rewritten["system"] = prompt, "system_function"


async def list_tools(state: QueryState, kit: Kit) -> None:
    """List the tools of the toolsets for the current step.

    Raises:
        ConfigError: A permission rule cannot match any argument of a tool, or a tool needs deps that are
            missing.
        ToolExecutionError: A toolset failed, or took longer than a tool may.
    """
    tools = _run_tools(kit)
    if tools is None:
        return
    step = state.step + (not state.pending and not state.awaiting)  # the next step's number
    context = StepContext(step, state.task, state.session_id, state.messages, state.tools.found)
    with Interrupt() as block:
        block.after(kit.timeouts.tool)
        is_changed = await tools.refresh(context, kit.journal)
        for text in tools.new_notices():
            await kit.emit(Event.notice(step, text))
        if is_changed:
            if tools.is_listed_anew:
                state.rewritten["tools"] = "toolsets"
            await check_listed(kit.permissions.rules, tools, kit, step)
            check_deps(kit)
    if block.fired:
        seconds = f"{kit.timeouts.tool:g}"
        raise ToolExecutionError("toolsets", kit.prompts.tool_timed_out.format(seconds=seconds))


async def release_toolsets(kit: Kit) -> None:
    """Close the toolsets of a run and its silence watchdog."""
    if kit.silence is not None:
        kit.silence.close()
    tools = _run_tools(kit)
    if tools is not None:
        await tools.leave()


async def end_background(state: QueryState, kit: Kit) -> None:
    """End the background and the toolsets of a run that has ended."""
    await release_toolsets(kit)
    ending = as_protocol(kit.background, Ends)
    if ending is not None:
        await ending.end(state)
