"""An agent as a model, for clients of chat completions and of AG-UI. Needs the extra [server].

uvicorn chat_endpoint:app     then base_url="http://127.0.0.1:8000/v1", and the token below as the key
"""

import asyncio
import json
import os

import httpx2
from openai import AsyncOpenAI

from pure_agent_loop import Agent, tool
from pure_agent_loop.server import create_app

TOKEN = os.environ.get("PAL_SERVER_TOKEN", "only-for-this-example")


@tool(read_only=True)
def in_stock(article: str) -> int:
    """Count the pieces of an article in stock."""
    return {"lamp": 12, "chair": 3}.get(article, 0)


app = create_app({"shop": Agent(tools=[in_stock])}, TOKEN)
QUESTION = {"id": "1", "role": "user", "content": "How many lamps?"}
AGUI = {"threadId": "t", "runId": "r", "messages": [QUESTION], "tools": [], "context": [], "state": {}}


async def main() -> None:
    """Ask it over both protocols, without a network."""
    web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")
    async with app.router.lifespan_context(app), web:
        client = AsyncOpenAI(base_url="http://localhost/v1", api_key=TOKEN, http_client=web)
        done = await client.chat.completions.create(
            model="shop", messages=[{"role": "user", "content": "How many lamps are in stock?"}]
        )
        print("chat completions:", done.choices[0].message.content)

        headers = {"Authorization": f"Bearer {TOKEN}"}
        stream = await web.post("/agui", json={**AGUI, "forwardedProps": {}}, headers=headers)
        for line in stream.text.splitlines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                print("AG-UI:", event["type"], event.get("delta") or event.get("toolCallName") or "")


if __name__ == "__main__":
    asyncio.run(main())

# Output:
# chat completions: There are 12 lamps.
# AG-UI: RUN_STARTED
# AG-UI: TOOL_CALL_START in_stock
# AG-UI: TOOL_CALL_ARGS {"article": "lamp"}
# AG-UI: TOOL_CALL_END
# AG-UI: TOOL_CALL_RESULT
# AG-UI: TEXT_MESSAGE_START
# AG-UI: TEXT_MESSAGE_CONTENT There
# AG-UI: TEXT_MESSAGE_CONTENT are
# AG-UI: TEXT_MESSAGE_CONTENT 12
# AG-UI: TEXT_MESSAGE_CONTENT lamps.
# AG-UI: TEXT_MESSAGE_END
# AG-UI: RUN_FINISHED
