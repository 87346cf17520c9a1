"""Operations on agents, tools, usage, subagent tasks and the login."""

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
from pure_agent_loop.server.api.actions import servers_of, snapshots_of
from pure_agent_loop.server.api.operation import ApiRequest, Operation, request_json, validated
from pure_agent_loop.server.people import COOKIE_SECONDS, ROLES, Person
from pure_agent_loop.server.problems import HttpProblem, language_of, not_found
from pure_agent_loop.support.language import notice, translated
from pure_agent_loop.tool import Tool

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer


async def _me(request: ApiRequest) -> models.SignedInUser:
    return _me_model(request.person, request)


def _me_model(person: Person, request: ApiRequest) -> models.SignedInUser:
    roles = [role for role in ROLES if person.may(role)]
    engine = request.service.engine is not None
    share = request.service.settings.share
    return models.SignedInUser(name=person.name, roles=roles, engine=engine, share=share, version=__version__)


async def signed_in(request: ApiRequest) -> Response:
    """Return the authenticated person; null if there is none, because browsers log a 401 as an error."""
    person: Person | None = request.person
    me = None if person is None else _me_model(person, request).model_dump(mode="json")
    return JSONResponse({"person": me})


async def login(request: ApiRequest) -> Response:
    """Exchange a token for a cookie. The page got the token from the URL fragment, which is never logged."""
    body = validated(models.Login, request_json(await request.http.body()), 422)
    person = request.service.people.by_token(body.token)
    if person is None:
        raise HttpProblem(
            401, notice("library.server_token"), {"WWW-Authenticate": 'Bearer realm="pure-agent-loop"'}
        )
    response = JSONResponse(_me_model(person, request).model_dump(mode="json"))
    response.set_cookie(
        request.service.people.cookie_name,
        request.service.people.cookie_for(person),
        max_age=COOKIE_SECONDS,
        secure="https" in (request.http.url.scheme, request.http.headers.get("origin", "")[:5]),
        httponly=True,
        samesite="strict",
    )
    return response


async def _logout(request: ApiRequest) -> Response:
    response = Response(status_code=204)
    people = request.service.people
    people.end_cookie(request.http.cookies.get(people.cookie_name, ""))
    response.delete_cookie(people.cookie_name, httponly=True, samesite="strict")
    return response


async def _agents(request: ApiRequest) -> models.Agents:
    language = language_of(request.http.headers.get("accept-language", ""))
    return models.Agents(
        agents=[
            models.AgentAbout(
                name=name,
                description=agent.description or "",
                model=(model := str(model_of(agent.llm) or "")),
                models=list(dict.fromkeys([model, *request.service.settings.models])),
                tools=[tool.name for tool in agent.tools],
                permission_mode=agent.config.permission_mode,
                can_undo=snapshots_of(agent) is not None,
                servers=[models.ServerAbout(**asdict(server.state)) for server in servers_of(agent)]
                if request.person.may("operate")
                else [],
                starters=[translated(task, language) for task in agent.starters],
            )
            for name, agent in request.service.hub.agents.items()
        ],
        starters=list(request.service.settings.starters),
    )


async def _agent(request: ApiRequest) -> models.AgentAbout:
    for agent in (await _agents(request)).agents:
        if agent.name == request.path["agent"]:
            return agent
    raise not_found("agent")


def _server(request: ApiRequest) -> MCPServer:
    agent = request.service.hub.agents.get(request.path["agent"])
    servers = (
        [server for server in servers_of(agent) if server.name == request.path["server"]] if agent else []
    )
    if not servers:
        raise not_found("server")
    return servers[0]


async def _look(request: ApiRequest) -> models.ServerCheck:
    server, start = _server(request), time.monotonic()
    resources: Sequence[tuple[str, str]] = []
    prompts: list[tuple[str, str]] = []
    with contextlib.suppress(ToolExecutionError):  # the server state returned below includes the error
        await server.look()
        if server.has_prompts:
            prompts = [
                (name, f"{' '.join(args).upper()} {text}".strip())
                for name, text, args in await server.prompts()
            ]
        resources = await server.resources()
    return models.ServerCheck(
        **asdict(server.state),
        seconds=time.monotonic() - start,
        resources=[models.Offered(name=uri, about=text) for uri, text in resources],
        prompts=[models.Offered(name=name, about=text) for name, text in prompts],
    )


