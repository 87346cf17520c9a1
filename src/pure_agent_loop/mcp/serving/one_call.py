"""One call of a tool as a run: with the gate, the audit log, the snapshots and the redaction of any other."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import ToolCall

PARTS = ("image_url", "file", "input_audio")


class OneCall:
    """A model that makes one call and then says nothing: it stands for a client of ours.

    Args:
        tool: The tool.
        args: Its arguments.
    """

    model = "mcp-client"

    def __init__(self, tool: str, args: dict[str, Any]) -> None:
        self._call = ToolCall("call_1", tool, args)
        self.parts: list[dict[str, Any]] = []  # images and files of the result

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **_: Any
    ) -> LLMResponse:
        """The call; and once its result is there, the end."""
        del tools
        if not any(each["role"] == "tool" for each in messages):
            return LLMResponse(None, [self._call], finish_reason="tool_calls")
        self.parts = [
            part
            for each in messages
            if isinstance(each.get("content"), list)
            for part in each["content"]
            if part.get("type") in PARTS
        ]
        return LLMResponse(".", finish_reason="stop")
