"""Actions on runs and sessions, shared by REST and WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, PureAgentLoopError, ToolExecutionError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.permissions import Permission, PermissionRequest, wider_rules
from pure_agent_loop.server import asking
from pure_agent_loop.server.api import models
from pure_agent_loop.server.hub import WAITS, Hub, hash_key
from pure_agent_loop.server.labels import VERSION
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import HttpProblem, not_found
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.server.service import Service, session_named
from pure_agent_loop.sessions.fork import end_of_step
from pure_agent_loop.sessions.story import read_story, without_files
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import notice
from pure_agent_loop.toolbox import Workspace, WorkspaceError
from pure_agent_loop.toolbox.shell.syntax import simple_commands

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer
    from pure_agent_loop.snapshots import UndoReport

TITLE = 200  # characters
MAX_READ = 300_000  # maximum bytes of a file to search for the passage that an edit replaces
_FORK = re.compile(r" \(fork(?: \d+)?\)$")
NOTHING_TO_UNDO = "urn:pure-agent-loop:nothing-to-undo"  # a problem type


def run_model(info: RunInfo, person: Person) -> models.RunBody:
    """Convert a run for a response. Errors may name servers and files, so only operators see them."""
    error = info.error if person.may("operate") or not info.error else "The run failed."
    return models.RunBody.of(info, error=error, first_event=int(info.id.rpartition(":")[2]))


async def send(
    service: Service, person: Person, body: models.Message, key: str = ""
) -> tuple[models.RunBody, bool]:
    """Start a run, or find the earlier run with the same idempotency key; return it and whether it is new."""
    key_hash = hash_key(person, key, body)
    if (existing := service.hub.find_by_key(key_hash)) is not None:
        return run_model(existing, person), False
    if body.session is not None:
        service.session_of(person, body.session)
        await check_exists(service, body.session)
        await _check_nothing_pending(service, body.session)
    return await _start(service, person, body, body.agent, body.session, key_hash)


async def _start(
    service: Service,
    person: Person,
    body: models.Message | models.Edit,
    agent: str | None,
    session: str | None,
    key_hash: str,
) -> tuple[models.RunBody, bool]:
    text = await _with_mentions(service, person, service.hub.agent_for(agent, session), body.text)
    # A concurrent request with this key has already started the run.
    if (existing := service.hub.find_by_key(key_hash)) is not None:
        return run_model(existing, person), False
    model = _chosen_model(service, service.hub.agent_for(agent, session), body.model)
    await service.hub.wait_stopped(session)
    async with service.hub.turn(session or ""):
        info = service.hub.start(person, text, agent, session, body.media, key_hash, body.text, model)
    return run_model(info, person), True


def _chosen_model(service: Service, agent: str, model: str | None) -> str:
    """Return the model for a run; empty for the agent's own.

    Raises:
        HttpProblem: The model is not in the list of models to choose from.
    """
    own, allowed = model_of(service.hub.agents[agent].llm), service.settings.models
    if model in (None, own):
        return ""
    if model not in allowed:
        choice = ", ".join(filter(None, [own, *allowed]))
        raise HttpProblem(404, notice("library.server_model", model=model, choice=choice))
    return model


async def _check_nothing_pending(service: Service, session: str) -> None:
    """Reject a message to a session that another program has suspended.

    For a session with runs of this server, the hub makes this check.
    """
    if not service.hub.of_session(session):
        sessions = service.hub.sessions
        questions = await asyncio.to_thread(sessions.questions, session)
        calls = await asyncio.to_thread(sessions.open_calls, session)
        if questions or calls:
            raise HttpProblem(409, notice("library.server_session_suspended"), type=WAITS)


async def _with_mentions(service: Service, person: Person, agent: str, text: str) -> str:
    """Expand mentions of MCP prompts and resources in a task; only for operators."""
    servers = {server.name: server for server in servers_of(service.hub.agents[agent])}
    if not servers or not person.may("operate"):
        return text
    from pure_agent_loop.mcp.mentions import expand_mentions

    try:
        return await expand_mentions(servers, text, text)
    except ToolExecutionError as error:
        raise HttpProblem(422, error) from error


def servers_of(agent: Agent) -> Sequence[MCPServer]:
    """Return the MCP servers of an agent."""
    if not agent.tools.toolsets:
        return []
    from pure_agent_loop.mcp import servers_in

    return servers_in(agent.tools.toolsets)


async def check_exists(service: Service, session: str) -> None:
    """Check that a session exists.

    Raises:
        HttpProblem: The session does not exist.
    """
    if service.hub.of_session(session):
        return
    try:
        exists = await asyncio.to_thread(service.hub.sessions.exists, session)
    except ConfigError:
        exists = False
    if not exists:
        raise not_found("session")


async def edit(
    service: Service, person: Person, session: str, body: models.Edit, key: str = ""
) -> tuple[models.RunBody, bool]:
    """Start a run with a different message after a step, in a copy that becomes a version of the session."""
    key_hash = hash_key(person, key, [session, body])
    if (existing := service.hub.find_by_key(key_hash)) is not None:
        return run_model(existing, person), False
    service.session_of(person, session)
    new = person.new_session_id()
    if body.step:
        await _copy(service, session, body.step, new)
    agent = body.agent or next((run.agent for run in reversed(service.hub.of_session(session))), None)
    run, is_new = await _start(service, person, body, agent, new, key_hash)
    if is_new:
        file = service.hub.file
        file.label(VERSION, new, f"{body.step} {session}")
        for kind in ("title", "folder", "pin"):
            file.label(kind, new, file.labels[kind].get(session, ""))
        if body.step and (title := await asyncio.to_thread(title_of, service, session)):
            file.label("title", new, title)
    return run, is_new


def title_of(service: Service, session: str) -> str:
    """Return the title of a session: the name that a person gave it, or its first task."""
    named, runs = service.hub.file.labels["title"].get(session), service.hub.of_session(session)
    title = (
        named or service.titles.get(session) or (_task_title(runs[0].shown or runs[0].task) if runs else "")
    )
    if not title:
        store = service.hub.sessions.store
        first = getattr(store, "first", lambda _: None)(session)  # reads only the first record
        title = _task_title(str(first.data.get("task") or "")) if first is not None else ""
        if not title:
            with contextlib.suppress(PureAgentLoopError, LookupError):
                title = read_story(store.read(session).records).title
        service.titles[session] = title
    return title[:TITLE]


async def _copy(service: Service, session: str, step: int | None, new: str) -> None:
    try:
        async with service.hub.turn(session):  # prevents answers from being recorded during the copy
            await asyncio.to_thread(service.hub.sessions.fork, session, step, new)
    except ConfigError as error:
        raise HttpProblem(409, error) from error


def _task_title(task: str) -> str:
    return without_files(task)[0] or task


async def fork(service: Service, person: Person, session: str, body: models.Fork) -> models.Forked:
    """Copy a session, up to a step if given."""
    service.session_of(person, session)
    new, snapshots, files = person.new_session_id(), None, None
    if body.files:
        if body.step is None:
            raise HttpProblem(422, notice("library.server_files_of_step"))
        if not any(snapshots_of(agent) for agent in service.hub.agents.values()):
            raise HttpProblem(409, notice("library.server_no_snapshots"))
        moment = await end_of(service, session, body.step)
        await service.hub.wait_stopped(session)
        service.hub.check_free(session)
        snapshots = await snapshots_with(service, session)
    await _copy(service, session, body.step, new)
    if snapshots is not None:
        files = _undo_body(await snapshots.undo(session, since=moment))
    if title := await asyncio.to_thread(title_of, service, session):
        service.hub.file.label("title", new, _fork_title(service, person, title))
    await _wait_on(service.hub, person, session, new)
    return models.Forked(session=new, files=files)


async def _wait_on(hub: Hub, person: Person, session: str, new: str) -> None:
    """If the session is waiting for answers, make its fork wait for answers of its own."""
    waiting = next((run for run in reversed(hub.of_session(session)) if run.state in WAITING), None)
    if waiting is None or waiting.agent not in hub.agents:
        return
    questions = await asyncio.to_thread(hub.sessions.questions, new)
    calls = await asyncio.to_thread(hub.sessions.open_calls, new)
    if questions or calls:
        await hub.continue_copy(person, new, waiting)


def _fork_title(service: Service, person: Person, title: str) -> str:
    """Return a title for a fork, such as ``TITLE (fork 2)``, that no session of the person has yet."""
    taken = {name for one, name in service.hub.file.labels["title"].items() if person.owns(one)}
    endings = (" (fork)", *(f" (fork {number})" for number in range(2, len(taken) + 3)))
    names = (f"{_FORK.sub('', title)[: TITLE - len(ending)]}{ending}" for ending in endings)
    return next(name for name in names if name not in taken)


async def answer(service: Service, person: Person, session: str, body: models.VerdictBody) -> models.Done:
    """Answer a question.

    This requires the role ``approve``, except that the session's owner may answer a running tool's question.
    """
    live = service.hub.live(session)
    is_live = live is not None and body.call_id in live.asked
    if not (person.may("approve") or (is_live and person.owns(session))):
        detail = notice("library.server_role", role="approve")
        raise HttpProblem(403, detail) if person.owns(session) else not_found("session")
    session_named(session)
    if body.verdict == "deny" and (body.always or body.similar):
        raise HttpProblem(422, notice("library.server_verdict"))
    permission = Permission(body.verdict, body.message, always=body.always, similar=body.similar)
    run = await asking.answer(service.hub, session, body.call_id, permission, person.name)
    return models.Done(run=run or None)


async def give_result(service: Service, person: Person, session: str, body: models.Result) -> models.Done:
    """Deliver the result of a call executed elsewhere."""
    service.session_of(person, session)
    run = await asking.give_result(
        service.hub, session, body.call_id, body.result, is_error=body.is_error, by=person.name
    )
    return models.Done(run=run or None)


async def steer(service: Service, person: Person, run_id: str, body: models.Steer) -> models.Done:
    """Send a message to a running run."""
    info = service.run_of(person, run_id)
    service.hub.steer(info, body.text, at_end=body.when == "end")
    return models.Done(run=info.id)


async def stop(service: Service, person: Person, run_id: str, body: models.Stop) -> models.Done:
    """Stop a run."""
    info = service.run_of(person, run_id)
    await service.hub.stop(info, body.reason, person.name)
    return models.Done(run=info.id)


async def undo(service: Service, person: Person, session: str, body: models.Undo) -> models.UndoBody:
    """Undo or redo changes of workspace files."""
    service.session_of(person, session)
    await service.hub.wait_stopped(session)
    service.hub.check_free(session)
    snapshots = await snapshots_with(service, session)
    if snapshots is None:
        raise HttpProblem(409, notice("library.server_nothing_to_undo"), type=NOTHING_TO_UNDO)
    options = {"force": body.force, "dry_run": body.dry_run}
    try:
        if body.redo:
            return _undo_body(await snapshots.redo(session, **options))
        return _undo_body(await snapshots.undo(session, to_step=body.step, **options))
    except ConfigError as error:
        raise HttpProblem(409, error) from error


def _undo_body(report: UndoReport) -> models.UndoBody:
    return models.UndoBody(
        session=report.session_id,
        steps=list(report.steps),
        restored=list(report.restored),
        removed=list(report.removed),
        conflicts=[{"path": item.path, "reason": item.reason} for item in report.conflicts],
        dry_run=report.is_dry,
    )


async def end_of(service: Service, session: str, step: int) -> float:
    """Return the time when a step of a session ended, in seconds since 1970.

    Raises:
        HttpProblem: The session has no such step.
    """
    records = (await asyncio.to_thread(service.hub.sessions.load, session)).records
    try:
        return end_of_step(records, step)
    except ConfigError as error:
        raise HttpProblem(409, error) from error


async def snapshots_with(service: Service, session: str) -> Any:
    """Return the snapshots that contain a session's changes; None if no agent has any."""
    for agent in service.hub.agents.values():
        snapshots = snapshots_of(agent)
        if snapshots is not None and session in await snapshots.sessions():
            return snapshots
    return None


