"""From a state to a request: the one place where messages take their wire shape."""

from __future__ import annotations

from typing import Any, NamedTuple

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.long_results import ReadableTools
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.base import takes_meta
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.profiles import NO_CALLS
from pure_agent_loop.prompts.words import say

_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
_OF_CALLS = ("tool_choice", "parallel_tool_calls")  # fields for requests whose answer may hold calls


class Request(NamedTuple):
    """What a client is asked.

    Args:
        messages: The history, system message first; in wire form unless the client takes `meta`.
        tools: Tool schemas; None when none may be used.
        options: Further fields of the request.
    """

    messages: list[Message]
    tools: list[dict[str, Any]] | None
    options: dict[str, Any]


def build_request(state: QueryState, kit: Kit) -> Request:
    """The next request. The bytes of earlier messages never change, so that prompt caches stay warm."""
    messages = list(state.messages) if takes_meta(kit.client) else state.history()
    if state.system_prompt:
        messages.insert(0, {"role": "system", "content": state.system_prompt})
    options = _with_more_output(kit.options) if state.answer.output_raised else kit.options
    allowed = may_call(state, kit)
    tools = _offered(state, kit, allowed=allowed)
    if kit.output is not None and is_typed(state, kit):
        options = {**options, "response_format": kit.output.response_format}
    if not allowed and (tools or kit.tools):
        options = {key: value for key, value in options.items() if key not in _OF_CALLS}
        options = {**options, "tool_choice": NO_CALLS} if tools else options
    return Request(messages, tools, options)


def is_typed(state: QueryState, kit: Kit) -> bool:
    """True if the next answer has to have a form; the last one after a limit tells how far the work is."""
    return kit.output is not None and kit.output.response_format is not None and not state.closing


def may_call(state: QueryState, kit: Kit) -> bool:
    """True if the next answer may hold calls of tools that there are."""
    has_rounds = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds
    return not state.closing and has_rounds and bool(kit.tools)


def offered_tools(state: QueryState, kit: Kit) -> list[dict[str, Any]] | None:
    """The tools of the next request; from the first cut result on also the one that reads the rest.

    Where none may be called they are still there if the history holds calls: servers refuse one without. Of
    an agent that has no tools, they are made from the names of these calls.
    """
    return _offered(state, kit, allowed=may_call(state, kit))


def _offered(state: QueryState, kit: Kit, *, allowed: bool) -> list[dict[str, Any]] | None:
    if not allowed:
        made = [each for m in state.messages for each in m.get("tool_calls") or ()]
        if not kit.tools:
            return [_named(name) for name in dict.fromkeys(each["function"]["name"] for each in made)] or None
        if not made:
            return None
    if state.context.results_cut and isinstance(kit.tools, ReadableTools):
        return kit.tools.all_schemas(kit.prompts)
    return kit.tools.to_openai_schema(kit.prompts)


def _named(name: str) -> dict[str, Any]:
    """A tool of which nothing is known but its name."""
    about = {"name": name, "description": say("called_before"), "parameters": _ANYTHING}
    return {"type": "function", "function": about}


def _with_more_output(options: dict[str, Any]) -> dict[str, Any]:
    """The caller's output limit doubled: a call that was cut off would be cut off again."""
    raised = {name: 2 * options[name] for name in TOKEN_LIMITS if isinstance(options.get(name), int)}
    return {**options, **raised}
