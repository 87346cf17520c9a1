"""A support desk: customers write, an agent answers, and a person approves each refund.

uvicorn examples.support_desk.app:app      from a clone; needs the extra [server]

Three ways to approve, of which the first one counts:
1. /staff#token=...       a page of your own, see staff.html
2. /agents/#token=...     the page that comes with the server
3. `pal sessions waiting`, `pal sessions answer SESSION CALL allow`      at a terminal, on the same machine
"""

import os
from pathlib import Path

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route

from pure_agent_loop import Agent, PermissionRules, tool
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.server import create_app

HERE = Path(__file__).parent
TOKEN = os.environ.get("DESK_TOKEN", "only-for-this-example")
PAGES = {"/": "customer.html", "/staff": "staff.html", "/style.css": "style.css"}
ORDERS = {7: "a lamp, 30.00, delivered on Monday", 8: "a chair, 90.00, on its way"}


@tool(read_only=True)
def look_up_order(number: int) -> str:
    """Look up an order by its number."""
    return ORDERS.get(number, "There is no such order.")


@tool
def refund(order: int, amount: float) -> str:
    """Give money back for an order."""
    with Path("refunds.txt").open("a") as file:  # in the place of your bank
        file.write(f"order {order}: {amount:.2f}\n")
    return f"refunded {amount:.2f} for order {order}"


agent = Agent(
    system_prompt="You answer customers of a furniture shop. Look an order up before you refund it.",
    tools=[look_up_order, refund],
    permission_rules=PermissionRules(ask=["refund"]),
    audit=AuditLog("audit"),
)
agents = create_app({"desk": agent}, TOKEN)  # runs belong to no connection, and survive a restart


def server() -> httpx2.AsyncClient:
    """Make a client of the mounted application: this program is the only one that has the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx2.ASGITransport(agents)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


async def write(request: Request) -> JSONResponse:
    """Begin a ticket. The same message, sent twice with one key, is one ticket."""
    message = await request.json()
    async with server() as client:
        key = {"Idempotency-Key": message["key"]}
        run = (await client.post("/api/runs", json={"text": message["text"]}, headers=key)).raise_for_status()
    return JSONResponse({"ticket": run.json()["session"]})


async def read(request: Request) -> JSONResponse:
    """Return what the customer may know of a ticket: its state and its answer."""
    async with server() as client:
        found = await client.get("/api/runs", params={"session": request.path_params["ticket"], "limit": 1})
        runs = found.raise_for_status().json()["runs"]
    if not runs:
        return JSONResponse({"state": "unknown"}, 404)
    run = runs[0]
    return JSONResponse({"text": run["task"], "state": run["state"], "answer": run["content"]})


async def page(request: Request) -> FileResponse:
    return FileResponse(HERE / PAGES[request.url.path])


app = Starlette(
    routes=[
        *(Route(path, page) for path in PAGES),
        Route("/tickets", write, methods=["POST"]),
        Route("/tickets/{ticket}", read),
        Mount("/agents", agents),
    ],
    lifespan=lambda _: agents.router.lifespan_context(agents),
)
