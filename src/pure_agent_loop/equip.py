"""What a kit needs to know about the run it is used for, added at its beginning."""

from __future__ import annotations

from dataclasses import replace

from pure_agent_loop.kit import Kit
from pure_agent_loop.measure import result_chars
from pure_agent_loop.result_budget import ReadableTools, ResultFolder, any_cut
from pure_agent_loop.state import QueryState


def equipped(state: QueryState, kit: Kit) -> Kit:
    """The kit with the tool that reads what was cut, and with a compactor that knows the kit."""
    state.context.results_cut = state.context.results_cut or any_cut(state.messages)
    folder = ResultFolder(kit.results_folder)
    kit = replace(kit, tools=ReadableTools(kit.tools, folder, result_chars(kit), kit.prompts))
    with_kit = getattr(kit.compactor, "with_kit", None)
    return kit if with_kit is None else replace(kit, compactor=with_kit(kit))
