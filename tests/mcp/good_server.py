"""An MCP server of the official SDK that has one of everything."""

from __future__ import annotations

import base64
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import Completion, ToolAnnotations
from pydantic import BaseModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
server = MCPServer("good")


class Weather(BaseModel):
    city: str
    degrees: int


class Wish(BaseModel):
    colour: str
    count: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def weather(city: str) -> Weather:
    """The weather of a city."""
    return Weather(city=city, degrees=8)


@server.tool()
def picture() -> list:
    """A picture."""
    return ["Here it is:", Image(data=PNG, format="png")]


@server.tool()
async def slow(ctx: Context) -> str:
    """Tells how far it is."""
    await ctx.report_progress(1, 2, "half way")
    return "done"


@server.tool()
async def wish(ctx: Context) -> str:
    """Asks what you wish."""
    found = await ctx.elicit("What do you wish?", Wish)
    return f"{found.action}: {getattr(found, 'data', None)}"


@server.tool()
async def think(ctx: Context) -> str:
    """Asks your model."""
    from mcp_types import SamplingMessage, TextContent

    message = SamplingMessage(role="user", content=TextContent(type="text", text="One word?"))
    found = await ctx.session.create_message([message], max_tokens=10)
    return f"The model said {found.content.text}"


@server.tool()
async def roots(ctx: Context) -> str:
    """The folders it may use."""
    return " ".join(str(each.uri) for each in (await ctx.session.list_roots()).roots)


@server.tool()
async def learn(ctx: Context, name: str) -> str:
    """Has one tool more from now on."""
    server.add_tool(lambda: name, name=name, description="Learned.")
    await ctx.session.send_tool_list_changed()
    return "learned"


@server.tool()
async def meta(ctx: Context) -> dict:
    """What came along with the request."""
    return dict(ctx.request_context.meta or {})


@server.completion()
async def complete(reference: object, argument: object, _: object) -> Completion:
    """Names that begin so."""
    return Completion(values=[each for each in ("Ann", "Anton", "Bea") if each.startswith(argument.value)])


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"Note {name}."


@server.resource("logo://png", mime_type="image/png")
def logo() -> bytes:
    """The logo."""
    return PNG


@server.prompt()
def greet(who: str) -> str:
    """Greets somebody."""
    return f"Greet {who} kindly."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import uvicorn

        app = server.sse_app() if sys.argv[2:] == ["sse"] else server.streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
    else:
        server.run()
