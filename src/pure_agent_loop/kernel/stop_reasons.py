"""Why a run ends: one table, for the state, the prompts and the exit codes."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["done", "limit", "cut", "denied", "cancelled", "failed"]

COMPLETED = "completed"
SUSPENDED = "waiting_permission"
WAITING_TOOL = "waiting_tool"
WAITING = (SUSPENDED, WAITING_TOOL)  # the run stands in the middle of a step, its calls open


class StopReason(NamedTuple):
    """What one of the reasons means.

    Args:
        kind: What sort of end it is.
        meaning: A sentence.
    """

    kind: Kind
    meaning: str


STOP_REASONS = {
    COMPLETED: StopReason("done", "The model gave its answer."),
    "backgrounded": StopReason("done", "The work goes on elsewhere."),
    "max_steps": StopReason("limit", "The step limit was reached."),
    "max_tool_calls": StopReason("limit", "The limit of tool calls was reached."),
    "token_limit": StopReason("limit", "The token limit was reached."),
    "budget": StopReason("limit", "The budget of time or money was used up."),
    "doom_loop": StopReason("limit", "The model went round in circles."),
    "output_limit": StopReason("cut", "The answer was cut off at the output limit."),
    "content_filter": StopReason("cut", "The server's content filter cut the answer off."),
    "permission_denied": StopReason("denied", "The calls needed were not allowed."),
    SUSPENDED: StopReason("denied", "It is suspended until `QueryState.answer_permission` was called."),
    WAITING_TOOL: StopReason("denied", "It waits until `QueryState.give_result` was called."),
    "cancelled": StopReason("cancelled", "It was stopped from outside."),
    "error": StopReason("failed", "A failure ended it; see `QueryState.failure`."),
}
