"""Questions to people: asked by runs, answered by whoever may, and gone on with when none is left."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from pure_agent_loop.errors import ConfigError, SessionError, ToolExecutionError
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.prompts.words import say
from pure_agent_loop.server.entries import ANSWERED, QUESTION, own_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.server.runs_file import LIVE, RunInfo
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool_context import current_call

STOP_SECONDS = 5.0  # that other calls of the same step may take


async def ask_in_hub(request: PermissionRequest) -> Permission:
    """What the agents of a server ask a person with.

    A question about a call suspends its run, so that it survives the server. What a tool at work wants to
    know waits in memory: the tool would not survive either.
    """
    live = LIVE.get()
    if current_call() is None:
        return Permission("ask", request.reason)
    if live is None:  # an engine works on it, and nobody is there
        raise ToolExecutionError(say("nobody_to_ask"))
    answer: asyncio.Future[Permission] = asyncio.get_running_loop().create_future()
    live.asked[request.call_id] = (request, answer)
    question = str(request.args.get("question", request.reason))
    live.tell(own_event(QUESTION, call_id=request.call_id, tool=request.tool, question=question))
    try:
        return await answer
    finally:
        live.asked.pop(request.call_id, None)


async def questions(hub: Hub, session: str) -> list[PermissionRequest]:
    """What a session waits for: questions about calls, and those of tools at work."""
    live = hub.live(session)
    asked = [request for request, _ in live.asked.values()] if live else []
    with contextlib.suppress(SessionError):
        asked += await asyncio.to_thread(hub.sessions.questions, session)
    return asked


async def answer(hub: Hub, session: str, call_id: str, said: Permission) -> str:
    """Answer a question; the run goes on when none is left.

    Returns:
        The id of the run; empty if no run of this server asked.

    Raises:
        Problem: Nothing is asked about that call.
    """
    live = hub.live(session)
    waiting = live.asked.get(call_id) if live else None
    if live is not None and waiting is not None:
        if not waiting[1].done():
            waiting[1].set_result(said)
        _answered(hub, live.info, call_id, said)
        return live.info.id
    await _stopped_for(hub, session, call_id)
    hub.check_free(session)
    open_runs = [each for each in hub.of_session(session) if each.state in WAITING]
    info = open_runs[-1] if open_runs else None
    try:
        if info is not None and info.durable:
            await asyncio.to_thread(hub.engine.answer, info.durable, call_id, said)
        else:
            await asyncio.to_thread(hub.sessions.answer, session, call_id, said)
    except ConfigError as error:
        raise Problem(409, safe_str(error)) from error
    if info is None:
        return ""
    _answered(hub, info, call_id, said)
    if not await asyncio.to_thread(hub.sessions.questions, session) or info.durable:
        hub.go_on(info)
    return info.id


async def give_result(hub: Hub, session: str, call_id: str, result: str, *, is_error: bool) -> str:
    """Bring the result of a call that is made elsewhere; the run goes on when none is left.

    Raises:
        Problem: No such result is awaited.
    """
    hub.check_free(session)
    info = next((each for each in reversed(hub.of_session(session)) if each.state in WAITING), None)
    give = hub.engine.give_result if info and info.durable else hub.sessions.give_result
    place = info.durable if info and info.durable else session
    try:
        await asyncio.to_thread(partial(give, place, call_id, result, is_error=is_error))
    except ConfigError as error:
        raise Problem(409, safe_str(error)) from error
    if info is None:
        return ""
    if info.durable or not await asyncio.to_thread(hub.sessions.open_calls, session):
        hub.go_on(info)
    return info.id


async def _stopped_for(hub: Hub, session: str, call_id: str) -> None:
    """A question stands in the records a moment before its run has stopped for it; wait for that."""
    live = hub.live(session)
    if live is None or live.task is None:
        return
    if any(each.call_id == call_id for each in await questions(hub, session)):
        await asyncio.wait({live.task}, timeout=STOP_SECONDS)


def _answered(hub: Hub, info: RunInfo, call_id: str, said: Permission) -> None:
    about = own_event(ANSWERED, call_id=call_id, behavior=said.behavior, message=said.message)
    hub.channel(info.session).add(about, info.id)
