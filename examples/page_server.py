"""A page and an interface for programs, around any agent. Needs the extra [server].

uvicorn page_server:app     then open http://127.0.0.1:8000/#token=... with the token below
"""

import asyncio
import json
import os

import httpx2

from pure_agent_loop import Agent, tool
from pure_agent_loop.server import create_app

TOKEN = os.environ.get("PAL_SERVER_TOKEN", "only-for-this-example")


@tool(read_only=True)
def in_stock(article: str) -> int:
    """Count the pieces of an article in stock."""
    return {"lamp": 12, "chair": 3}.get(article, 0)


app = create_app({"shop": Agent(tools=[in_stock])}, TOKEN, starters=["How many lamps are in stock?"])


async def main() -> None:
    """Do what a program does that talks to it, without a network."""
    transport, headers = httpx2.ASGITransport(app), {"Authorization": f"Bearer {TOKEN}"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client,
    ):
        print("page:", (await client.get("/")).headers["content-type"])
        run = (await client.post("/api/runs", json={"text": "How many lamps?"})).json()
        # The run belongs to no connection: it goes on whether or not anybody reads its events.
        async for line in (await client.get(f"/api/runs/{run['id']}/events")).aiter_lines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                if event.get("type") in ("run_start", "action", "thought", "run_end"):
                    print(event["number"], event["type"], event["data"].get("content") or "")


if __name__ == "__main__":
    asyncio.run(main())

# Output:
# page: text/html; charset=utf-8
# 1 run_start
# 8 action
# 20 thought There are 12 lamps.
# 23 run_end
