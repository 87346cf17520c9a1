"""What can be done to runs and sessions: the same by REST and over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.permissions import Permission
from pure_agent_loop.server import asking
from pure_agent_loop.server.api import models
from pure_agent_loop.server.hub import sealed_key
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem, not_found
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.server.service import Service, session_named
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.toolbox.shell.syntax import simple_commands

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer


def run_about(info: RunInfo, person: Person) -> models.Run:
    """A run as it is answered. What a failure says may name servers and files: it is for who operates."""
    error = info.error if person.may("operate") or not info.error else "The run failed."
    return models.Run.of(info, error=error, first_event=int(info.id.rpartition(":")[2]))


async def send(
    service: Service, person: Person, body: models.Message, key: str = ""
) -> tuple[models.Run, bool]:
    """Begin a run with a message; also say whether it is a new one."""
    sealed = sealed_key(person, key, body)
    if (before := service.hub.begun_with(sealed)) is not None:
        return run_about(before, person), False
    if body.session is not None:
        service.session_of(person, body.session)
        await check_exists(service, body.session)
    return await _begin(service, person, body, body.agent, body.session, sealed)


async def _begin(
    service: Service,
    person: Person,
    body: models.Message | models.Edit,
    agent: str | None,
    session: str | None,
    sealed: str,
) -> tuple[models.Run, bool]:
    text = await _with_servers(service, person, service.hub.agent_for(agent, session), body.text)
    if (before := service.hub.begun_with(sealed)) is not None:  # while servers were asked
        return run_about(before, person), False
    info = service.hub.start(person, text, agent, session, body.media, sealed, body.text)
    return run_about(info, person), True


async def _with_servers(service: Service, person: Person, agent: str, text: str) -> str:
    """A task with what it names of the agent's MCP servers, for who operates them."""
    servers = {each.name: each for each in servers_of(service.hub.agents[agent])}
    if not servers or not person.may("operate"):
        return text
    from pure_agent_loop.mcp.mentions import with_all

    try:
        return await with_all(servers, text, text)
    except ToolExecutionError as error:
        raise Problem(422, safe_str(error)) from error


def servers_of(agent: Agent) -> Sequence[MCPServer]:
    """The MCP servers of an agent."""
    if not agent.tools.toolsets:
        return []
    from pure_agent_loop.mcp import servers_in

    return servers_in(agent.tools.toolsets)


async def check_exists(service: Service, session: str) -> None:
    """Make sure that there is a session.

    Raises:
        Problem: There is none of that id.
    """
    if service.hub.of_session(session):
        return
    try:
        is_there = await asyncio.to_thread(service.hub.sessions.exists, session)
    except ConfigError:
        is_there = False
    if not is_there:
        raise not_found("session")


async def edit(
    service: Service, person: Person, session: str, body: models.Edit, key: str = ""
) -> tuple[models.Run, bool]:
    """Say something else behind a step, in a new session that begins as the old one did."""
    sealed, new = sealed_key(person, key, [session, body]), None
    if (before := service.hub.begun_with(sealed)) is not None:
        return run_about(before, person), False
    if body.step:
        new = (await fork(service, person, session, models.Fork(step=body.step))).session
    else:
        service.session_of(person, session)
    agent = body.agent or next((each.agent for each in reversed(service.hub.of_session(session))), None)
    return await _begin(service, person, body, agent, new, sealed)


async def fork(service: Service, person: Person, session: str, body: models.Fork) -> models.Forked:
    """Make a new session that begins as another one did."""
    service.session_of(person, session)
    new = person.new_session_id()
    try:
        await asyncio.to_thread(service.hub.sessions.fork, session, body.step, new)
    except ConfigError as error:
        raise Problem(409, safe_str(error)) from error
    return models.Forked(session=new)


async def answer(service: Service, person: Person, session: str, body: models.Verdict) -> models.Done:
    """Answer a question. Who may approve answers everybody's; what a tool wants to know, its own person."""
    live = service.hub.live(session)
    is_live = live is not None and body.call_id in live.asked
    if not (person.may("approve") or (is_live and person.owns(session))):
        raise Problem(403, "This needs the role 'approve'.") if person.owns(session) else not_found("session")
    session_named(session)
    said = Permission(body.verdict, body.message, always=body.always and body.verdict == "allow")
    run = await asking.answer(service.hub, session, body.call_id, said)
    return models.Done(run=run or None)


async def give_result(service: Service, person: Person, session: str, body: models.Result) -> models.Done:
    """Bring the result of a call that was made elsewhere."""
    service.session_of(person, session)
    run = await asking.give_result(service.hub, session, body.call_id, body.result, is_error=body.is_error)
    return models.Done(run=run or None)


async def steer(service: Service, person: Person, run_id: str, body: models.Steer) -> models.Done:
    """Say something to a run at work."""
    info = service.run_of(person, run_id)
    service.hub.steer(info, body.text, at_end=body.when == "end")
    return models.Done(run=info.id)


async def stop(service: Service, person: Person, run_id: str, body: models.Stop) -> models.Done:
    """Stop a run."""
    info = service.run_of(person, run_id)
    await service.hub.stop(info, body.reason)
    return models.Done(run=info.id)


async def undo(service: Service, person: Person, session: str, body: models.Undo) -> models.Undone:
    """Change files of the workspace back."""
    service.session_of(person, session)
    service.hub.check_free(session)
    for agent in service.hub.agents.values():
        snapshots = snapshots_of(agent)
        if snapshots is not None and session in await snapshots.sessions():
            choice = {"force": body.force, "dry_run": body.dry_run}
            try:
                if body.redo:
                    report = await snapshots.redo(session, **choice)
                else:
                    report = await snapshots.undo(session, to_step=body.step, **choice)
            except ConfigError as error:
                raise Problem(409, safe_str(error)) from error
            return models.Undone(
                session=session,
                steps=list(report.steps),
                restored=list(report.restored),
                removed=list(report.removed),
                conflicts=[{"path": each.path, "reason": each.reason} for each in report.conflicts],
                dry_run=report.is_dry,
            )
    raise Problem(409, "Nothing was changed in this session that could be undone.")


def snapshots_of(agent: Agent) -> Any:
    """What can undo the changes of an agent; None if nothing can."""
    found = agent._kit.observers.snapshots  # the two are one package
    return found if hasattr(found, "undo") else None


async def questions_of(service: Service, session: str) -> list[models.Question]:
    """What a session waits for."""
    live = service.hub.live(session)
    return [
        models.Question.of(
            each,
            session=session,
            commands=simple_commands(each.tool, each.args),
            live=live is not None and each.call_id in live.asked,
        )
        for each in await asking.questions(service.hub, session)
    ]