def snapshots_of(agent: Agent) -> Any:
    """Return an agent's snapshots; None if the agent's changes cannot be undone."""
    snapshots = agent.config.snapshots
    return snapshots if hasattr(snapshots, "undo") else None


def _passage(agent: Agent | None, question: PermissionRequest) -> dict[str, Any]:
    """Return the line and surrounding text of the passage that an edit replaces, if the passage is unique."""
    tool, path, old = agent and agent.tools.get(question.tool), *map(question.args.get, ("path", "old_text"))
    parts: list[str] = []
    if tool and tool.root and isinstance(path, str) and isinstance(old, str) and old:
        with (
            contextlib.suppress(WorkspaceError, OSError, UnicodeDecodeError),
            Workspace(tool.root).open_for_reading(path) as file,
        ):
            parts = file.read(MAX_READ).decode().split(old)
    if len(parts) != 2:
        return {"line": None, "around": []}
    above, below = (part.split("\n") for part in parts)
    # Keep the lines where the passage begins and ends, and three more on each side.
    return {"line": len(above), "around": ["\n".join(above[-4:]), "\n".join(below[:4])]}


async def questions_of(service: Service, person: Person, session: str) -> list[models.Question]:
    """Return a session's pending questions, without the arguments and reasons that the person may not see."""
    visibility = service.settings.visibility_of(person)
    pending = [
        question
        if question.question is not None or visibility.shows(question.tool)
        else replace(question, args={}, reason="")
        for question in await asking.questions(service.hub, session)
    ]
    live, runs = service.hub.live(session), service.hub.of_session(session)
    agent, owner = (runs[-1].agent, runs[-1].owner) if runs else ("", "")
    return [
        models.Question.of(
            question,
            session=session,
            agent=agent,
            owner=owner,
            conversation=await asyncio.to_thread(title_of, service, session),
            commands=simple_commands(question.tool, question.args),
            **await asyncio.to_thread(_passage, service.hub.agents.get(agent), question),
            rules=wider_rules(question.tool, question.args),
            live=live is not None and question.call_id in live.asked,
        )
        for question in pending
    ]
