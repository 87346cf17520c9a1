"""Build a request from a state: the one place where messages take their wire form."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit, force
from pure_agent_loop.kernel.long_results import ReadableTools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.base import FindsWindow, takes_meta, window_known_to
from pure_agent_loop.llm.messages import Message, to_wire
from pure_agent_loop.llm.profiles import NO_CALLS
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tokens import MESSAGE_OVERHEAD, estimate_message, estimate_tokens
from pure_agent_loop.llm.values import TokenUsage, get
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import message

_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
_OF_CALLS = ("tool_choice", "parallel_tool_calls")  # only for requests that allow calls


class Request(NamedTuple):
    """Request to a client.

    Args:
        messages: The history, system message first; in wire form unless the client takes `meta`.
        tools: Tool schemas; None for none.
    """

    messages: list[Message]
    tools: list[dict[str, Any]] | None
    options: dict[str, Any]


def build_request(state: QueryState, kit: Kit) -> Request:
    """Build the next request. Bytes of earlier messages never change, so that prompt caches hit."""
    messages = list(state.messages) if takes_meta(kit.client) else to_wire(state.messages, kit.client)
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
    """Whether the next answer is typed. The last one after a limit is not: it reports progress."""
    return kit.output is not None and kit.output.response_format is not None and not state.closing


def may_call(state: QueryState, kit: Kit) -> bool:
    """Whether the next response may contain calls."""
    has_rounds = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds
    return not state.closing and has_rounds and bool(kit.tools)


def offered_tools(state: QueryState, kit: Kit) -> list[dict[str, Any]] | None:
    """Return the tools of the next request; after the first cut result also the tool that reads the rest.

    If no calls are allowed, tools are still listed if the history has calls: servers reject such a history
    without tools. For an agent without tools they are made from the names of these calls.
    """
    return _offered(state, kit, allowed=may_call(state, kit))


def _offered(state: QueryState, kit: Kit, *, allowed: bool) -> list[dict[str, Any]] | None:
    if not allowed:
        calls = [call for m in state.messages for call in m.get("tool_calls") or ()]
        if not kit.tools:
            names = dict.fromkeys(call["function"]["name"] for call in calls)
            return [_placeholder(name) for name in names] or None
        if not calls:
            return None
    if state.context.results_cut and isinstance(kit.tools, ReadableTools):
        return kit.tools.all_schemas(kit.prompts)
    return kit.tools.to_openai_schema(kit.prompts)


def _placeholder(name: str) -> dict[str, Any]:
    """Return the schema of a tool of which only the name is known."""
    function = {"name": name, "description": message("called_before"), "parameters": _ANYTHING}
    return {"type": "function", "function": function}


def _with_more_output(options: dict[str, Any]) -> dict[str, Any]:
    """Double the caller's output limit: a call that was cut off would be cut off again."""
    raised = {name: 2 * options[name] for name in TOKEN_LIMITS if isinstance(options.get(name), int)}
    return {**options, **raised}


# -- the context window: length of the next request against what fits --------------------

SHORT_ANSWER = 100  # tokens
CHARS_A_TOKEN = 2  # a result may take about half of the window
Tools: TypeAlias = "list[dict[str, Any]] | None"


class ContextSize(NamedTuple):
    """Length of the next request.

    Args:
        tokens: Estimated or counted tokens.
        window: Tokens that fit; None if unknown.
        estimated: False if a server counted all of them.
    """

    tokens: int
    window: int | None
    estimated: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"tokens": self.tokens, "window": self.window, "estimated": self.estimated}


def measure(state: QueryState, kit: Kit) -> ContextSize:
    """Return the size of the next request. Sends nothing."""
    context, messages = state.context, state.messages
    counted = context.tokens and context.messages <= len(messages)  # the system message and the tools, too
    tokens, estimated = context.length(messages, 0 if counted else fixed_tokens(state, kit))
    return ContextSize(tokens, window_in_step(state, kit), estimated)


def next_usage(state: QueryState, kit: Kit) -> TokenUsage:
    """Estimate the tokens of the next request from earlier requests of this run.

    Its prompt is the newest prompt with its response and what came since. Its response has the average length
    so far, at most `SHORT_ANSWER`: a long response must not prevent the request.
    """
    answer = state.usage.completion_tokens // (state.ledger.steps or 1)
    answer = answer if answer < SHORT_ANSWER else SHORT_ANSWER
    total, _ = state.context.length(state.messages, fixed_tokens(state, kit))
    if not state.context.tokens:  # not counted by a server: the estimate covers the request alone
        total += answer
    return TokenUsage(total - answer, answer, total, estimated=True)


