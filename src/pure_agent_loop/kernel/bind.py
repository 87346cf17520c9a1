"""Bind a kit to one run: its tools, timeouts, notices and system prompt; release it at the end."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import AnyEvent, Event
from pure_agent_loop.kernel.checks import check_deps
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import FIRST_BYTE, Background, Ends, Kit, KitAware, RunAware
from pure_agent_loop.kernel.long_results import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.prefix import PrefixWatch
from pure_agent_loop.kernel.request import result_chars
from pure_agent_loop.kernel.rule_checks import check_listed
from pure_agent_loop.kernel.run_tools import RunTools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import BecomesReady, is_on_this_machine, model_of
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.secrets.redaction import secrets_of
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import StepContext

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

_FACT_END = re.compile(r"\n(?! )")
_NAME_END = re.compile("[:\uff1a]")


def bind_kit(state: QueryState, kit: Kit) -> Kit:
    """Bind a kit, its compactor and background work to a run; add the tool that reads truncated results."""
    state.context.results_cut = state.context.results_cut or any_cut(state.messages)
    folder = ResultFolder(kit.results.folder)
    tasks, compactor = as_protocol(background_of(kit), RunAware), as_protocol(kit.compactor, KitAware)
    if tasks is not None:  # done before the kit is bound, because the run of each task binds it again
        kit = kit.replace(background=tasks.with_run(state, kit))
    tools = with_toolsets(kit).tools
    reading = ReadableTools(tools, folder, result_chars(state, kit), kit.prompts)
    if kit.timeouts.first_byte == FIRST_BYTE and is_on_this_machine(kit.client):
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None))
    if getattr(kit.client, "takes_timeouts", False):  # the client applies the timeouts to each of its models
        limits = {"timeouts": (kit.timeouts.first_byte, kit.timeouts.idle)}
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None, idle=None), client_options=limits)
    watch = PrefixWatch(str if kit.redactor is None else kit.redactor.redact)
    kit = kit.replace(tools=reading, silence=Interrupt(keeps_timer=True), prefix_watch=watch, at_end=[])
    return kit if compactor is None else kit.replace(compactor=compactor.with_kit(kit))


async def start_notices_of(kit: Kit) -> Sequence[AnyEvent]:
    """Return a run's start notices, including those of a client that chooses its model only now."""
    others = [Event.notice(0, text) for text in kit.start_notices]
    client = as_protocol(kit.client, BecomesReady)
    if client is None:
        return others
    notices = await client.become_ready()
    if notices and kit.redactor is not None:  # redact the client's secrets even before the first request
        kit.redactor.learn_clients(secrets_of(client))
    return [*(Event.notice(0, text, model=model_of(client)) for text in notices), *others]


def background_of(kit: Kit) -> Background | None:
    """Return the kit's own background work, else that of the first of its tools that has any."""
    needed = (getattr(tool, "background_work", None) for tool in kit.tools)
    return kit.background or next(filter(None, needed), None)


def with_toolsets(kit: Kit) -> Kit:
    """Return the kit; if it has toolsets, its tools are listed before each step."""
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


async def write_facts(
    state: QueryState, write: Callable[[], Awaitable[str]], journal: Journal, *, compacted: bool = False
) -> None:
    """Add the facts that the model does not have yet; after a compaction, add all facts again.

    Messages with facts are recognised by their first line. A fact is a line with the indented lines below it;
    the text before the colon is the fact's name. If only some facts have changed, only those are added.
    """
    state.facts_due = False
    key = f"{state.step}:{'facts_again' if compacted else 'facts'}"
    text = clean_text(str(await journal.effect(key, write)))
    head, *facts = _FACT_END.split(text)
    told = [message for message in state.messages if _begins(message, head)]
    if compacted:
        if text and [message["content"] for message in told] != [text]:
            state.renew_facts(text, told)
        return
    known = {_name(fact): fact for message in told for fact in _FACT_END.split(str(message["content"]))[1:]}
    # "-" is the text of a removed fact.
    now = {name: f"{name}: -" for name in known} | {_name(fact): fact for fact in facts}
    changed = [fact for name, fact in now.items() if known.get(name) != fact]
    if changed or (text and not told):
        state.add_facts("\n".join([head, *changed]))


def _begins(message: HistoryMessage, head: str) -> bool:
    """Return True for a message with facts, even if its history has lost the mark."""
    content = message["content"]
    return message["role"] == "user" and isinstance(content, str) and content.partition("\n")[0] == head


def _name(fact: str) -> str:
    return _NAME_END.split(fact, maxsplit=1)[0]


async def list_tools(state: QueryState, kit: Kit) -> None:
    """List the tools of the toolsets for the current step.

    Raises:
        ConfigError: A permission rule cannot match any argument of a tool, or a tool needs deps that are
            missing.
        ToolExecutionError: A toolset failed, or took longer than a tool is allowed to.
    """
    tools = _run_tools(kit)
    if tools is None:
        return
    # Number of the step that the tools are for.
    step = state.step + (not state.pending and not state.awaiting)
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


async def release_toolsets(state: QueryState, kit: Kit) -> None:
    """Close a run's toolsets and silence watchdog, and the resources that its calls have registered."""
    for end in kit.at_end:
        if text := await end():
            await kit.emit(Event.notice(state.step, text))
    if kit.silence is not None:
        kit.silence.close()
    tools = _run_tools(kit)
    if tools is not None:
        await tools.leave()


async def end_background(state: QueryState, kit: Kit) -> None:
    """End the background work and close the toolsets of a run that has ended."""
    await release_toolsets(state, kit)
    ending = as_protocol(kit.background, Ends)
    if ending is not None:
        await ending.end(state)
