"""How full the model's window is: the length of the next request against what fits."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import offered_tools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import FindsWindow, window_known_to
from pure_agent_loop.llm.tokens import MESSAGE_OVERHEAD, estimate_tokens
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.abilities import able

SHORT_ANSWER = 100  # tokens
CHARS_A_TOKEN = 2  # of the window: a result may take about half of it
Tools: TypeAlias = "list[dict[str, Any]] | None"


class ContextSize(NamedTuple):
    """How long the next request is.

    Args:
        tokens: About its tokens.
        window: Tokens that fit, None if nobody knows.
        estimated: False if a server counted them all.
    """

    tokens: int
    window: int | None
    estimated: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"tokens": self.tokens, "window": self.window, "estimated": self.estimated}


def measure(state: QueryState, kit: Kit) -> ContextSize:
    """The size of the next request, as far as it is known. Sends nothing."""
    context, messages = state.context, state.messages
    counted = context.tokens and context.messages <= len(messages)  # the system message and the tools, too
    tokens, estimated = context.length(messages, 0 if counted else fixed_tokens(state, kit))
    return ContextSize(tokens, window_in_step(state, kit), estimated)


def next_usage(state: QueryState, kit: Kit) -> TokenUsage:
    """About what the next request takes, with a short answer."""
    prompt, _ = state.context.length(state.messages, fixed_tokens(state, kit))
    return TokenUsage(prompt, SHORT_ANSWER, prompt + SHORT_ANSWER, estimated=True)


def guess(state: QueryState, tools: Tools) -> int:
    """The same by our own guess alone, for a request with these tools."""
    return _fixed(state, tools) + state.context.estimate(state.messages)


def fixed_tokens(state: QueryState, kit: Kit) -> int:
    """Tokens of what is in each request beside the messages: the system message and the tools."""
    return _fixed(state, offered_tools(state, kit))


def _fixed(state: QueryState, tools: Tools) -> int:
    known = state.context.tools
    if known is None or known[0] is not tools:  # a list that is the same object was looked at before
        text = json.dumps(tools, ensure_ascii=False, default=str) if tools else ""
        state.context.tools = known = (tools, _estimate(text))
    system = _estimate(state.system_prompt) + MESSAGE_OVERHEAD if state.system_prompt else 0
    return system + known[1]


_estimate = lru_cache(maxsize=32)(estimate_tokens)


def window_of(kit: Kit) -> int | None:
    """Tokens of the window: what the user says, else what the client knows."""
    return window_known_to(kit.client) if kit.context_window is None else kit.context_window


def window_in_step(state: QueryState, kit: Kit) -> int | None:
    """The same, asked for once a step."""
    if state.window == 0:
        state.window = window_of(kit)
    return state.window


async def find_window(state: QueryState, kit: Kit) -> None:
    """Let a client that can ask its server do so."""
    finding = able(kit.client, FindsWindow)
    if kit.context_window is None and finding is not None:
        with suppress(Exception):  # a probe that fails, in whatever way, has found nothing out
            await finding.find_context_window()
        state.window = 0


def result_chars(state: QueryState, kit: Kit) -> int:
    """Greatest length of one result. In a small window a single one must not take it all."""
    window = window_in_step(state, kit)
    most = kit.results.max_chars
    return most if window is None else min(most, CHARS_A_TOKEN * window)
