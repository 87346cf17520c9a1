"""Why a run ends: one table, for the state, the prompts and the exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["done", "limit", "cut", "denied", "cancelled", "failed"]
StopReason = Literal[
    "completed",
    "backgrounded",
    "handed_off",
    "max_steps",
    "max_tool_calls",
    "token_limit",
    "budget",
    "doom_loop",
    "output_limit",
    "content_filter",
    "permission_denied",
    "waiting_permission",
    "waiting_tool",
    "cancelled",
    "invalid_output",
    "error",
]

COMPLETED: StopReason = "completed"
SUSPENDED: StopReason = "waiting_permission"
WAITING_TOOL: StopReason = "waiting_tool"
WAITING = (SUSPENDED, WAITING_TOOL)  # the run stands in the middle of a step, its calls open
HANDED_OFF: StopReason = "handed_off"
INVALID_OUTPUT: StopReason = "invalid_output"


class StopMeaning(NamedTuple):
    """What one of the reasons means.

    Args:
        kind: What sort of end it is.
        meaning: A sentence.
    """

    kind: Kind
    meaning: str


STOP_REASONS: Mapping[StopReason, StopMeaning] = {
    COMPLETED: StopMeaning("done", "The model gave its answer."),
    "backgrounded": StopMeaning("done", "The work goes on elsewhere."),
    HANDED_OFF: StopMeaning("done", "Another agent goes on; see `QueryState.handed_to`."),
    "max_steps": StopMeaning("limit", "The step limit was reached."),
    "max_tool_calls": StopMeaning("limit", "The limit of tool calls was reached."),
    "token_limit": StopMeaning("limit", "The token limit was reached."),
    "budget": StopMeaning("limit", "The budget was used up."),
    "doom_loop": StopMeaning("limit", "The model went round in circles."),
    "output_limit": StopMeaning("cut", "The answer was cut off at the output limit."),
    "content_filter": StopMeaning("cut", "The server's content filter cut the answer off."),
    "permission_denied": StopMeaning("denied", "The calls needed were not allowed."),
    SUSPENDED: StopMeaning("denied", "It is suspended until `QueryState.answer_permission` was called."),
    WAITING_TOOL: StopMeaning("denied", "It waits until `QueryState.give_result` was called."),
    "cancelled": StopMeaning("cancelled", "It was stopped from outside."),
    INVALID_OUTPUT: StopMeaning(
        "failed", "No answer was of the form that was asked for; see `QueryState.failure`."
    ),
    "error": StopMeaning("failed", "A failure ended it; see `QueryState.failure`."),
}
