"""What there is: agents, tools, people, what was used, tasks of subagents."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.actions import servers_of
from pure_agent_loop.server.api.operation import Asked, Operation, checked, read_json
from pure_agent_loop.server.people import COOKIE_SECONDS, ROLES, Person
from pure_agent_loop.server.problems import Problem, not_found
from pure_agent_loop.tool import Tool

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer


async def _me(asked: Asked) -> models.Me:
    return _about(asked.person, asked)


def _about(person: Person, asked: Asked) -> models.Me:
    roles = [each for each in ROLES if person.may(each)]
    engine = asked.service.engine is not None
    return models.Me(name=person.name, roles=roles, engine=engine, version=__version__)


async def login(asked: Asked) -> Response:
    """A cookie for a token. The token stood in the fragment of a link, which no server and no log sees."""
    body = checked(models.Login, read_json(await asked.request.body()), 422)
    person = asked.service.people.by_token(body.token)
    if person is None:
        raise Problem(401, "This token is nobody's.", {"WWW-Authenticate": 'Bearer realm="pure-agent-loop"'})
    response = JSONResponse(_about(person, asked).model_dump(mode="json"))
    response.set_cookie(
        asked.service.people.cookie_name,
        asked.service.people.cookie_for(person),
        max_age=COOKIE_SECONDS,
        secure="https" in (asked.request.url.scheme, asked.request.headers.get("origin", "")[:5]),
        httponly=True,
        samesite="strict",
    )
    return response


async def _logout(asked: Asked) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(asked.service.people.cookie_name, httponly=True, samesite="strict")
    return response


async def _agents(asked: Asked) -> models.Agents:
    return models.Agents(
        agents=[
            models.AgentAbout(
                name=name,
                description=agent.description or "",
                model=str(model_of(agent.llm) or ""),
                tools=[each.name for each in agent.tools],
                permission_mode=agent._kit.permissions.mode,  # the two are one package
                servers=[models.ServerAbout(**asdict(each.state)) for each in servers_of(agent)]
                if asked.person.may("operate")
                else [],
            )
            for name, agent in asked.service.hub.agents.items()
        ]
    )


async def _agent(asked: Asked) -> models.AgentAbout:
    for each in (await _agents(asked)).agents:
        if each.name == asked.path["agent"]:
            return each
    raise not_found("agent")


def _server(asked: Asked) -> MCPServer:
    agent = asked.service.hub.agents.get(asked.path["agent"])
    found = [each for each in servers_of(agent) if each.name == asked.path["server"]] if agent else []
    if not found:
        raise not_found("server")
    return found[0]


async def _look(asked: Asked) -> models.ServerLook:
    server, begun = _server(asked), time.monotonic()
    resources: Sequence[tuple[str, str]] = []
    prompts: list[tuple[str, str]] = []
    with contextlib.suppress(ToolExecutionError):  # its state says what is wrong
        await server.look()
        if server.has_prompts:
            about = await server.prompts()
            prompts = [(name, f"{' '.join(args).upper()} {text}".strip()) for name, text, args in about]
        resources = await server.resources()
    return models.ServerLook(
        **asdict(server.state),
        seconds=time.monotonic() - begun,
        resources=[models.Offered(name=uri, about=text) for uri, text in resources],
        prompts=[models.Offered(name=name, about=text) for name, text in prompts],
    )


async def _complete(asked: Asked) -> models.Completions:
    from pure_agent_loop.mcp.mentions import endings

    server, body = _server(asked), asked.body
    assert isinstance(body, models.Begun)
    return models.Completions(values=list(await endings(server, body.prompt, body.words)))


async def _tools(asked: Asked) -> models.Tools:
    found: dict[str, tuple[Tool, list[str]]] = {}
    for name, agent in asked.service.hub.agents.items():
        for tool in agent.tools:
            found.setdefault(tool.name, (tool, []))[1].append(name)
    return models.Tools(
        tools=[
            models.ToolAbout.of(
                tool, parameters=tool.to_openai_schema()["function"]["parameters"], agents=agents
            )
            for tool, agents in found.values()
        ]
    )


async def _usage(asked: Asked) -> models.Usage:
    person, sums = asked.person, asked.service.hub.sums
    mine = {name: used for name, used in sums.items() if person.may("operate") or name[1] == person.name}
    return models.Usage(
        agents=_by(mine, 0),
        people=_by(mine, 1),
        tokens=sum(tokens for _, tokens, _ in mine.values()),
        cost=sum(cost for _, _, cost in mine.values()),
    )


def _by(sums: Mapping[tuple[str, str], tuple[int, int, float]], part: int) -> list[models.Used]:
    found: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for names, used in sums.items():
        found[names[part]].append(used)
    totals = {name: [sum(each) for each in zip(*some, strict=True)] for name, some in sorted(found.items())}
    return [
        models.Used(name=name, runs=int(runs), tokens=int(tokens), cost=cost)
        for name, (runs, tokens, cost) in totals.items()
    ]


async def _tasks(asked: Asked) -> models.Tasks:
    from pure_agent_loop.subagents.tasks import TaskStore

    found = await asyncio.to_thread(TaskStore().list)
    sight = asked.service.settings.sight_of(asked.person)
    mine: set[str] = set()  # sessions of subagents, whose own subagents belong to the same person
    for each in sorted(found, key=lambda each: each.created):
        if each.session_id and (asked.person.owns(each.parent) or each.parent in mine):
            mine.add(each.session_id)
    return models.Tasks(
        tasks=[
            models.Task.of(
                each,
                session=each.parent,
                own_session=each.session_id,
                last_tool=each.last_tool if sight.full else "",
            )
            for each in found
            if asked.person.owns(each.parent) or each.parent in mine
        ][: asked.query.limit]
    )


OPERATIONS = [
    Operation("GET", "/api/me", "me", "Who asks, and what this person may.", _me, models.Me, role=""),
    Operation("POST", "/api/logout", "logout", "Forget the cookie.", _logout, role="", status=204),
    Operation("GET", "/api/agents", "list_agents", "The agents.", _agents, models.Agents),
    Operation("GET", "/api/agents/{agent}", "get_agent", "An agent.", _agent, models.AgentAbout,
              problems=(404,)),
    Operation("POST", "/api/agents/{agent}/servers/{server}/look", "look_at_server",
              "Start an MCP server of an agent if need be, and say what it offers.", _look,
              models.ServerLook, role="operate", problems=(404,)),
    Operation("POST", "/api/agents/{agent}/servers/{server}/complete", "complete_prompt",
              "What an argument of a prompt of an MCP server may go on to.", _complete,
              models.Completions, role="operate", body=models.Begun, problems=(404,)),
    Operation("GET", "/api/tools", "list_tools", "The tools of all agents.", _tools, models.Tools),
    Operation("GET", "/api/usage", "usage", "What the runs that have ended used.", _usage, models.Usage),
    Operation("GET", "/api/tasks", "list_tasks", "Tasks of subagents, the newest first.", _tasks,
              models.Tasks, query=models.Page),
]  # fmt: skip
