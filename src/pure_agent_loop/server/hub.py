"""Runs of a server: start, steer, stop, resume. Runs are independent of connections.

    message ─► RunInfo ─► asyncio task ─► events ─► Channel of the session ─► viewers
                  │                                         │
              runs.jsonl                              events/SESSION.jsonl

A run that was interrupted when the process ended is resumed at the next start, from its session's records.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import begin_attempt
from pure_agent_loop.errors import AlreadyAnsweredError, PureAgentLoopError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.server.channel import Channel
from pure_agent_loop.server.entries import (
    ANSWERED,
    RUN_END,
    RUN_START,
    RUN_STATE,
    STEERED,
    ChannelEntry,
    own_event,
)
from pure_agent_loop.server.event_file import EventFile
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import UNEXPECTED, HttpProblem, no_agent
from pure_agent_loop.server.runs_file import CURRENT_RUN, ActiveRun, RunInfo, RunsFile
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions.links import LinkFolder
from pure_agent_loop.sessions.questions import GivenAnswer, given_answers
from pure_agent_loop.sessions.resume import has_allowed_call
from pure_agent_loop.sessions.store import Stamps, check_session_name, new_session_id
from pure_agent_loop.sessions.stores.file_names import file_name
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop.server")
MAX_TEXT = 20_000  # characters kept of an ended run's task and answer: the session has the rest
CUT_SECONDS = 3.0  # time for runs to reach the end of a step, after the grace period
WATCH_SECONDS = 2.0  # polling interval for suspended runs, which another process may have answered
STOPPED = "The run was stopped."
CANCELLED = "stopped by a user"
WAITS = "urn:pure-agent-loop:waits"  # a problem type
STOP_SECONDS = 10.0  # how long a new message waits for a run that is stopping
MAX_ATTEMPTS = 20  # limits how often a run that crashes its process is resumed


class Hub:
    """The runs of a server.

    Args:
        agents: Agents by name; the first is the default.
        worker: Executes a run until it ends or suspends.
        engine: The engine behind `worker`; None if runs are executed in this process.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        sessions: SessionManager,
        folder: Path,
        settings: Settings,
        metrics: Metrics,
        worker: Callable[[Hub, ActiveRun], Coroutine[Any, Any, None]],
        engine: Any = None,
    ) -> None:
        self.agents, self.sessions, self.settings, self.metrics = dict(agents), sessions, settings, metrics
        self.engine, self._worker = engine, worker
        self._folder = private_folder(folder)
        self._events = private_folder(folder / "events")
        self.links = LinkFolder(folder)
        self._channels: dict[str, Channel] = {}
        self._live: dict[str, ActiveRun] = {}  # session id -> its executing run
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._stamps: dict[str, Any] = {}  # session id -> the store's stamp at the last poll
        # Run id -> pairs of call id and name of the person who answered.
        self._announced: dict[str, set[tuple[str, str]]] = {}
        self._ephemeral: dict[
            asyncio.Task[Any] | None, RunInfo
        ] = {}  # runs of a single HTTP request, without a session
        self.file = RunsFile(self._folder)
        self.is_draining = False
        self.on_event: Callable[[ChannelEntry], None] = metrics.event

    # -- queries ----------------------------------------------------------------------------------

    @property
    def runs(self) -> Mapping[str, RunInfo]:
        """All runs by id, oldest first."""
        return self.file.runs

    @property
    def open_runs(self) -> list[RunInfo]:
        """Runs that have not ended, including runs that exist for one request only."""
        return [*(info for info in self.runs.values() if info.is_open), *self._ephemeral.values()]

    def of_session(self, session: str) -> list[RunInfo]:
        """Return the runs of a session, oldest first."""
        return self.file.of_session(session)

    def live(self, session: str) -> ActiveRun | None:
        """Return the run that is executing in a session."""
        return self._live.get(session)

    @property
    def live_runs(self) -> list[ActiveRun]:
        """The runs that are executing."""
        return list(self._live.values())

    def channel(self, session: str) -> Channel:
        """Return the events of a session."""
        channel = self._channels.get(session)
        if channel is None:
            self._close_idle_channels()
            file = EventFile(self._events / f"{file_name(check_session_name(session))}.jsonl", session)
            channel = self._channels[session] = Channel(session, file, self.on_event)
        return channel

    def _close_idle_channels(self) -> None:
        if len(self._channels) < 256:
            return
        for name, channel in list(self._channels.items()):
            if channel.is_quiet and name not in self._live:
                channel.close()
                del self._channels[name]

    # -- starting ---------------------------------------------------------------------------------

    def start(
        self,
        person: Person,
        task: str,
        agent: str | None = None,
        session: str | None = None,
        media: Sequence[Any] = (),
        key: str = "",
        shown: str = "",
        model: str = "",
    ) -> RunInfo:
        """Start a run.

        Args:
            agent: An agent's name; None for the session's agent, or the first agent.
            session: A session to continue; None for a new one.
            media: ``data:`` URLs of the task's media.
            key: The result of `hash_key`; empty for none.
            shown: The task as viewers see it, if different.
            model: One of `Settings.models`; empty for the agent's own.

        Raises:
            HttpProblem: The run cannot start.
        """
        self._check_capacity(person)
        if session is not None:
            self.check_free(session)
        name = self.agent_for(agent, session)
        session = session or person.new_session_id()
        for run in self.of_session(session):
            if run.is_open:
                raise HttpProblem(409, notice("library.server_suspended"), type=WAITS, run=run.id)
        run_id = self._announce_start(
            session, name, model, task=shown or task, media=len(media), attempt=1, by=person.name
        )
        other = shown if shown != task else ""
        info = RunInfo(run_id, session, name, person.name, task, key=key, model=model, shown=other)
        self.file.keep_media(info, media)
        self.file.put(info)
        self._execute(ActiveRun(info, media))
        return info

    async def continue_copy(self, person: Person, session: str, like: RunInfo) -> None:
        """Continue a run in a copy of its session; the new run waits for its own answers."""
        run_id = self._announce_start(session, like.agent, like.model, task="", attempt=1, by=person.name)
        durable = "" if self.engine is None else new_session_id()
        info = RunInfo(run_id, session, like.agent, person.name, like.task, durable=durable, model=like.model)
        await asyncio.to_thread(begin_attempt, self.sessions.store, session, durable or run_id)
        self.file.put(info)
        self._execute(ActiveRun(info))

    def _announce_start(self, session: str, agent: str, model: str, run_id: str = "", **about: Any) -> str:
        """Tell viewers that a run, or a further attempt at it, is starting; return the run's id."""
        named = {"agent": agent, "model": model or model_of(self.agents[agent].llm)}
        return self.channel(session).add(own_event(RUN_START, **named, **about), run_id).run

    def find_by_key(self, key: str) -> RunInfo | None:
        """Return the run started with an idempotency key; None if there is none.

        Args:
            key: The result of `hash_key`; empty for none.

        Raises:
            HttpProblem: The key was used for a different request.
        """
        info = self.file.find_by_key(key.partition(":")[0]) if key else None
        if info is not None and info.key != key:
            raise HttpProblem(409, "Idempotency-Key was already used for a different request.")
        return info

    def agent_for(self, agent: str | None, session: str | None) -> str:
        """Return the name of the agent for a task; see `start`."""
        if agent is None:
            runs = self.of_session(session) if session else []
            last = runs[-1].agent if runs else ""
            return last if last in self.agents else next(iter(self.agents))
        if agent not in self.agents:
            raise no_agent(agent, self.agents)
        return agent

    def _check_capacity(self, person: Person) -> None:
        if self.is_draining:
            raise HttpProblem(503, notice("library.server_stopping"), {"Retry-After": "5"})
        running = [*(live.info for live in self.live_runs), *self._ephemeral.values()]
        own = sum(info.owner == person.name for info in running)
        limits = self.settings
        if len(running) >= limits.max_running or own >= limits.max_running_each:
            raise HttpProblem(429, notice("library.server_too_many_runs"), {"Retry-After": "5"})

    @contextlib.contextmanager
    def ephemeral_run(self, person: Person, agent: str) -> Iterator[RunInfo]:
        """Register the run of one HTTP request within the block, then add the run's usage to the totals.

        Raises:
            HttpProblem: A run limit has been reached.
        """
        self._check_capacity(person)
        info = RunInfo("", "", agent, person.name, "")
        task = asyncio.current_task()
        self._ephemeral[task] = info
        self.metrics.run_started(info)
        try:
            yield info
        finally:
            del self._ephemeral[task]
            self._count(info)

    def _count(self, info: RunInfo) -> None:
        self.metrics.run_ended(info)
        try:
            self.file.add_totals(info)
        except OSError as error:
            LOG.warning("The usage of a run could not be saved: %s", error)

    def check_free(self, session: str) -> None:
        """Check that no run is executing in a session.

        Raises:
            HttpProblem: A run is executing.
        """
        live = self._live.get(session)
        if live is not None:
            raise HttpProblem(409, notice("library.server_run_in_session"), run=live.info.id)

    async def wait_stopped(self, session: str | None) -> None:
        """Wait for a cancelled run to end, so that the next request does not get a conflict."""
        live = self._live.get(session or "")
        if live is not None and live.task is not None and live.token.is_cancelled:
            await asyncio.wait([live.task], timeout=STOP_SECONDS)

    def _execute(self, live: ActiveRun) -> None:
        self._live[live.info.session] = live
        live.emit = lambda plain: self.channel(live.info.session).add(plain, live.info.id)
        self.metrics.run_started(live.info)
        token = CURRENT_RUN.set(live)
        try:
            live.task = asyncio.get_running_loop().create_task(self._worker(self, live))
        finally:
            CURRENT_RUN.reset(token)
        live.task.add_done_callback(partial(self._done, live))

    def _detach(self, info: RunInfo) -> None:
        live = self._live.get(info.session)
        if live is not None and live.info is info:
            del self._live[info.session]

    def _done(self, live: ActiveRun, task: asyncio.Task[None]) -> None:
        if self._live.get(live.info.session) is not live:
            return  # `outcome` has already removed this run; the session's next run may have started since
        del self._live[live.info.session]
        if live.guard.is_cut:
            return  # the next process resumes the run
        if not task.cancelled() and task.exception() is not None:
            LOG.error("Run %s failed.", live.info.id, exc_info=task.exception())
        if live.info.is_working:
            state, error = ("cancelled", "") if task.cancelled() else ("failed", UNEXPECTED)
            self._end(live.info, state, "error", error)

    def update(self, info: RunInfo, **changes: Any) -> None:
        """Change fields of a run and save it."""
        for name, value in changes.items():
            setattr(info, name, value)
        try:
            self.file.put(info)
        except OSError as error:
            LOG.warning("Run %s could not be saved: %s", info.id, error)

    def outcome(self, info: RunInfo, result: Mapping[str, Any]) -> None:
        """Save the end or suspension of a run. For `result` see `durable.attempt.outcome_of`."""
        self._announced.pop(info.id, None)
        self._detach(info)  # before the event, because a client may react to the event with the next task
        reason = str(result.get("stop_reason") or "error")
        states = ("completed", *WAITING, "cancelled", "killed")
        state = reason if reason in states else "failed"
        changes = {
            "content": str(result.get("content") or ""),
            "steps": int(result.get("steps") or 0),
            "tokens": int(result.get("tokens") or 0),
            "cost": result.get("cost"),
        }
        if state not in WAITING:
            self._end(info, state, reason, str(result.get("error") or ""), **changes)
            return
        self.update(info, state=state, stop_reason=reason, **changes)
        calls = [question["call_id"] for question in result.get("questions") or ()]
        calls += [call["id"] for call in result.get("open_calls") or ()]
        self.channel(info.session).add(own_event(RUN_STATE, state=state, calls=calls), info.id)

    def _end(self, info: RunInfo, state: str, reason: str, error: str = "", **changes: Any) -> None:
        texts = {"task": info.task[:MAX_TEXT], "content": changes.pop("content", "")[:MAX_TEXT]}
        self.update(info, state=state, stop_reason=reason, error=error, **changes, **texts)
        outcome = {"state": state, "stop_reason": reason, "error": error}
        usage = {"steps": info.steps, "tokens": info.tokens, "cost": info.cost}
        self.file.drop_media(info)
        self.channel(info.session).add(own_event(RUN_END, **outcome, **usage), info.id)
        self._count(info)

    # -- steering and stopping --------------------------------------------------------------------

    def steer(self, info: RunInfo, text: str, *, at_end: bool = False) -> None:
        """Send a message to a running run.

        Raises:
            HttpProblem: The run is not running, or an engine executes it.
        """
        live = self._live.get(info.session)
        if live is None or live.info is not info:
            raise HttpProblem(409, notice("library.server_run_over"), state=info.state)
        if info.durable:
            raise HttpProblem(409, notice("library.server_engine_run"))
        when: Literal["end", "step"] = "end" if at_end else "step"
        live.inbox.put(text, when=when)
        live.emit(own_event(STEERED, text=text, when=when))

    async def stop(self, info: RunInfo, reason: str = "", by: str = "") -> None:
        """Stop a run that has not ended. A suspended run's pending calls are recorded as denied.

        Args:
            by: The name of the person who stops the run.
        """
        live = self._live.get(info.session)
        if info.durable:
            await asyncio.to_thread(self.engine.cancel, info.durable)
        if live is not None and live.info is info:
            live.token.cancel(reason or CANCELLED)
        elif info.is_open:
            async with self.turn(info.session):
                is_suspended = info.state in WAITING and not info.durable
                if is_suspended and await asyncio.to_thread(self._deny_pending, info, reason or STOPPED, by):
                    # Resume the run and cancel it below, so that the allowed call gets a result.
                    self.resume(info)
                live = self._live.get(info.session)
                # Not resumed: no call was allowed, or the server is draining.
                if live is None or live.info is not info:
                    self._end(info, "cancelled", "cancelled")
                else:
                    live.token.cancel(reason or CANCELLED)

    def _deny_pending(self, info: RunInfo, reason: str, by: str) -> bool:
        """Deny pending calls; return True if a call has already been allowed, which the run must finish."""
        try:
            for question in self.sessions.questions(info.session):
                with contextlib.suppress(AlreadyAnsweredError):  # the first answer counts
                    self.sessions.answer(info.session, question.call_id, "deny", reason, by=by or None)
            for call in self.sessions.open_calls(info.session):
                with contextlib.suppress(AlreadyAnsweredError):
                    self.sessions.give_result(info.session, call.id, reason, is_error=True, by=by or None)
            return info.agent in self.agents and has_allowed_call(self.sessions.store, info.session)
        except PureAgentLoopError as error:
            LOG.warning("Pending calls of session %s could not be denied: %s", info.session, safe_str(error))
            return False

    def turn(self, session: str) -> asyncio.Lock:
        """Return a session's lock. Hold the lock to answer, to fork the session or to start a run."""
        return self._turns.setdefault(session, asyncio.Lock())

    async def resume_if_ready(self, info: RunInfo) -> None:
        """Resume a suspended run if nothing is pending. The caller must hold the session's `turn`.

        Raises:
            PureAgentLoopError: The session cannot be read.
        """
        if info.durable:
            waits = await asyncio.to_thread(self.engine.waits, info.durable)
        else:
            questions = await asyncio.to_thread(self.sessions.questions, info.session)
            waits = questions or await asyncio.to_thread(self.sessions.open_calls, info.session)
        if not waits and info.state in WAITING and info.agent in self.agents:
            self.resume(info)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Within the block, regularly resume suspended runs whose answers another process has recorded."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            for info in [run for run in self.runs.values() if run.state in WAITING]:
                await self._poll(info)
            await asyncio.sleep(WATCH_SECONDS)

    async def _poll(self, info: RunInfo) -> None:
        store = None if info.durable else as_protocol(self.sessions.store, Stamps)
        try:
            stamp = None if store is None else await asyncio.to_thread(store.stamp, info.session)
            if store is not None and stamp in (None, self._stamps.get(info.session)):
                return  # deleted, or unchanged since the last poll
            async with self.turn(info.session):
                await self._announce_others(info)
                await self.resume_if_ready(info)
            self._stamps[info.session] = stamp
        except Exception as error:  # noqa: BLE001 - the next poll may succeed
            LOG.info("Run %s could not be polled for answers: %s", info.id, safe_str(error))

    async def _announce_others(self, info: RunInfo) -> None:
        """Send viewers the answers that another process has recorded since the run was suspended."""
        if info.durable:
            given = await asyncio.to_thread(self.engine.given_answers, info.durable)
        else:
            read = self.sessions.store.read
            given = given_answers((await asyncio.to_thread(read, info.session)).records)
        for answer in given:
            if answer.at >= info.updated:
                self.announce_answer(info, answer)

    def announce_answer(self, info: RunInfo, answer: GivenAnswer) -> None:
        """Send viewers an answer to a call, once per call and person."""
        announced = self._announced.setdefault(info.id, set())
        if (answer.call_id, answer.by) not in announced:
            announced.add((answer.call_id, answer.by))
            about = {name: getattr(answer, name) for name in ("call_id", "behavior", "message", "by")}
            event = {**own_event(ANSWERED, **about), "timestamp": answer.at}
            self.channel(info.session).add(event, info.id)

    def resume(self, info: RunInfo) -> None:
        """Resume a suspended or interrupted run."""
        if self.is_draining or info.session in self._live:
            return
        self.update(info, state="running", stop_reason="", attempt=info.attempt + 1)
        self._announce_start(info.session, info.agent, info.model, info.id, task="", attempt=info.attempt)
        self._execute(ActiveRun(info, self.file.media_of(info)))

    # -- start and stop of the server --------------------------------------------------------------

    def resume_interrupted(self) -> None:
        """Resume the runs that were interrupted when the last process ended."""
        for info in list(self.runs.values()):
            if not info.is_working:
                continue
            if info.agent not in self.agents:
                self._end(info, "failed", "error", f"The agent {info.agent!r} no longer exists.")
            elif info.attempt >= MAX_ATTEMPTS:
                self._end(info, "killed", "error", f"The process died in each of {info.attempt} attempts.")
            else:
                self.resume(info)

    async def drain(self, seconds: float) -> None:
        """Start no new runs and let the current ones finish. The next process resumes unfinished runs."""
        self.is_draining = True
        tasks = {
            task for task in (*(live.task for live in self.live_runs), *self._ephemeral) if task is not None
        }
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        unfinished = self.live_runs
        for live in unfinished:
            live.guard.is_draining = True  # the run still records the results of running tools
        if unfinished and seconds:
            await asyncio.wait(
                {live.task for live in unfinished if live.task is not None}, timeout=CUT_SECONDS
            )
        for live in self.live_runs:
            live.guard.is_cut = True
            if live.task is not None:
                live.task.cancel()
        if unfinished:
            LOG.warning("%d unfinished runs will be resumed at the next start.", len(unfinished))
            await asyncio.wait({live.task for live in unfinished if live.task is not None}, timeout=5)

    async def close(self) -> None:
        """Interrupt running runs and close files."""
        await self.drain(0)
        for channel in self._channels.values():
            channel.close()
        self.file.close()

    def wake_viewers(self) -> None:
        """Wake all viewers of all sessions."""
        for channel in self._channels.values():
            channel.wake()

    def forget_session(self, session: str) -> None:
        """Delete the events, runs and links of a deleted session."""
        self.links.forget(session)
        self.channel(session).delete()
        del self._channels[session]
        self.file.forget_session(session)

    def unused_sessions(self, before: float) -> list[str]:
        """Return the sessions that this server's runs have not used since a time in epoch seconds."""
        newest: dict[str, float] = {}
        for info in self.runs.values():
            newest[info.session] = (
                math.inf if info.is_open else max(newest.get(info.session, 0.0), info.updated)
            )
        return [session for session, updated in newest.items() if updated < before]

    def drop_event_files(self, before: float) -> None:
        """Delete event files that have not changed since a time, except those of open channels or runs."""
        sessions = (*self._channels, *(run.session for run in self.open_runs))
        kept = {f"{file_name(session)}.jsonl" for session in sessions}
        for path in self._events.glob("*.jsonl"):
            if path.name not in kept and path.stat().st_mtime < before:
                path.unlink(missing_ok=True)


def hash_key(person: Person, key: str, request: Any) -> str:
    """Hash a person's idempotency key and its request: ``KEY_HASH:REQUEST_HASH``, empty for no key."""
    if not key:
        return ""
    parts = (f"{person.name}\0{key}", repr(request))
    return ":".join(hashlib.sha256(part.encode("utf-8", "replace")).hexdigest() for part in parts)
