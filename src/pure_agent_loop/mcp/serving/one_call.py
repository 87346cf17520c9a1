"""One tool call as a run, with the usual gate, audit log, snapshots and redaction."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import ToolCall

PARTS = ("image_url", "file", "input_audio")


class OneCall:
    """Takes the place of the model in a run: makes the one call of an MCP client, then ends the run.

    Args:
        tool: The tool.
        args: The arguments of the call.
    """

    model = "mcp-client"

    def __init__(self, tool: str, args: dict[str, Any]) -> None:
        self._call = ToolCall("call_1", tool, args)
        self.parts: list[dict[str, Any]] = []  # images and files of the result

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **_: Any
    ) -> LLMResponse:
        """Return the call; after its result, the final response."""
        del tools
        if not any(entry["role"] == "tool" for entry in messages):
            return LLMResponse(None, [self._call], finish_reason="tool_calls")
        self.parts = [
            part
            for entry in messages
            if isinstance(entry.get("content"), list)
            for part in entry["content"]
            if part.get("type") in PARTS
        ]
        return LLMResponse(".", finish_reason="stop")