async def _complete(request: ApiRequest) -> models.CompletionsBody:
    from pure_agent_loop.mcp.mentions import prompt_completions

    server, body = _server(request), request.body
    assert isinstance(body, models.PartialPrompt)
    return models.CompletionsBody(values=list(await prompt_completions(server, body.prompt, body.words)))


async def _tools(request: ApiRequest) -> models.Tools:
    tools: dict[str, tuple[Tool, list[str]]] = {}
    for name, agent in request.service.hub.agents.items():
        for tool in agent.tools:
            tools.setdefault(tool.name, (tool, []))[1].append(name)
    return models.Tools(
        tools=[
            models.ToolBody.of(
                tool, parameters=tool.to_openai_schema()["function"]["parameters"], agents=agents
            )
            for tool, agents in tools.values()
        ]
    )


async def _usage(request: ApiRequest) -> models.Usage:
    person, totals = request.person, request.service.hub.file.totals
    visible = {key: used for key, used in totals.items() if person.may("operate") or key[1] == person.name}
    return models.Usage(
        agents=_group_usage(visible, 0),
        people=_group_usage(visible, 1),
        tokens=sum(tokens for _, tokens, _ in visible.values()),
        cost=sum(cost for _, _, cost in visible.values()),
    )


def _group_usage(totals: Mapping[tuple[str, str], tuple[int, int, float]], index: int) -> list[models.Used]:
    groups: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for key, used in totals.items():
        groups[key[index]].append(used)
    sums = {
        name: [sum(column) for column in zip(*rows, strict=True)] for name, rows in sorted(groups.items())
    }
    return [
        models.Used(name=name, runs=int(runs), tokens=int(tokens), cost=cost)
        for name, (runs, tokens, cost) in sums.items()
    ]


async def _tasks(request: ApiRequest) -> models.Tasks:
    from pure_agent_loop.subagents.tasks import TaskStore

    store = TaskStore.beside(request.service.hub.sessions.store)
    is_full = request.service.settings.visibility_of(request.person).full
    return models.Tasks(
        tasks=[
            models.Task.of(
                task,
                session=task.parent,
                own_session=task.session_id,
                last_tool=task.last_tool if is_full else "",
            )
            for task in await asyncio.to_thread(store.list)
            # This includes nested tasks, because a subagent's session id begins with its parent's id.
            if request.person.owns(task.parent)
        ][: request.query.limit]
    )


OPERATIONS = [
    Operation("GET", "/api/me", "me", "Get the signed-in user and roles.", _me, models.SignedInUser, role=""),
    Operation("POST", "/api/logout", "logout", "Log out: end the cookie.", _logout, role="", status=204),
    Operation("GET", "/api/agents", "list_agents", "List the agents.", _agents, models.Agents),
    Operation("GET", "/api/agents/{agent}", "get_agent", "Get an agent.", _agent, models.AgentAbout,
              problems=(404,)),
    Operation("POST", "/api/agents/{agent}/servers/{server}/look", "look_at_server",
              "Connect to an agent's MCP server and list its resources and prompts.", _look,
              models.ServerCheck, role="operate", problems=(404,)),
    Operation("POST", "/api/agents/{agent}/servers/{server}/complete", "complete_prompt",
              "Complete a prompt argument of an MCP server.", _complete,
              models.CompletionsBody, role="operate", body=models.PartialPrompt, problems=(404,)),
    Operation("GET", "/api/tools", "list_tools", "List the tools of all agents.", _tools, models.Tools),
    Operation("GET", "/api/usage", "usage", "Get the usage of ended runs.", _usage, models.Usage),
    Operation("GET", "/api/tasks", "list_tasks", "List tasks of subagents, newest first.", _tasks,
              models.Tasks, query=models.PageQuery),
]  # fmt: skip
