"""Build a request from a state: the only code that converts messages to wire form."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.long_results import ReadableTools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.base import FindsWindow, takes_meta, window_known_to
from pure_agent_loop.llm.messages import Message, as_messages, calls_of, to_wire
from pure_agent_loop.llm.profiles import NO_CALLS
from pure_agent_loop.llm.tokens import MESSAGE_OVERHEAD, estimate_tokens
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import model_text

_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
_OF_CALLS = ("tool_choice", "parallel_tool_calls")  # options that only a request with tools may have
Tools: TypeAlias = "list[dict[str, Any]] | None"
SHORT_ANSWER = 100  # tokens
CHARS_A_TOKEN = 2  # characters of a result per token of the window, so that it fills about half the window


class Request(NamedTuple):
    """Request to a client.

    Args:
        messages: The history, system message first; in wire form unless the client takes `meta`.
        tools: Tool schemas; None if there are no tools.
    """

    messages: list[Message]
    tools: Tools
    options: dict[str, Any]


def build_request(state: QueryState, kit: Kit) -> Request:
    """Build the next request. Earlier messages stay the same byte for byte, for prompt caches."""
    takes_all = takes_meta(kit.client)
    messages = as_messages([*state.messages]) if takes_all else to_wire(state.messages, kit.client)
    if state.system_prompt:
        messages.insert(0, {"role": "system", "content": state.system_prompt})
    options = kit.options
    if state.answer.output_raised:  # with an unchanged limit, the output would be truncated again
        limits = {name: options[name] for name in TOKEN_LIMITS if isinstance(options.get(name), int)}
        options = {**options, **{name: 2 * limit for name, limit in limits.items()}}
    allowed = may_call(state, kit)
    tools = offered_tools(state, kit, allowed=allowed)
    if kit.output is not None and is_typed(state, kit):
        options = {**options, "response_format": kit.output.response_format}
    if not allowed and (tools or kit.tools):
        options = {key: value for key, value in options.items() if key not in _OF_CALLS}
        options = {**options, "tool_choice": NO_CALLS} if tools else options
    return Request(messages, tools, options)


def is_typed(state: QueryState, kit: Kit) -> bool:
    """Return True if the next answer is typed; the last answer after a limit reports progress as text."""
    return kit.output is not None and kit.output.response_format is not None and not state.closing


def may_call(state: QueryState, kit: Kit) -> bool:
    """True if the next response may contain calls."""
    has_rounds = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds
    return not state.closing and has_rounds and bool(kit.tools)


def offered_tools(state: QueryState, kit: Kit, *, allowed: bool) -> Tools:
    """Return the next request's tools, including, after a truncated result, the one that reads the rest.

    Args:
        allowed: Whether calls are allowed; see `may_call`. If not, the tools are listed only if the history
            has calls, because servers reject such a history without tools. For an agent without tools,
            placeholder tools are made from the names of these calls.
    """
    if not allowed:
        calls = [call for message in state.messages for call in calls_of(message)]
        if not calls:
            return None
        if not kit.tools:
            words = {"description": model_text("called_before"), "parameters": _ANYTHING}
            names = dict.fromkeys(call["function"]["name"] for call in calls)
            return [{"type": "function", "function": {"name": name, **words}} for name in names]
    if state.context.results_cut and isinstance(kit.tools, ReadableTools):
        return kit.tools.all_schemas(kit.prompts)
    return kit.tools.to_openai_schema(kit.prompts)


# -- the context window: length of the next request against what fits --------------------


class ContextSize(NamedTuple):
    """Size of the next request.

    Args:
        tokens: Estimated or counted tokens.
        window: Context window in tokens; None if unknown.
        estimated: False if a server counted all the tokens.
    """

    tokens: int
    window: int | None
    estimated: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {"tokens": self.tokens, "window": self.window, "estimated": self.estimated}


def measure(state: QueryState, kit: Kit) -> ContextSize:
    """Return the size of the next request. Sends nothing."""
    tokens, estimated = state.context.length(state.messages, partial(fixed_tokens, state, kit))
    return ContextSize(tokens, window_in_step(state, kit), estimated)


def next_usage(state: QueryState, kit: Kit) -> TokenUsage:
    """Estimate the tokens of the next request from earlier requests of this run.

    The prompt is estimated as the sum of the previous prompt, the response to it, and the messages since. The
    response is estimated as the average so far, at most `SHORT_ANSWER`, so that one long response does not
    block further requests.
    """
    answer = state.usage.completion_tokens // (state.ledger.steps or 1)
    answer = answer if answer < SHORT_ANSWER else SHORT_ANSWER
    total, _ = state.context.length(state.messages, partial(fixed_tokens, state, kit))
    if not state.context.tokens:  # an estimated length does not include the last response
        total += answer
    usage = TokenUsage(total - answer, answer, total, estimated=True)
    is_paid = kit.limits.max_cost is not None or kit.budget is not None
    return kit.priced(usage) if is_paid else usage


def guess(state: QueryState, tools: Tools) -> int:
    """Estimate the tokens of a request with these tools, without token counts from a server."""
    return _fixed(state, tools) + state.context.estimate(state.messages)


def fixed_tokens(state: QueryState, kit: Kit) -> int:
    """Return the tokens of the system message and the tools."""
    return _fixed(state, offered_tools(state, kit, allowed=may_call(state, kit)))


def _fixed(state: QueryState, tools: Tools) -> int:
    system = _estimate(state.system_prompt) + MESSAGE_OVERHEAD if state.system_prompt else 0
    if not tools:
        return system
    known = state.context.tools
    if known is None or known[0] is not tools:  # the estimate is cached per list object
        text = json.dumps(tools, ensure_ascii=False, default=str)
        state.context.tools = known = (tools, _estimate(text))
    return system + known[1]


_estimate = lru_cache(maxsize=32)(estimate_tokens)


def window_of(kit: Kit) -> int | None:
    """Return the window in tokens: the caller's value, else the client's."""
    return window_known_to(kit.client) if kit.context_window is None else kit.context_window


def window_in_step(state: QueryState, kit: Kit) -> int | None:
    """Return the window in tokens, looked up once per step."""
    if state.window == 0:
        state.window = window_of(kit)
    return state.window


async def find_window(state: QueryState, kit: Kit) -> None:
    """Let the client ask its server for the window, if it can."""
    finding = as_protocol(kit.client, FindsWindow)
    if kit.context_window is None and finding is not None:
        with suppress(Exception):  # a failed probe leaves the window unknown
            await finding.find_context_window()
        state.window = 0


def result_chars(state: QueryState, kit: Kit) -> int:
    """Return the maximum length of one result in characters. A result must not fill a small window."""
    window = window_in_step(state, kit)
    max_chars = kit.results.max_chars
    return max_chars if window is None else min(max_chars, CHARS_A_TOKEN * window)
