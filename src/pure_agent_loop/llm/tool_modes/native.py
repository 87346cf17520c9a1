"""Native calls as they are, and calls that a model left in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pure_agent_loop.llm.response import CUT_OFF, FINISH_REASONS
from pure_agent_loop.llm.think import ThinkSplitter
from pure_agent_loop.llm.tool_modes.recover import TextCalls
from pure_agent_loop.llm.values import NOTHING, Delta, ToolCallDelta


def is_cut(delta: Delta) -> bool:
    """True if the answer ended at a limit."""
    if delta.finish_reason is None:
        return False
    reason = delta.finish_reason.lower()
    return FINISH_REASONS.get(reason, reason) in CUT_OFF


class NativeReader:
    """Native calls as they are; calls left in the text are recovered if there are no native ones."""

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._tools = tools
        self._think: ThinkSplitter | None = None  # like the scanner, not before there is text
        self._scanner: TextCalls | None = None
        self._saw_call = False
        self._is_cut = False

    def take(self, delta: Delta) -> Delta:
        """Take in a delta; return what of it can be shown."""
        self._is_cut = self._is_cut or is_cut(delta)
        begins_calls = bool(delta.tool_calls) and not self._saw_call
        self._saw_call = self._saw_call or begins_calls
        if self._think is None or self._scanner is None:
            if not delta.text:
                return delta
            self._think, self._scanner = ThinkSplitter(), TextCalls(self._tools)
        text, reasoning = self._think.feed(delta.text)
        if begins_calls:
            text = self._scanner.held + text
        shown = text if self._saw_call else self._scanner.feed(text)
        if shown is delta.text and not reasoning:
            return delta
        return delta._replace(text=shown, reasoning=delta.reasoning + reasoning)

    def finish(self) -> Delta:
        """What is left once no more comes: text, or calls that stood in it."""
        if self._think is None or self._scanner is None:
            return NOTHING
        text, reasoning = self._think.flush()
        if self._saw_call:
            return Delta(text, reasoning)
        shown = self._scanner.feed(text)
        calls, rest = self._scanner.finish(is_cut=self._is_cut, has_thought=self._think.has_opened)
        parts = tuple(ToolCallDelta(i, None, call.name, call.arguments) for i, call in enumerate(calls))
        return Delta(shown + rest, reasoning, parts)
