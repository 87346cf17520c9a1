"""Our server with tools of the names that the official MCP conformance suite calls. Run it with a port.

mcp-server.sh --full http://127.0.0.1:PORT/mcp
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any, Literal

from pure_agent_loop import Agent, File, Image, RunContext, tool
from pure_agent_loop.mcp import Published, ask_form
from pure_agent_loop.server import create_app
from pure_agent_loop.testing import ScriptedLLM

TOKEN = "conformance-suite-token"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010"
    "0c9fe92ef0000000049454e44ae426082"
)
PDF = b"%PDF-1.4\n%%EOF\n"
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
def test_embedded_resource() -> File:
    """A document."""
    return File(data=PDF, media_type="application/pdf", name="embedded.pdf")


@tool(read_only=True)
def test_multiple_content_types() -> list[Any]:
    """A text, an image and a document."""
    return ["Multiple content types test:", Image(data=PNG), test_embedded_resource()]


@tool(read_only=True)
def test_tool_with_logging(ctx: RunContext) -> str:
    """Tells what it does."""
    for each in ("started", "processing data", "completed"):
        ctx.progress(f"Tool execution {each}")
    return "done"


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


@tool(read_only=True)
async def test_elicitation_sep1034_defaults(ctx: RunContext) -> str:
    """Asks for values that have defaults."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await ask_form(ctx, 'Who are you?', fields)}"


@tool(read_only=True)
async def test_elicitation_sep1330_enums(ctx: RunContext) -> str:
    """Asks for choices, in each form they have."""
    names = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": names},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option 1", "Option 2"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": names}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await ask_form(ctx, 'What do you choose?', fields)}"


TOOLS = [
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
]


def test_simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: Literal["test", "testValue1"], arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: {arg1=}, {arg2=}"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the suite calls it so
    """A prompt with a document."""
    text = f"Embedded content of {resourceUri}".encode()
    return [File(data=text, media_type="text/plain", name="embedded.txt"), "Please process it."]


def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [Image(data=PNG), "Please analyze the image above."]


def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


def static_binary() -> Image:
    """An image."""
    return Image(data=PNG)


def template_data(id: str) -> dict[str, Any]:  # noqa: A002 - the suite calls it so
    """What belongs to an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


PUBLISHED = Published(
    prompts=[
        test_simple_prompt,
        test_prompt_with_arguments,
        test_prompt_with_embedded_resource,
        test_prompt_with_image,
    ],
    resources={
        "test://static-text": static_text,
        "test://static-binary": static_binary,
        "test://template/{id}/data": template_data,
        "test://watched-resource": static_text,
    },
)


def suite_app() -> Any:
    """The application; what comes from the suite, which knows no tokens, is given the owner's."""
    agent = Agent(llm=ScriptedLLM(["done"], strict=False), tools=TOOLS)
    inner = create_app(agent, token=TOKEN, folder=tempfile.mkdtemp(), published=PUBLISHED)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            header = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], header]}
        await inner(scope, receive, send)

    return app


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(suite_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
