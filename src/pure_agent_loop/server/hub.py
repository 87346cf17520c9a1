"""The runs of a server: begun, watched, steered, answered and gone on with. No connection owns one.

    message ─► RunInfo ─► a task of its own ─► events ─► Channel of the session ─► viewers
                  │                                         │
              runs.jsonl                              events/SESSION.jsonl

A run that the end of the process cuts off is gone on with at the next start, from what its session recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pure_agent_loop.agent import Agent
from pure_agent_loop.server.channel import Channel
from pure_agent_loop.server.entries import RUN_END, RUN_START, RUN_STATE, STEERED, Entry, own_event
from pure_agent_loop.server.event_file import EventFile
from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem, no_agent
from pure_agent_loop.server.runs_file import LIVE, Live, RunInfo, RunsFile
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions.store import check_session_id
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.paths import private_folder

LOG = logging.getLogger("pure_agent_loop.server")
MOST_KEPT = 20_000  # characters of a task and an answer, once a run has ended: the session has the rest
CUT_SECONDS = 3.0  # that runs get to come between two steps, when the time to end is over
MOST_ATTEMPTS = 20  # a run that ends each process that takes it up must not go round for ever


class Hub:
    """The runs of a server.

    Args:
        agents: Who can do what, by name; the first is the one that is asked if none is named.
        sessions: Where sessions are kept.
        folder: What the server keeps of its own.
        settings: Limits.
        metrics: Counts what happens.
        do: Works on a run until it ends or waits.
        engine: What `do` has work done by; None where it is done here.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        sessions: SessionManager,
        folder: Path,
        settings: Settings,
        metrics: Metrics,
        do: Callable[[Hub, Live], Coroutine[Any, Any, None]],
        engine: Any = None,
    ) -> None:
        self.agents, self.sessions, self.settings, self.metrics = dict(agents), sessions, settings, metrics
        self.engine, self._do = engine, do
        self._folder = private_folder(folder)
        self._events = private_folder(folder / "events")
        self._channels: dict[str, Channel] = {}
        self._live: dict[str, Live] = {}  # by session: one run at a time works in each
        self._guests: dict[asyncio.Task[Any] | None, RunInfo] = {}  # runs of requests, which no session keeps
        self._file = RunsFile(self._folder)
        self.is_draining = False
        self.told: Callable[[Entry], None] = metrics.event  # of each event of a session

    # -- looking ----------------------------------------------------------------------------------

    @property
    def runs(self) -> Mapping[str, RunInfo]:
        """The runs that are known, oldest first, by id."""
        return self._file.runs

    def run(self, run_id: str) -> RunInfo | None:
        """A run; None if there is none of that id."""
        return self._file.runs.get(run_id)

    @property
    def open_runs(self) -> list[RunInfo]:
        """What has not ended, runs of requests included."""
        return [*(each for each in self.runs.values() if each.is_open), *self._guests.values()]

    @property
    def sums(self) -> Mapping[tuple[str, str], tuple[int, int, float]]:
        """What each agent used for each person, over all runs that have ended: runs, tokens, cost."""
        return self._file.sums

    def of_session(self, session: str) -> list[RunInfo]:
        """The runs of a session, oldest first."""
        return self._file.of_session(session)

    def live(self, session: str) -> Live | None:
        """What works in a session now."""
        return self._live.get(session)

    @property
    def at_work(self) -> list[Live]:
        """The runs that are worked on now."""
        return list(self._live.values())

    def channel(self, session: str) -> Channel:
        """The events of a session."""
        found = self._channels.get(session)
        if found is None:
            self._forget_quiet()
            file = EventFile(self._events / f"{check_session_id(session)}.jsonl", session)
            found = self._channels[session] = Channel(session, file, self.told)
        return found

    def _forget_quiet(self) -> None:
        if len(self._channels) < 256:
            return
        for name, channel in list(self._channels.items()):
            if channel.is_quiet and name not in self._live:
                channel.close()
                del self._channels[name]

    # -- beginning --------------------------------------------------------------------------------

    def start(
        self,
        person: Person,
        task: str,
        agent: str | None = None,
        session: str | None = None,
        media: Sequence[Any] = (),
        key: str = "",
        shown: str = "",
    ) -> RunInfo:
        """Begin a run.

        Args:
            person: Who asks.
            task: What to do.
            agent: The name of an agent; None for the one of the session, or the first.
            session: The session to go on in; None for a new one.
            media: ``data:`` URLs that come with the task.
            key: What `sealed_key` made; empty for none.
            shown: The task as viewers see it, if not as it is.

        Raises:
            Problem: It cannot begin.
        """
        self._check_room(person)
        if session is not None:
            self.check_free(session)
        name = self.agent_for(agent, session)
        session = session or person.new_session_id()
        for each in self.of_session(session):
            if each.durable and each.is_open:
                raise Problem(409, "A run of this session waits: answer it, or stop it.", run=each.id)
            if each.is_open:  # it waited; what is asked now comes in its place
                self._end(each, "cancelled", "cancelled")
        begun = own_event(RUN_START, agent=name, task=shown or task, attempt=1, by=person.name)
        run_id = self.channel(session).add(begun).run
        info = RunInfo(run_id, session, name, person.name, task, key=key)
        self._file.put(info)
        self._work(Live(info, media))
        return info

    def begun_with(self, key: str) -> RunInfo | None:
        """The run that was begun with an idempotency key; None if none was.

        Args:
            key: What `sealed_key` made; empty for none.

        Raises:
            Problem: Something else was asked with this key.
        """
        before = self._file.begun_with(key.partition(":")[0]) if key else None
        if before is not None and before.key != key:
            raise Problem(409, "This Idempotency-Key was used for another request.")
        return before

    def agent_for(self, agent: str | None, session: str | None) -> str:
        """The name of the agent that a task is for; see `start`."""
        if agent is None:
            before = self.of_session(session) if session else []
            known = before[-1].agent if before else ""
            return known if known in self.agents else next(iter(self.agents))
        if agent not in self.agents:
            raise no_agent(agent, self.agents)
        return agent

    def _check_room(self, person: Person) -> None:
        if self.is_draining:
            raise Problem(503, "The server is about to stop. Try again soon.", {"Retry-After": "5"})
        owners = [each.owner for each in (*(live.info for live in self.at_work), *self._guests.values())]
        limits, mine = self.settings, owners.count(person.name)
        if len(owners) >= limits.max_running or mine >= limits.max_running_each:
            raise Problem(429, "Too many runs are at work. Wait until one has ended.", {"Retry-After": "5"})

    @contextlib.contextmanager
    def guest(self, person: Person, agent: str) -> Iterator[RunInfo]:
        """Count a run that belongs to the request of this task, while it is at work; then add what it used.

        Args:
            person: Who asks.
            agent: The name of the agent.

        Raises:
            Problem: There is no room.
        """
        self._check_room(person)
        info = RunInfo("", "", agent, person.name, "")
        task = asyncio.current_task()
        self._guests[task] = info
        self.metrics.run_began(info)
        try:
            yield info
        finally:
            del self._guests[task]
            self._count(info)

    def _count(self, info: RunInfo) -> None:
        self.metrics.run_ended(info)
        try:
            self._file.add_up(info)
        except OSError as error:
            LOG.warning("What a run used is not kept: %s", error)

    def check_free(self, session: str) -> None:
        """Make sure that nothing works in a session.

        Raises:
            Problem: A run does.
        """
        live = self._live.get(session)
        if live is not None:
            why = "A run is at work in this session: steer it, stop it, or wait until it has ended."
            raise Problem(409, why, run=live.info.id)

    def _work(self, live: Live) -> None:
        self._live[live.info.session] = live
        live.tell = lambda plain: self.channel(live.info.session).add(plain, live.info.id)
        self.metrics.run_began(live.info)
        token = LIVE.set(live)
        try:
            live.task = asyncio.get_running_loop().create_task(self._do(self, live))
        finally:
            LIVE.reset(token)
        live.task.add_done_callback(partial(self._done, live))

    def _let_go(self, info: RunInfo) -> None:
        live = self._live.get(info.session)
        if live is not None and live.info is info:
            del self._live[info.session]

    def _done(self, live: Live, task: asyncio.Task[None]) -> None:
        if self._live.get(live.info.session) is not live:
            return  # how it ended is known; another may be at work already
        del self._live[live.info.session]
        if live.guard.is_cut:
            return  # the next process goes on
        if not task.cancelled() and task.exception() is not None:
            LOG.error("The run %s failed.", live.info.id, exc_info=task.exception())
        if live.info.is_working:
            words = "This should not have happened; the log of the server says more."
            state, words = ("cancelled", "") if task.cancelled() else ("failed", words)
            self._end(live.info, state, "error", words)

    def note(self, info: RunInfo, **changes: Any) -> None:
        """A run stands otherwise now; keep that."""
        for name, value in changes.items():
            setattr(info, name, value)
        try:
            self._file.put(info)
        except OSError as error:
            LOG.warning("How the run %s stands is not kept: %s", info.id, error)

    def outcome(self, info: RunInfo, result: Mapping[str, Any]) -> None:
        """A run has ended, or waits. `result`: see `durable.attempt.outcome_of`."""
        self._let_go(info)  # before anybody hears of it, and says the next thing at once
        reason = str(result.get("stop_reason") or "error")
        known = ("completed", *WAITING, "backgrounded", "cancelled", "killed")
        state = reason if reason in known else "failed"
        changes = {
            "content": str(result.get("content") or ""),
            "steps": int(result.get("steps") or 0),
            "tokens": int(result.get("tokens") or 0),
            "cost": float(result.get("cost") or 0.0),
        }
        if state not in WAITING:
            self._end(info, state, reason, str(result.get("error") or ""), **changes)
            return
        self.note(info, state=state, stop_reason=reason, **changes)
        calls = [each["call_id"] for each in result.get("questions") or ()]
        calls += [each["id"] for each in result.get("open_calls") or ()]
        self.channel(info.session).add(own_event(RUN_STATE, state=state, calls=calls), info.id)

    def _end(self, info: RunInfo, state: str, reason: str, error: str = "", **changes: Any) -> None:
        kept = {"task": info.task[:MOST_KEPT], "content": changes.pop("content", "")[:MOST_KEPT]}
        self.note(info, state=state, stop_reason=reason, error=error, **changes, **kept)
        about = {"state": state, "stop_reason": reason, "error": error}
        sums = {"steps": info.steps, "tokens": info.tokens, "cost": info.cost}
        self.channel(info.session).add(own_event(RUN_END, **about, **sums), info.id)
        self._count(info)

    # -- what is said to runs ---------------------------------------------------------------------

    def steer(self, info: RunInfo, text: str, *, at_end: bool = False) -> None:
        """Say something to a run at work.

        Raises:
            Problem: It is not at work, or cannot be reached.
        """
        live = self._live.get(info.session)
        if live is None or live.info is not info:
            raise Problem(409, "This run is not at work.", state=info.state)
        if info.durable:
            raise Problem(409, "A run of the engine cannot be steered; send a message when it has ended.")
        when: Literal["end", "step"] = "end" if at_end else "step"
        live.inbox.put(text, when=when)
        live.tell(own_event(STEERED, text=text, when=when))

    async def stop(self, info: RunInfo, reason: str = "") -> None:
        """Stop a run. One that has ended stays as it is."""
        live = self._live.get(info.session)
        if info.durable:
            await asyncio.to_thread(self.engine.cancel, info.durable)
        if live is not None and live.info is info:
            live.token.cancel(reason or "a person stopped it")
        elif info.is_open:
            self._end(info, "cancelled", "cancelled")

    def go_on(self, info: RunInfo) -> None:
        """Go on with a run that waited, or was cut off."""
        if self.is_draining or info.session in self._live:
            return
        self.note(info, state="running", stop_reason="", attempt=info.attempt + 1)
        begun = own_event(RUN_START, agent=info.agent, task="", attempt=info.attempt)
        self.channel(info.session).add(begun, info.id)
        self._work(Live(info))

    # -- begin and end of the server ---------------------------------------------------------------

    def resume(self) -> None:
        """Go on with what the end of the last process cut off."""
        for info in list(self.runs.values()):
            if not info.is_working:
                continue
            if info.agent not in self.agents:
                self._end(info, "failed", "error", f"There is no agent {info.agent!r} any more.")
            elif info.attempt >= MOST_ATTEMPTS:
                self._end(info, "killed", "error", f"{info.attempt} attempts ended before the run did.")
            else:
                self.go_on(info)

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, and let runs end. Those that do not are left for the next process.

        Args:
            seconds: How long to wait at most.
        """
        self.is_draining = True
        tasks = {each for each in (*(live.task for live in self.at_work), *self._guests) if each is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        left = self.at_work
        for live in left:
            live.guard.is_draining = True  # what a tool at work does by then is still recorded
        if left and seconds:
            await asyncio.wait({each.task for each in left if each.task is not None}, timeout=CUT_SECONDS)
        for live in self.at_work:
            live.guard.is_cut = True
            if live.task is not None:
                live.task.cancel()
        if left:
            LOG.warning("%d runs are left for the next start", len(left))
            await asyncio.wait({each.task for each in left if each.task is not None}, timeout=5)

    async def close(self) -> None:
        """Stop at once what is still at work, and close files."""
        await self.drain(0)
        for channel in self._channels.values():
            channel.close()
        self._file.close()

    def wake_viewers(self) -> None:
        """Have all viewers look around."""
        for channel in self._channels.values():
            channel.wake()

    @property
    def folders(self) -> Mapping[str, str]:
        """The folders that people put sessions into, by session."""
        return self._file.folders

    def put_in_folder(self, session: str, folder: str) -> None:
        """Put a session into a folder of the list; empty for none."""
        self._file.put_in_folder(session, folder)

    def forget_session(self, session: str) -> None:
        """A session was deleted: its events go too."""
        self.channel(session).delete()
        del self._channels[session]
        self._file.forget_session(session)


def sealed_key(person: Person, key: str, asked: Any) -> str:
    """An idempotency key of a person, and what was asked with it, as two hashes; empty for no key.

    Args:
        person: Who asks.
        key: The key; empty for none.
        asked: What is asked.
    """
    if not key:
        return ""
    parts = (f"{person.name}\0{key}", repr(asked))
    return ":".join(hashlib.sha256(each.encode("utf-8", "replace")).hexdigest() for each in parts)
