"""What a kit needs to know about the run it is used for, added at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any

from pure_agent_loop.kernel.kit import Ends, Kit, KnowsKit, KnowsRun
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.long_results import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.window import result_chars
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.language import speaking

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
    tasks, compactor = able(kit.background, KnowsRun), able(kit.compactor, KnowsKit)
    if tasks is not None:  # before the rest: what it begins is equipped by itself
        kit = replace(kit, background=tasks.with_run(state, kit))
    kit = replace(kit, tools=ReadableTools(kit.tools, folder, result_chars(kit), kit.prompts))
    return kit if compactor is None else replace(kit, compactor=compactor.with_kit(kit))


async def end_background(state: QueryState, kit: Kit) -> None:
    """The run has ended: so may what goes on beside it."""
    ending = able(kit.background, Ends)
    if ending is not None:
        await ending.end(state)