def guess(state: QueryState, tools: Tools) -> int:
    """Estimate the tokens of a request with these tools, without counts of a server."""
    return _fixed(state, tools) + state.context.estimate(state.messages)


def fixed_tokens(state: QueryState, kit: Kit) -> int:
    """Return the tokens of the system message and the tools."""
    return _fixed(state, offered_tools(state, kit))


def _fixed(state: QueryState, tools: Tools) -> int:
    known = state.context.tools
    if known is None or known[0] is not tools:  # the same list object was measured before
        text = json.dumps(tools, ensure_ascii=False, default=str) if tools else ""
        state.context.tools = known = (tools, _estimate(text))
    system = _estimate(state.system_prompt) + MESSAGE_OVERHEAD if state.system_prompt else 0
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
    """Return the greatest length of one result. It must not fill a small window."""
    window = window_in_step(state, kit)
    max_chars = kit.results.max_chars
    return max_chars if window is None else min(max_chars, CHARS_A_TOKEN * window)


# -- overflow: recognise a request that is too long after all, and make room once per step --------------

# Some servers reject a long request without a reason; a short one was rejected for another reason.
SUSPECT_SHARE = 0.5
SUSPECT_TOKENS = 20_000
FULL_SHARE = 0.8
CUT_SHARE = 0.5
SILENT = "silent_truncation"


def as_overflow(error: LLMError, state: QueryState, kit: Kit) -> LLMError | None:
    """Return the error as kind ``context_overflow``; None if it is another error."""
    if error.kind == "context_overflow":
        return error
    if not _is_bare_refusal(error):
        return None
    tokens, window = guess(state, offered_tools(state, kit)), window_in_step(state, kit)
    if tokens <= (SUSPECT_TOKENS if window is None else SUSPECT_SHARE * window):
        return None
    message = (
        f"{error.message} The server gives no reason. The request has about {tokens} tokens and is "
        "probably longer than the model's context window."
    )
    return LLMError(message, error.original_error, kind="context_overflow", status=error.status)


def _is_bare_refusal(error: LLMError) -> bool:
    if error.kind != "bad_request" or error.status != 400:
        return False
    body = getattr(error.original_error, "body", error.message)
    return not body or (isinstance(body, str) and not body.strip())


async def make_room(state: QueryState, kit: Kit) -> bool:
    """Shorten the history although it seemed to fit; at most once per step.

    Returns:
        True if it is shorter now, so that the request can be sent again.
    """
    if state.has_attempted_reactive_compact:
        return False
    state.has_attempted_reactive_compact = True
    before = sum(map(estimate_message, state.messages))
    await force(kit.compactor, state)
    return sum(map(estimate_message, state.messages)) < before


def counts_less(response: LLMResponse, tokens: int) -> bool:
    """Whether the server counted far fewer tokens than estimated."""
    usage = response.usage
    return usage is not None and not usage.estimated and 0 < usage.prompt_tokens < CUT_SHARE * tokens


async def note_length(response: LLMResponse, tokens: int, state: QueryState, kit: Kit) -> None:
    """Send a notice if a low count means that the server cut the request."""
    window = window_in_step(state, kit)
    is_full = window is not None and tokens > FULL_SHARE * window
    if not is_full or SILENT in state.auto_compact_tracking or not is_of_one_request(response):
        return
    state.auto_compact_tracking[SILENT] = {"acted": 1, "saved": 0}
    counted = 0 if response.usage is None else response.usage.prompt_tokens
    await kit.emit(
        Event.notice(
            state.step,
            f"The server counted {counted} tokens in a request of about {tokens}: it seems to "
            "drop the beginning of long requests silently. Set the real size with context_window=..., "
            "or start the server with a larger window.",
        )
    )


def is_of_one_request(response: LLMResponse) -> bool:
    """Whether the response took a single request; the sum of several does not measure the history."""
    requests = get(response.raw, "requests")
    return not isinstance(requests, int) or requests <= 1
