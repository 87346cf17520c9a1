"""One attempt of a durable run: from its session, or from the start, as far as this process gets.

What makes a finished effect happen once is the session's journal, which records each intention and each
result. The engine underneath only sees to it that somebody works on the run.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.events import EventWriter
from pure_agent_loop.durable.guard import Guard, GuardedStore, attempts_of, part_of
from pure_agent_loop.durable.schedules.notices import bring_notices
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import (
    LLMError,
    PureAgentLoopError,
    SessionError,
    SessionLockedError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.permissions import Permission
from pure_agent_loop.result import AgentResult
from pure_agent_loop.runs.run import Run
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import read_past
from pure_agent_loop.stop_reasons import HANDED_OFF, SUSPENDED, WAITING, WAITING_TOOL
from pure_agent_loop.support.text import safe_str, to_jsonable

LOG = logging.getLogger("pure_agent_loop")
MOST_ATTEMPTS = 200  # of one run: work that ends each process that takes it up must not go round for ever
PAUSE_SECONDS = 0.5
CANCEL_SECONDS = 5.0
InThread = Callable[..., Any]


class Attempt:
    """A run, as far as this process works on it.

    Args:
        client: The database.
        store: Where sessions are kept.
        agent: Who does it.
        task: What to do.
        session_id: The session it is kept in.
        in_thread: Runs a function in a thread and gives something to await.
        takeover: The store can take a session from a writer that has lost its run.
        carried: The trace that the run belongs to, as `otel` writes it; it becomes metadata of the run.
    """

    def __init__(
        self,
        client: Client,
        store: SessionStore,
        agent: Agent,
        run_id: str,
        task: str,
        session_id: str,
        in_thread: InThread,
        *,
        takeover: bool = False,
        carried: Mapping[str, str] | None = None,
    ) -> None:
        self._carried = carried
        self._client, self._store, self._agent = client, store, agent
        self._run_id, self._task, self._session_id = run_id, task, session_id
        self._in_thread, self._takeover = in_thread, takeover
        self.guard = Guard()
        self._token = CancelToken()

    async def work(self) -> dict[str, Any] | None:
        """Do the work, trying again while the session is not to be had.

        Returns:
            What came of it; None if it is not for this process to say.
        """
        while not self.guard.is_draining:
            try:
                return await self._once()
            except SessionLockedError as error:
                if self.guard.is_lost:
                    return None
                LOG.info("The run %s waits: %s", self._run_id, error)
            except PureAgentLoopError as error:
                if not self._is_away(error):
                    return failed_with(error)
                LOG.warning("The run %s waits for its database: %s", self._run_id, error)
            await asyncio.sleep(PAUSE_SECONDS)
        self.guard.is_cut = True
        return None

    def _is_away(self, error: PureAgentLoopError) -> bool:
        """The database is away, or has no room: no fault of the run, however long that lasts."""
        away = (SessionWriteError, DurableError)
        return isinstance(error, away) or (self._takeover and isinstance(error, SessionReadError))

    async def _once(self) -> dict[str, Any]:
        records = await self._in_thread(self._records)
        count = attempts_of(records, self._run_id)
        part = part_of(records, self._run_id)
        done = already_done(part) if count else None
        if done is not None:
            return done
        if count >= MOST_ATTEMPTS:
            words = f"{count} attempts ended before the run did"
            return {"stop_reason": "killed", "content": "", "error": words, "steps": 0}
        # Another run went on there: this one begins again, behind it.
        was_left = count > 0 and len(part) < len(records)
        if was_left:
            await self._in_thread(self._client.forget_answers, self._run_id)
        run: Run = await self._in_thread(partial(self._open, records, is_new=count == 0 or was_left))
        await self._watch(run)
        failure = run.state.failure
        if isinstance(failure, SessionError):  # nothing could be written: what stands there counts
            if self.guard.is_cut:
                raise SessionLockedError(self._session_id, "another process")
            LOG.warning("The run %s begins again: %s", self._run_id, failure)
            raise SessionLockedError(self._session_id, "nobody just now")
        return outcome_of(run.result())

    def _records(self) -> list[Record]:
        return self._store.read(self._session_id).records if self._store.exists(self._session_id) else []

    def _open(self, records: list[Record], *, is_new: bool) -> Run:
        takeover = self._takeover and not is_new
        store = GuardedStore(
            self._store, self._run_id, self._session_id, self.guard, records, takeover=takeover
        )
        task = self._task if is_new else None
        inbox = Inbox()
        run = self._agent.prepare(
            task,
            session_id=self._session_id,
            sessions=store,
            cancel_token=self._token,
            inbox=inbox,
            metadata=self._carried or None,
        )
        bring_notices(self._client.database, self._session_id, store.records, run.prompts, inbox)
        answers = self._client.answers(self._run_id)
        for question in run.state.questions:
            said = answers.get((question.step, question.call_id))
            if said is not None:
                run.state.answer_permission(question.call_id, Permission(**said))
        for call in run.state.open_calls:
            if (given := answers.get((run.state.step, call.id))) is not None:
                run.state.give_result(call.id, given["result"], is_error=given["is_error"])
        return run

    async def _watch(self, run: Run) -> None:
        """Let it run. If this is cancelled, the run ends by itself, and readers of its events see that."""
        reading = asyncio.create_task(self._read(run))
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            self._token.cancel("The run was cancelled.")
            await asyncio.wait({reading}, timeout=CANCEL_SECONDS)
            reading.cancel()
            raise

    async def _read(self, run: Run) -> None:
        writer = EventWriter(self._client.database, self._run_id, secrets.token_hex(4), self._in_thread)
        try:
            async with aclosing(run.stream()) as events:
                async for event in events:
                    if not self.guard.is_cut:
                        writer.add(event)
        finally:
            await writer.close()


def outcome_of(result: AgentResult) -> dict[str, Any]:
    """What is kept of a result, as JSON."""
    failure = result.state.failure
    kind = {"error_kind": failure.kind} if isinstance(failure, LLMError) else {}
    outcome = {
        "stop_reason": result.stop_reason,
        "content": result.content,
        "error": result.error,
        "steps": result.steps,
        "tokens": result.usage.total_tokens,
        "cost": result.cost,
        **kind,
    }
    if result.state.output is not None:
        outcome["output"] = result.state.output["value"]
    if result.stop_reason == SUSPENDED:
        outcome["questions"] = [asdict(each) for each in result.questions]
    if result.stop_reason == WAITING_TOOL:
        outcome["open_calls"] = [each.to_dict() for each in result.open_calls]
    plain: dict[str, Any] = to_jsonable(outcome)
    return plain


def failed_with(error: PureAgentLoopError) -> dict[str, Any]:
    """What is kept of a run that could not go on."""
    return {"stop_reason": "error", "content": "", "error": safe_str(error), "steps": 0}


def already_done(records: Sequence[Record]) -> dict[str, Any] | None:
    """What came of a run that had ended when its process died; None if it had not."""
    past = read_past(records)
    reason = None if past.was_cut_off or past.state is None else past.state.get("stop_reason")
    goes_on = reason in (None, *WAITING, HANDED_OFF, "cancelled") or past.begun is not None
    state = None if goes_on else past.to_state()
    return None if state is None else outcome_of(AgentResult.from_state(state, []))
