"""An agent that others call through A2A (Agent2Agent 1.0, JSON-RPC), on the server's own interface.

Each task is a run of the server: it belongs to no connection, is kept, and can be stopped. The token of the
server is asked for as ever; only the card is open to all. Serve it with ``uvicorn examples.a2a.app:app``.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from pure_agent_loop import Agent
from pure_agent_loop.server import create_app

TOKEN = "of-an-example-only-0000"  # yours comes from the environment
STATES = {"pending": "SUBMITTED", "running": "WORKING", "waiting_permission": "INPUT_REQUIRED"}
STATES |= {"completed": "COMPLETED", "cancelled": "CANCELED", "killed": "CANCELED"}
NO_METHOD, WRONG, NO_TASK, NOT_ALLOWED = -32601, -32602, -32001, -32000
inner = create_app(Agent(name="helper", system_prompt="Answer in one sentence."), TOKEN)


async def card(request: Request) -> JSONResponse:
    """What others may know of the agent."""
    way = {"url": f"{request.base_url}a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    skill = {"id": "help", "name": "Help", "description": "Answers questions.", "tags": ["questions"]}
    modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
    scheme = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    about: dict[str, Any] = {
        "name": "helper",
        "description": "Helps.",
        "version": "1",
        "skills": [skill],
        **modes,
    }
    about |= {"supportedInterfaces": [way], "capabilities": {}, "securitySchemes": scheme}
    return JSONResponse(about)


async def rpc(request: Request) -> JSONResponse:
    """One call of the protocol, as calls of the server's interface, by whoever asks."""
    asked = await request.json()
    who = {"authorization": request.headers.get("authorization", "")}
    inside = httpx2.ASGITransport(inner)
    async with httpx2.AsyncClient(transport=inside, base_url="http://localhost", headers=who) as server:
        try:
            result = await METHODS[asked["method"]](server, asked.get("params") or {})
        except (KeyError, TypeError) as error:
            code = NO_METHOD if asked.get("method") not in METHODS else WRONG
            return JSONResponse(failed(asked, code, f"{error} is missing, or not known here"))
        except httpx2.HTTPStatusError as error:
            code = NO_TASK if error.response.status_code == 404 else NOT_ALLOWED
            return JSONResponse(failed(asked, code, error.response.text))
    return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})


def failed(asked: Mapping[str, Any], code: int, why: str) -> dict[str, Any]:
    """An answer that is an error."""
    return {"jsonrpc": "2.0", "id": asked.get("id"), "error": {"code": code, "message": why}}


async def send(server: httpx2.AsyncClient, params: Mapping[str, Any]) -> dict[str, Any]:
    """A message begins a run in the session that is its context."""
    message = params["message"]
    text = "\n".join(part["text"] for part in message["parts"])
    body = {"text": text, **({"session": message["contextId"]} if message.get("contextId") else {})}
    key = {"idempotency-key": message["messageId"]}  # sent twice, it is one task
    run = (await server.post("/api/runs", json=body, headers=key)).raise_for_status().json()
    if (params.get("configuration") or {}).get("returnImmediately"):
        return {"task": task(run)}
    while run["state"] in ("pending", "running"):
        await asyncio.sleep(0.05)
        run = (await server.get(f"/api/runs/{run['id']}")).raise_for_status().json()
    return {"task": task(run)}


async def get(server: httpx2.AsyncClient, params: Mapping[str, Any]) -> dict[str, Any]:
    """A task, as it stands."""
    return task((await server.get(f"/api/runs/{params['id']}")).raise_for_status().json())


async def cancel(server: httpx2.AsyncClient, params: Mapping[str, Any]) -> dict[str, Any]:
    """Stop one."""
    (await server.post(f"/api/runs/{params['id']}/stop", json={})).raise_for_status()
    return await get(server, params)


def task(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run, as the protocol has it."""
    said = [{"artifactId": "answer", "parts": [{"text": run["content"]}]}] if run["content"] else []
    about = {"id": run["id"], "contextId": run["session"], "artifacts": said}
    return {**about, "status": {"state": f"TASK_STATE_{STATES.get(run['state'], 'FAILED')}"}}


METHODS = {"SendMessage": send, "GetTask": get, "CancelTask": cancel}
known, called = Route("/.well-known/agent-card.json", card), Route("/a2a", rpc, methods=["POST"])
routes = [known, called, Mount("/", inner)]
app = Starlette(routes=routes, lifespan=lambda _: inner.router.lifespan_context(inner))


async def main() -> None:
    """Ask it as another agent would."""
    transport, who = httpx2.ASGITransport(app), {"authorization": f"Bearer {TOKEN}"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=who) as client,
    ):
        found = (await client.get("/.well-known/agent-card.json")).json()
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "What is A2A?"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        told = (await client.post(found["supportedInterfaces"][0]["url"], json=call)).json()["result"]["task"]
        print(told["status"]["state"], told["artifacts"][0]["parts"][0]["text"])


if __name__ == "__main__":
    asyncio.run(main())

# Output:
# TASK_STATE_COMPLETED A protocol by which agents give tasks to each other.
