"""Any chat model can act: native calls, JSON actions, ReAct text, and calls recovered from text."""
