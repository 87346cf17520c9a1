"""Replaying a session: the loop runs again, offline, and each step must come out as it was recorded.

Model answers, tool results, decisions and messages of people come from the records; so do the times that
limits look at. Nothing is asked, no tool and no function of the user is called, no file is touched. At each
checkpoint (when a request is ready, and at the end of a run) the history and the state must be the recorded
ones.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import ConfigError, PureAgentLoopError, SessionReadError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.runs.handoff import Member, handed_state, in_charge, member_at
from pure_agent_loop.sessions.replay_journal import (
    Difference,
    RecordedBudget,
    ReplayJournal,
    Stopped,
    Window,
)
from pure_agent_loop.sessions.resume import first_state, recorded_input
from pure_agent_loop.sessions.run_record import describe, read_prices, rebuild
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import EFFECTS, Past, dicts_in
from pure_agent_loop.support.text import to_jsonable

__all__ = ["Difference", "ReplayReport", "replay_session"]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came out of a replay.

    Args:
        runs: Runs that were replayed, the one with the difference included.
        steps: Steps that were prepared exactly as recorded.
        difference: The first difference; None if there is none.
    """

    runs: int
    steps: int
    difference: Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        difference = None if self.difference is None else self.difference.to_dict()
        return {"runs": self.runs, "steps": self.steps, "difference": difference}

    def __str__(self) -> str:
        if self.difference is not None:
            return str(self.difference)
        runs, steps = _counted(self.runs, "run"), _counted(self.steps, "step")
        return f"{runs}, {steps}: identical"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def replay_session(records: Sequence[Record], *, agent: Member | None = None) -> ReplayReport:
    """Run the loop again over what a session recorded.

    Args:
        records: The session: `SessionStore.read(session_id).records`.
        agent: Its prompts, limits, permissions, tools and system prompt are used instead of the recorded
            ones, so a change of them shows as a difference. Neither its model nor its functions are called.

    Returns:
        What was replayed, up to the first difference. A run that was cut off is replayed as far as it is
        recorded.

    Raises:
        ConfigError: These are no records of runs, or not all that a replay needs is in them.
        SessionReadError: Something in them is of another type.
    """
    replay, raised = _Replay(records, agent), list[BaseException]()

    def work() -> None:
        try:
            replay.work()
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that asked
            raised.append(error)

    # In a thread of its own, because there may be an event loop in this one.
    thread = threading.Thread(target=work, name="pal-replay", daemon=True)
    thread.start()
    thread.join()
    if raised and isinstance(raised[0], Exception) and not isinstance(raised[0], PureAgentLoopError):
        # Nothing of a user runs in a replay: what fails is what was read.
        why = f"{type(raised[0]).__name__}: {raised[0]}"
        raise SessionReadError(f"These records cannot be replayed; wrong in them: {why}") from raised[0]
    if raised:
        raise raised[0]
    return replay.report


