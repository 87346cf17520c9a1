"""Tool modes for any chat model: native calls, JSON actions, ReAct text, and calls recovered from text."""
