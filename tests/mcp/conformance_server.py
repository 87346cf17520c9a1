"""Our server with tools of the names that the official MCP conformance suite calls. Run it with a port.

mcp-server.sh --full http://127.0.0.1:PORT/mcp
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from pure_agent_loop import Agent, File, Image, RunContext, tool
from pure_agent_loop.server import create_app
from pure_agent_loop.testing import ScriptedLLM

TOKEN = "conformance-suite-token"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010"
    "0c9fe92ef0000000049454e44ae426082"
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\0\0\0\0"


@tool(read_only=True)
def test_simple_text() -> str:
    """Text."""
    return "This is a simple text response for testing."


@tool(read_only=True)
def test_image_content() -> Image:
    """An image."""
    return Image(data=PNG)


@tool(read_only=True)
def test_audio_content() -> File:
    """A sound."""
    return File(data=WAV, media_type="audio/wav")


@tool(read_only=True)
def test_error_handling() -> str:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool(read_only=True)
async def test_tool_with_progress(ctx: RunContext) -> str:
    """Tells how far it is."""
    for each in ("0", "50", "100"):
        ctx.progress(each)
    return "done"


@tool(read_only=True)
async def test_elicitation(ctx: RunContext, message: str) -> str:
    """Asks the user."""
    return f"User response: {await ctx.ask(message)}"


TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
]


def suite_app() -> Any:
    """The application; what comes from the suite, which knows no tokens, is given the owner's."""
    agent = Agent(llm=ScriptedLLM(["done"], strict=False), tools=TOOLS)
    inner = create_app(agent, token=TOKEN, folder=tempfile.mkdtemp())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            header = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], header]}
        await inner(scope, receive, send)

    return app


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(suite_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
