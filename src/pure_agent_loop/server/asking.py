"""Questions from runs to people: list and answer them; resume the run after the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from pure_agent_loop.errors import AlreadyAnsweredError, ConfigError, SessionError, ToolExecutionError
from pure_agent_loop.kernel.permission_ledger import further_allowed, has_call, rules_among
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.schema.forms import forms_of, paths_of
from pure_agent_loop.server.entries import QUESTION, own_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.server.runs_file import CURRENT_RUN, RunInfo
from pure_agent_loop.sessions.questions import GivenAnswer
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import current_call

NOT_WAITING = "urn:pure-agent-loop:not-waiting"  # a problem type
STOP_SECONDS = 5.0  # maximum seconds to wait for a run to suspend


async def ask_in_hub(request: PermissionRequest) -> Permission:
    """Ask the server's users; the agents of the server get this function as `on_ask`.

    A question about a call suspends the run, so that the question survives a restart. A running tool does not
    survive a restart, so its question is held in memory only.
    """
    live = CURRENT_RUN.get()
    if current_call() is None:
        return Permission("ask", request.reason)
    if live is None:  # an engine executes the run, so no user can be asked
        raise ToolExecutionError(model_text("nobody_to_ask"))
    permission: asyncio.Future[Permission] = asyncio.get_running_loop().create_future()
    live.asked[request.call_id] = (request, permission)
    live.settled.pop(request.call_id, None)  # drop the answer to an earlier question of this call
    live.emit(own_event(QUESTION, call_id=request.call_id, tool=request.tool, question=request.reason))
    try:
        return await permission
    finally:
        live.asked.pop(request.call_id, None)


async def questions(hub: Hub, session: str) -> list[PermissionRequest]:
    """Return a session's pending questions: about calls, and from running tools."""
    live = hub.live(session)
    pending = [request for request, _ in live.asked.values()] if live else []
    with contextlib.suppress(SessionError):
        recorded = await asyncio.to_thread(hub.sessions.questions, session)
        durable = next((run.durable for run in reversed(hub.of_session(session)) if run.is_open), "")
        answered = await asyncio.to_thread(hub.engine.answered, durable) if recorded and durable else ()
        pending += [question for question in recorded if (question.step, question.call_id) not in answered]
    return pending


async def answer(hub: Hub, session: str, call_id: str, permission: Permission, by: str) -> str:
    """Answer a question, and resume the run if no other is pending. Only the first answer counts.

    An answer that allows further calls also answers the pending questions about such calls, in the name of
    the same person.

    Args:
        hub: The runs.
        session: The session's id.
        call_id: The call's id.
        permission: The answer.
        by: The name of the person who answers.

    Returns:
        The id of the run; empty if the question is not from a run on this server.

    Raises:
        AlreadyAnsweredError: The question already has an answer.
        HttpProblem: The call has no question.
    """
    live = hub.live(session)
    if live is not None and (call_id in live.asked or call_id in live.settled):
        first = live.settled.setdefault(call_id, own := (by, permission, time.time()))
        if first is not own:
            raise AlreadyAnsweredError(
                call_id, first[0], first[1].behavior, first[2], message=first[1].message
            )
        # The future is already done if the tool has been stopped in the meantime.
        if not (future := live.asked[call_id][1]).done():
            future.set_result(permission)
        hub.announce_answer(live.info, _given(call_id, permission, by))
        return live.info.id

    covered = await _covered(hub, session, call_id, permission)
    info = await _record_answer(hub, session, call_id, permission, by)
    for other in covered:
        # Skip a call that another person has answered in the meantime.
        with contextlib.suppress(AlreadyAnsweredError, HttpProblem):
            await _record_answer(hub, session, other, permission, by)
    return "" if info is None else info.id


async def _covered(hub: Hub, session: str, call_id: str, permission: Permission) -> list[str]:
    """Return a session's other pending calls that the answer to one call also allows."""
    if not (permission.always or permission.similar):
        return []
    pending = await questions(hub, session)
    asked = next((question for question in pending if question.call_id == call_id), None)
    if asked is None:
        return []
    if asked.origins and permission.similar:
        return []
    allowed = further_allowed(permission, asked.tool, asked.args)
    runs = hub.of_session(session)
    agent = hub.agents.get(runs[-1].agent) if runs else None
    live = hub.live(session)

    def find() -> list[str]:
        return [
            other.call_id
            for other in pending
            if other is not asked
            and not (live and other.call_id in live.asked)  # not a question from a running tool
            and _is_allowed(allowed, other, agent.tools.get(other.tool) if agent else None)
        ]

    # In a thread, because comparing paths reads symbolic links from disk.
    return await asyncio.to_thread(find)


def _is_allowed(allowed: Sequence[str], question: PermissionRequest, tool: Tool | None) -> bool:
    """Return True if `allowed` covers a pending call: by its tool, by a rule, or as an identical call."""
    if has_call(allowed, question.tool, question.args):
        return True
    rules = rules_among(allowed)
    if tool is None or not rules.look_into(question.tool):
        return False
    forms = forms_of(question.args, tool.parameters)
    if tool.root:
        forms = forms.with_paths(paths_of(tool.root, forms.meant[0].get("path")))
    return rules.find("allow", question.tool, forms) is not None


async def _record_answer(
    hub: Hub, session: str, call_id: str, permission: Permission, by: str
) -> RunInfo | None:
    info = await _record(
        hub, session, call_id, lambda owner, key: owner.answer(key, call_id, permission, by=by)
    )
    if info is not None:
        hub.announce_answer(info, _given(call_id, permission, by))
    return info


async def give_result(hub: Hub, session: str, call_id: str, result: str, *, is_error: bool, by: str) -> str:
    """Deliver the result of a call executed elsewhere, and resume the run if nothing else is pending.

    Raises:
        AlreadyAnsweredError: The call already has a result.
        HttpProblem: The call is not pending.
    """
    info = await _record(
        hub,
        session,
        call_id,
        lambda owner, key: owner.give_result(key, call_id, result, is_error=is_error, by=by),
    )
    return "" if info is None else info.id


async def _record(hub: Hub, session: str, call_id: str, submit: Callable[[Any, str], None]) -> RunInfo | None:
    """Record an answer or a result, and resume the run if nothing else is pending.

    `submit` does the recording. It is called in a thread, with the engine and the run's id for a durable run,
    else with the session manager and the session's id.
    """
    async with hub.turn(session):
        await _wait_suspended(hub, session, call_id)
        runs = hub.of_session(session)
        info = next((run for run in reversed(runs) if run.state in WAITING), None)
        newest = info or (runs[-1] if runs else None)
        try:
            durable = newest.durable if newest else ""
            await asyncio.to_thread(submit, hub.engine if durable else hub.sessions, durable or session)
        except AlreadyAnsweredError:
            raise
        except ConfigError as error:
            raise HttpProblem(409, error, type=NOT_WAITING) from error
        if info is not None:
            await hub.resume_if_ready(info)
        return info


async def _wait_suspended(hub: Hub, session: str, call_id: str) -> None:
    """Wait until the run has suspended; its pending call is recorded shortly before that."""
    live = hub.live(session)
    if live is None or live.task is None:
        return
    waiting = [question.call_id for question in await questions(hub, session)]
    with contextlib.suppress(SessionError):
        waiting += [call.id for call in await asyncio.to_thread(hub.sessions.open_calls, session)]
    if call_id in waiting:
        await asyncio.wait({live.task}, timeout=STOP_SECONDS)


def _given(call_id: str, permission: Permission, by: str) -> GivenAnswer:
    return GivenAnswer(call_id, permission.behavior, permission.message, by, time.time())
