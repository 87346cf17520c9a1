"""Stop reasons: one table for the state, the prompts and the exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["done", "limit", "cut", "denied", "cancelled", "failed"]
StopReason = Literal[
    "completed",
    "handed_off",
    "backgrounded",
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
WAITING = (SUSPENDED, WAITING_TOOL)  # the run is suspended within a step that has pending calls
HANDED_OFF: StopReason = "handed_off"
BACKGROUNDED: StopReason = "backgrounded"
INVALID_OUTPUT: StopReason = "invalid_output"


class StopMeaning(NamedTuple):
    """Meaning of a stop reason."""

    kind: Kind
    meaning: str


STOP_REASONS: Mapping[StopReason, StopMeaning] = {
    COMPLETED: StopMeaning("done", "The model answered."),
    HANDED_OFF: StopMeaning("done", "Another agent took over; see `QueryState.handed_to`."),
    BACKGROUNDED: StopMeaning("done", "An engine for durable runs continues the run; see `Run.detach`."),
    "max_steps": StopMeaning("limit", "The step limit was reached."),
    "max_tool_calls": StopMeaning("limit", "The tool call limit was reached."),
    "token_limit": StopMeaning("limit", "The token limit was reached."),
    "budget": StopMeaning("limit", "The budget was used up."),
    "doom_loop": StopMeaning("limit", "The model kept repeating the same calls."),
    "output_limit": StopMeaning("cut", "The answer was cut off at the output token limit."),
    "content_filter": StopMeaning("cut", "The server's content filter cut off the answer."),
    "permission_denied": StopMeaning("denied", "The required calls were denied."),
    SUSPENDED: StopMeaning("denied", "The run is suspended until `QueryState.answer_permission` is called."),
    WAITING_TOOL: StopMeaning("denied", "The run is suspended until `QueryState.give_result` is called."),
    "cancelled": StopMeaning("cancelled", "The run was cancelled."),
    INVALID_OUTPUT: StopMeaning("failed", "No answer matched the output type; see `QueryState.failure`."),
    "error": StopMeaning("failed", "The run failed; see `QueryState.failure`."),
}
LIMITS = frozenset(reason for reason, (kind, _) in STOP_REASONS.items() if kind == "limit")
