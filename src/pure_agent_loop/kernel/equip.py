"""What a kit needs to know about the run it is used for, added at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.long_results import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import result_chars
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
    folder = ResultFolder(kit.results_folder)
    with_run = getattr(kit.background, "with_run", None)
    if with_run is not None:  # before the rest: what it begins is equipped by itself
        kit = replace(kit, background=with_run(state, kit))
    kit = replace(kit, tools=ReadableTools(kit.tools, folder, result_chars(kit), kit.prompts))
    with_kit = getattr(kit.compactor, "with_kit", None)
    return kit if with_kit is None else replace(kit, compactor=with_kit(kit))


async def end_background(state: QueryState, kit: Kit) -> None:
    """The run has ended: so may what goes on beside it."""
    end = getattr(kit.background, "end", None)
    if end is not None:
        await end(state)
