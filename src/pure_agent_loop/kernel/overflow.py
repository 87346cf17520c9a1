"""A request that is too long for the server after all: recognising it, and making room once a step."""

from __future__ import annotations

from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit, force
from pure_agent_loop.kernel.request import offered_tools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import guess, window_in_step
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.llm.values import get

# Some servers refuse an overlong request without a word; a short one was refused for something else.
SUSPECT_SHARE = 0.5
SUSPECT_TOKENS = 20_000
FULL_SHARE = 0.8
CUT_SHARE = 0.5
SILENT = "silent_truncation"


def as_overflow(error: LLMError, state: QueryState, kit: Kit) -> LLMError | None:
    """The error as one of kind ``context_overflow``, None if it is about something else."""
    if error.kind == "context_overflow":
        return error
    if not _is_bare_refusal(error):
        return None
    tokens, window = guess(state, offered_tools(state, kit)), window_in_step(state, kit)
    if tokens <= (SUSPECT_TOKENS if window is None else SUSPECT_SHARE * window):
        return None
    message = (
        f"{error.message} The server gives no reason; the request has about {tokens} tokens and is "
        "probably longer than the model's context window."
    )
    return LLMError(message, error.original_error, kind="context_overflow", status=error.status)


def _is_bare_refusal(error: LLMError) -> bool:
    if error.kind != "bad_request" or error.status != 400:
        return False
    body = getattr(error.original_error, "body", error.message)
    return not body or (isinstance(body, str) and not body.strip())


async def make_room(state: QueryState, kit: Kit) -> bool:
    """Have the history shortened although it seemed to fit; at most once a step.

    Returns:
        True if it is shorter now, so that the request may be sent again.
    """
    if state.has_attempted_reactive_compact:
        return False
    state.has_attempted_reactive_compact = True
    before = sum(map(estimate_message, state.messages))
    await force(kit.compactor, state)
    return sum(map(estimate_message, state.messages)) < before


def counts_less(response: LLMResponse, tokens: int) -> bool:
    """True if the server counted much less than our guess for the request."""
    usage = response.usage
    return usage is not None and not usage.estimated and 0 < usage.prompt_tokens < CUT_SHARE * tokens


async def note_length(response: LLMResponse, tokens: int, state: QueryState, kit: Kit) -> None:
    """Tell of an answer that `counts_less`, if it means that the request was cut."""
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
            "leave out the beginning of long requests without saying so. Tell the agent the real size with "
            "context_window=..., or give the server a larger one.",
        )
    )


def is_of_one_request(response: LLMResponse) -> bool:
    """False if a client needed several requests for one answer: their sum says nothing about the history."""
    requests = get(response.raw, "requests")
    return not isinstance(requests, int) or requests <= 1
