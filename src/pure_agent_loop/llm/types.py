"""The names a custom client needs, re-exported from `values` and `response`."""

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta

__all__ = ["Delta", "LLMResponse", "TokenUsage", "ToolCall", "ToolCallDelta"]