class _Replay:
    """One replay, run after run."""

    def __init__(self, records: Iterable[Record], agent: Member | None) -> None:
        self.report = ReplayReport(0, 0)
        self._records = list(records)
        self._agent = agent
        self._past = Past()
        self._journal: ReplayJournal | None = None
        self._task: asyncio.Task[None] | None = None

    def work(self) -> None:
        loop = SkippingLoop(self._on_idle)
        try:
            self._task = loop.create_task(self._all())
            loop.run_until_complete(self._task)
        finally:
            loop.close()

    def _on_idle(self) -> None:
        if self._journal is None or self._task is None:
            raise RuntimeError("the replay waits for ever")
        self._journal.stuck()
        self._task.cancel()

    async def _all(self) -> None:
        begins = [number for number, record in enumerate(self._records) if record.type == "run"]
        if not begins:
            raise ConfigError("There is no run in these records, so nothing can be replayed.")
        for record in self._records[: begins[0]]:
            self._past.take(record)
        for begin, behind in zip(begins, [*begins[1:], len(self._records)], strict=True):
            await self._run(self._records[begin], self._records[begin + 1 : behind])
            if self.report.difference is not None:
                return

    def _windows(self, window: Window, records: list[Record]) -> Iterator[Window]:
        """What is recorded from checkpoint to checkpoint; the past comes along."""
        for record in records:
            self._past.take(record)
            key = str(record.data.get("key"))
            if record.type == "state":
                yield replace(window, messages=self._past.messages, state=record.data)
                window = Window({})
            elif record.type == "intent":
                window.begun.add(key)
            elif record.type == "parts":
                window.parts += dicts_in(record.data, "parts")
            elif record.type == "failure":
                window.effects[key] = ("failure", record.data)
            elif record.type in EFFECTS:
                window.effects[key] = (record.type, record.data.get("value"))
        yield window

    async def _run(self, record: Record, records: list[Record]) -> None:
        run, past = record.data, replace(self._past)
        number = self.report.runs + 1
        try:
            about = self._about(run, past)
            kit = rebuild(about)
            state = self._first_state(run, past, kit)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"Run {number} cannot be replayed: its record lacks something that this version writes "
                f"({type(error).__name__}: {error})."
            ) from error
        self._past.take(record)
        windows = self._windows(Window(dict(past.effects), past.unfinished, dict(past.intents)), records)
        self._journal = journal = ReplayJournal(number, windows, state)
        journal.difference = _in_request(number, run, about)
        if journal.difference is None:
            await _drive(state, _with_budget(kit, about, journal), journal)
        self.report = ReplayReport(number, self.report.steps + journal.steps, journal.difference)
        for _ in windows:  # what was not needed is part of the past of the next run all the same
            pass

    def _about(self, run: Mapping[str, Any], past: Past) -> Mapping[str, Any]:
        if self._agent is None:
            return run
        state = past.to_state() or QueryState()
        state.handed_to, state.stop_reason = list(run.get("in_charge", ())), None
        kit, _ = in_charge(self._agent, self._agent._kit, state, new_task=False)
        said: dict[str, Any] = to_jsonable(describe(kit))  # the two are one package
        return {**said, "model": run["model"], "takes_meta": run["takes_meta"]}

    def _first_state(self, run: Mapping[str, Any], past: Past, kit: Kit) -> QueryState:
        given, words = recorded_input(run), run["system_prompt"]
        chain, is_handed = list(run.get("in_charge", ())), bool(run.get("handoff"))
        if self._agent is not None and (is_handed or given.messages is None):
            words = member_at(self._agent, chain).system_prompt  # else the history may have brought its own
        if is_handed:
            return handed_state(past.to_state() or QueryState(), words, run.get("history", past.messages))
        state = first_state(past, "", replace(given, system_prompt=words), kit.prompts)[0]
        if state.handed_to and given.task is not None:
            state.handed_to, state.system_prompt = chain, words
        return state


def _in_request(number: int, run: Mapping[str, Any], about: Mapping[str, Any]) -> Difference | None:
    """What each request of the run has besides the messages."""
    for name in ("tools", "options", "output"):
        if run[name] != about[name]:
            return Difference(number, 0, name, expected=run[name], got=about[name])
    return None


def _with_budget(kit: Kit, about: Mapping[str, Any], journal: ReplayJournal) -> Kit:
    budget = None
    if about["budget"] is not None:
        budget = RecordedBudget(prices=read_prices(about["budget"]["prices"]))
        budget.journal = journal
    return replace(kit, budget=budget, journal=journal, clock=journal.clock)


async def _drive(state: QueryState, kit: Kit, journal: ReplayJournal) -> None:
    try:
        await run_loop(state, kit)
        journal.close()
    except (Stopped, asyncio.CancelledError):
        pass
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


class _Selector(selectors.DefaultSelector):
    """Never waits; notes how long it would have."""

    skipped = 0.0

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now."""
        if timeout is None:
            self._on_idle()
        else:
            self.skipped += max(timeout, 0.0)
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """For code that waits for nothing outside of itself.

    Args:
        on_idle: Called when nothing will ever go on; it must change that.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._skipping = _Selector(on_idle)
        super().__init__(self._skipping)
        self.set_exception_handler(_ignore)

    def time(self) -> float:
        """The time, with what was skipped."""
        return super().time() + self._skipping.skipped


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What is left behind in tasks is told elsewhere."""
