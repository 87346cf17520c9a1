"""Responses of our clients as outcomes, which the conformance kit checks."""

from __future__ import annotations

from llm_client_conformance.quirks import Outcome, OutcomeCall
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import LLMResponse


def outcome_of(result: LLMResponse | LLMError) -> Outcome | LLMError:
    """The outcome of a response; an error is its own."""
    if isinstance(result, LLMError):
        return result
    calls = tuple(
        OutcomeCall(call.id, call.name, call.arguments if call.invalid is None else None)
        for call in result.tool_calls
    )
    return Outcome(result.content, result.reasoning_content, calls, result.finish_reason, result.usage)
