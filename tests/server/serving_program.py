"""A server with agents for tests, as a process of its own: killed, and started again, it is what users have.

python serving_program.py '{"folder": ..., "model": URL, ...}' prints the port.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from pure_agent_loop import Agent, File, LoopLimits, PermissionRules, Price, RunContext, Tool, tool
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.schema.outcome import CommandEnd, ToolOutcome
from pure_agent_loop.server import Person, create_app
from pure_agent_loop.server.people import hash_of
from pure_agent_loop.server.serving import Serving, bind_socket, uvicorn_config
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.toolbox import TodoList

given = json.loads(sys.argv[1])
folder = Path(given["folder"])


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    with (folder / "effects").open("a") as file:
        file.write(f"add {a} {b}\n")
    return a + b


@tool
async def hold(name: str) -> str:
    """Wait until a file is there."""
    with (folder / "effects").open("a") as file:
        file.write(f"hold {name}\n")
    while not (folder / name).exists():
        await asyncio.sleep(0.02)
    return f"{name} is there"


@tool
def danger(what: str) -> str:
    """Do something that a person has to allow."""
    with (folder / "effects").open("a") as file:
        file.write(f"danger {what}\n")
    return f"did {what}"


@tool
def shell(command: str) -> str | ToolOutcome:
    """Stand where a shell would, and do nothing."""
    if command == "make":
        end = CommandEnd(exit_code=2, seconds=0.1, lines=2, tail="one\ntwo", read_only=False)
        return ToolOutcome("one\ntwo\n[exit code 2]", command=end)
    return f"not done: {command}"


def edit_file(path: str, old_text: str, new_text: str) -> str:
    """Edit a file of the workspace; without it, stand where an edit would, and do nothing."""
    file = folder / "work" / path
    if file.is_file():
        file.write_text(file.read_text().replace(old_text, new_text))
        return f"Edited {path}"
    return f"not done: {path} {len(old_text)} {len(new_text)}"


def cannot_work(args: dict[str, str]) -> str | None:
    return "The text is not there." if args["old_text"] == "gone" else None


@tool
async def count(ctx: RunContext[None], name: str) -> str:
    """Say three lines, then wait until a file is there."""
    for line in ("one", "two", "three"):
        ctx.progress(f"{line}\n")
    while not (folder / name).exists():
        await asyncio.sleep(0.02)
    return "counted"


@tool
async def wonder(ctx: RunContext[None], about: str) -> str:
    """Ask the person."""
    return f"the person says: {await ctx.ask(about)}"


@tool
def put(text: str) -> str:
    """Write a file of the workspace."""
    (folder / "work" / "file").write_text(text)
    return "written"


@tool
def draw(kind: str) -> list[object]:
    """Draw something."""
    data = (folder / kind).read_bytes()
    return ["Drawn.", File(data=data, media_type="application/octet-stream", name=kind)]


@tool(asks="Refund {amount} for {order}?", running="Refunding {order}…")
async def refund(order: str, amount: float) -> str:
    """Give money back."""
    while not (folder / order).exists():
        await asyncio.sleep(0.02)
    return f"refunded {amount}"


elsewhere = Tool(
    None,
    name="elsewhere",
    description="Is done by the program that asks.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}},
    external=True,
)
(folder / "work").mkdir(exist_ok=True)
edits = Tool(edit_file, root=str(folder / "work"), check=cannot_work)
money = {"prices": {"*": Price(1000, 1000)}, **given["money"]} if "money" in given else {}


SCOUT = AgentDefinition("scout", "Looks around.", "You look around.", ["add", "hold", "danger"])


def agent(**more: Any) -> Agent:
    return Agent(
        "scripted",
        "k",
        given["model"],
        tools=[
            add,
            hold,
            danger,
            shell,
            edits,
            count,
            wonder,
            put,
            draw,
            refund,
            elsewhere,
            *TodoList().tools(),
        ],
        emit_reasoning_events=True,
        snapshots=WorkspaceSnapshots(folder / "work", store=folder / "snapshots"),
        audit=AuditLog(folder / "audit"),
        system_prompt="SECRET-PROMPT",
        permission_mode=given.get("mode", "auto"),
        permission_rules=PermissionRules(
            ask=[] if "mode" in given else ["danger", "shell", "edit_file", "refund"]
        ),
        limits=LoopLimits(**money),
        **({"subagents": SubagentManager([SCOUT])} if given.get("subagents") else {}),
        **more,
    )


people = [
    Person(name, frozenset(roles), hash_of(f"{name}-token-0123456789"))
    for name, roles in given["people"].items()
]
limits = given["limits"]
app = create_app(
    {given.get("name", "helper"): agent(), "other": agent(starters=["Sort the mail"])},
    given.get("token", "owner-token-0123456789"),
    users=given.get("users", people),
    user_header="X-User",
    sessions=None if given.get("database") else folder / "sessions",
    database=given.get("database"),
    folder=folder / "server",
    executes=given.get("executes", True),
    **limits,
)
sockets = bind_socket("127.0.0.1", given.get("port", 0))
settings = Settings(**limits)


def inside(app: Starlette, place: str, *, is_entered: bool) -> Starlette:
    @contextlib.asynccontextmanager
    async def begun(_: Starlette) -> AsyncIterator[None]:
        async with app.router.lifespan_context(app) if is_entered else contextlib.nullcontext():
            ready()
            yield

    return Starlette(routes=[Mount(place, app=app)], lifespan=begun)


def ready() -> None:
    print(sockets.getsockname()[1], flush=True)


if given.get("mount"):  # inside of another application, which tells it of no beginning
    asyncio.run(
        uvicorn.Server(
            uvicorn.Config(
                inside(app, given["mount"], is_entered=given.get("is_entered", False)), log_level="warning"
            )
        ).serve([sockets])
    )
else:
    config = uvicorn_config(app, settings, "127.0.0.1", 0, head_seconds=given.get("head_seconds", 15.0))
    Serving(config, settings.grace, ready).run([sockets])
