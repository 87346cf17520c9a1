"""Replay a session: run the loop again offline and compare each step with the recording.

The records supply the model's responses, tool results, decisions, messages from people, and the times that
limits depend on. A replay calls no model, no tool and no user function, and touches no files. At each
checkpoint (when a request is ready, and at the end of a run) history and state must equal the recorded ones.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import selectors
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pure_agent_loop.budget import Budget
from pure_agent_loop.errors import (
    ConfigError,
    LimitExceededError,
    LLMError,
    PureAgentLoopError,
    SessionReadError,
)
from pure_agent_loop.events import Event
from pure_agent_loop.inbox import Inbox, Incoming
from pure_agent_loop.kernel.journal import Checkpointed
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import META
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.parts import change_of
from pure_agent_loop.permissions import VerdictError
from pure_agent_loop.runs.handoff import HandoffTarget, handed_state, member_at, resolve_handoff
from pure_agent_loop.runs.settings import kit_of
from pure_agent_loop.sessions.resume import first_state, recorded_input
from pure_agent_loop.sessions.run_record import describe, read_prices, rebuild
from pure_agent_loop.sessions.stores.records import Record, dicts_in
from pure_agent_loop.sessions.transcript import EFFECTS, ResumePoint, read_effect, starts_with
from pure_agent_loop.support.clock import SystemClock
from pure_agent_loop.support.explained import recorded_failure
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import PlainForm, counted, to_jsonable

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

__all__ = ["Difference", "ReplayReport", "replay_session"]

# -- replay journal: returns recorded effects and compares the run with the recording at each checkpoint ---

T = TypeVar("T")
Watch = Callable[[str, Any], None]
_NOT_COMPARED = {"messages", "session_id"}
_TIMES = {"seconds", "warned_at_second"}
_COUNTS = ("context", "usage")


@dataclass(frozen=True, slots=True)
class Difference(PlainForm):
    """First difference between a replay and the recording.

    Args:
        run: Number of the run in the session, from 1.
        step: Step of the difference; the last step if the difference came after it.
        what: ``message``, ``state``, ``parts``, ``tools``, ``options``, ``effect`` or ``end``.
        message: Number of the message in the history, from 1; 0 if `what` is not ``message``.
        expected: Recorded value, as plain JSON.
        got: Replayed value, as plain JSON.
    """

    run: int
    step: int
    what: str
    message: int = 0
    expected: Any = None
    got: Any = None

    def __str__(self) -> str:
        number = f" {self.message}" if self.message else ""
        before, after = _plain_lines(self.expected), _plain_lines(self.got)
        lines = difflib.unified_diff(before, after, "recorded", "replayed", n=3, lineterm="")
        return "\n".join([f"run {self.run}, step {self.step}: {self.what}{number} differs", *lines])


def _plain_lines(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return [] if value is None else json.dumps(value, ensure_ascii=False, indent=2).splitlines()


class Stopped(BaseException):
    """Raised to end the replay of a run: the recording has ended, or a difference was found."""


@dataclass
class Window:
    """Records between two checkpoints, and the state at the second checkpoint if it was reached."""

    effects: dict[str, tuple[str, Any]]
    running: set[str] = field(default_factory=set)  # calls that were running when the run was interrupted
    # Intents of calls begun by earlier processes.
    intents: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)
    messages: list[HistoryMessage] = field(default_factory=list)
    state: dict[str, Any] | None = None

    @property
    def was_cancelled(self) -> bool:
        """True if the run was cancelled from outside, at an unrecorded moment."""
        return self.state is not None and self.state.get("stop_reason") == "cancelled"

    @property
    def seconds(self) -> float | None:
        """Seconds on the run's clock at the second checkpoint."""
        return None if self.state is None else float(self.state["ledger"]["seconds"])


class RecordedClock(SystemClock):
    """Clock that returns the start of the run first, then the time recorded at the next checkpoint."""

    def __init__(self, start: float) -> None:
        self.seconds = start
        self._start: list[float] = [start]

    def now(self) -> float:
        """Return the recorded time; times are not compared."""
        return self.seconds

    def monotonic(self) -> float:
        """Return the recorded running time, in seconds."""
        return self._start.pop() if self._start else self.seconds


class RecordedBudget(Budget):
    """Budget that ends the run where the recorded run ended, as the spending of other runs is unknown."""

    journal: ReplayJournal

    @property
    def used_up(self) -> str:
        """Return ``shared`` if the budget allowed only a last request at the next checkpoint."""
        return "shared" if self._state_is("closing") else ""

    def passed_by(self, usage: TokenUsage, model: str) -> str:  # noqa: ARG002 - only the recording counts
        """Return ``shared`` if the budget ended the run at the next checkpoint without a last request."""
        return "shared" if self._state_is("stop_reason") and not self._state_is("closing") else ""

    def _state_is(self, name: str) -> bool:
        state = self.journal.window.state
        return state is not None and state.get(name) == "budget"


class ReplayJournal:
    """Journal that returns recorded effects and compares at each checkpoint.

    Args:
        run: Number of the run in the session, from 1.
        windows: Records from checkpoint to checkpoint; the last window has no state.
        watch: Called with the key and the recorded value of each effect, and with each checkpoint.
    """

    def __init__(self, run: int, windows: Iterator[Window], state: QueryState, watch: Watch) -> None:
        self.difference: Difference | None = None
        self.steps = 0
        self.clock = RecordedClock(state.ledger.seconds)
        self._run, self._windows, self._state, self._watch = run, windows, state, watch
        self._stopped = False
        self._changes: list[Mapping[str, Any]] = []
        self._equal: tuple[list[HistoryMessage], list[HistoryMessage]] = ([], [])  # replayed, recorded
        self._next_window()

    def _next_window(self) -> None:
        self.window = next(self._windows, Window({}))
        self._taken = 0
        if self.window.seconds is not None:
            self.clock.seconds = self.window.seconds

    async def effect(
        self,
        key: str,
        run: Callable[[], Awaitable[T]],  # noqa: ARG002 - effects are not executed
        about: Mapping[str, Any] | None = None,  # noqa: ARG002 - the intent is recorded
    ) -> T:
        """Return the recorded result of `key`."""
        effects = self.window.effects
        if key in effects:
            return cast("T", self._recorded(key, *effects.pop(key)))
        step, kind, *call = key.split(":", 2)
        if kind == "tool" and f"{step}:timeout:{call[0]}" in effects:
            await asyncio.Event().wait()  # the recorded call timed out: wait until this one times out too
        self._stop_at_unrecorded(key, [name for name in effects if name.split(":")[1] == kind])
        raise Stopped

    def recorded(self, key: str) -> bool:
        """Return True if a result is recorded for `key`."""
        return key in self.window.effects

    def intent_of(self, key: str) -> Mapping[str, Any] | None:
        """Return the recorded intent of a call that began before this run."""
        return self.window.intents.get(key)

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:  # noqa: ARG002 - it is recorded
        """Return the messages that were taken from the inbox at this point."""
        key = f"inbox:{self._taken}"
        self._taken += 1
        messages = self.window.effects.pop(key, None)
        return [] if messages is None else self._recorded(key, *messages)

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Keep a change to a message part for the comparison."""
        self._changes.append(change_of(part))

    def checkpoint(self, state: Checkpointed) -> None:
        """Compare with the recorded checkpoint, and move to the next window."""
        if self._stopped:
            return
        self._watch("checkpoint", self._state)
        expected = self.window.state
        if expected is None:
            self._stop(None)
        was_cancelled = self.window.was_cancelled and self._state.stop_reason is None
        difference = self._compare_messages(state.messages, beginning=was_cancelled)
        if difference is None and not was_cancelled:
            difference = self._compare_state(state.to_dict()) or self._compare_parts()
        self._changes = []
        if difference is not None or was_cancelled:
            self._stop(difference)
        self.steps += self._state.stop_reason is None
        self._next_window()

    def close(self) -> None:
        """Check that the recording ends with the run."""
        if not self._stopped and self.window.state is not None:
            self.difference = self._difference("end", expected="the run continues", got="the run has ended")

    def stuck(self) -> None:
        """Report that the run is waiting for an event that cannot happen."""
        self._stopped = True
        self.difference = self._difference(
            "effect", expected="", got="the run waits for something unrecorded"
        )

    def _recorded(self, key: str, kind: str, value: Any) -> Any:
        self._watch(key, value)
        try:
            value = _as_error(value) if kind == "failure" else read_effect(key, kind, value)
        except (SessionReadError, TypeError, ValueError, KeyError, AttributeError) as error:
            self._stop(self._difference("effect", expected={key: value}, got=f"it cannot be read: {error}"))
        if kind == "failure":
            raise value
        return value

    def _stop_at_unrecorded(self, key: str, others: list[str]) -> None:
        """Stop at an unrecorded effect: either the recording ends here, or the replay differs from it."""
        is_end = self.window.state is None or self.window.was_cancelled
        if not is_end or (others and key not in self.window.running):
            self._stop(self._difference("effect", expected=others or "none", got=key))
        self._stop(
            self._compare_messages(self._state.messages, beginning=True) if self.window.state else None
        )

    def _stop(self, difference: Difference | None) -> None:
        self._stopped = True
        self.difference = self.difference or difference
        raise Stopped

    def _compare_messages(self, messages: list[HistoryMessage], *, beginning: bool) -> Difference | None:
        expected = self.window.messages
        if beginning:
            shared = min(len(messages), len(expected))
            messages, expected = messages[:shared], expected[:shared]
        known, before = self._equal
        if not (starts_with(messages, known) and starts_with(expected, before)):
            known = []
        self._equal = list(messages), list(expected)
        begin = len(known)
        if messages[begin:] == expected[begin:]:
            return None
        for number, (old, new) in enumerate(zip_longest(expected[begin:], messages[begin:]), begin + 1):
            if old != new and old not in (plain := to_jsonable(new), _without_failed(plain)):
                return self._difference("message", number, expected=old, got=to_jsonable(new))
        return None

    def _compare_state(self, form: dict[str, Any]) -> Difference | None:
        expected = self.window.state or {}
        old, new = {}, {}
        for name in form.keys() & expected.keys() - _NOT_COMPARED:
            if form[name] != expected[name]:
                was, now = _without_times(expected[name]), _without_times(to_jsonable(form[name]))
                if name in _COUNTS and isinstance(was, dict):  # older versions recorded fewer counters
                    now = {count: now[count] for count in now if count in was}
                if was != now:
                    old[name], new[name] = was, now
        return self._difference("state", expected=old, got=new) if old else None

    def _compare_parts(self) -> Difference | None:
        """Compare the states of calls, but not streamed pieces, which are recorded joined together."""
        old, new = _call_states(self.window.parts), _call_states(self._changes)
        return self._difference("parts", expected=old, got=new) if old and old != new else None

    def _difference(self, what: str, message: int = 0, *, expected: Any, got: Any) -> Difference:
        return Difference(self._run, self._state.step, what, message, expected, got)


def _call_states(changes: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    return [[change.get("id"), change.get("state")] for change in changes if change.get("call_id")]


def _without_failed(message: Any) -> Any:
    """Return a message as earlier versions recorded it: without the mark for a failed call."""
    is_result = isinstance(message, dict) and message.get(META) == {"failed": True}
    return {name: field for name, field in message.items() if name != META} if is_result else message


def _without_times(value: Any) -> Any:
    """Return a ledger without its times."""
    return {k: v for k, v in value.items() if k not in _TIMES} if isinstance(value, dict) else value


def _as_error(failure: Mapping[str, Any]) -> Exception:
    name, text = failure["error"], failure["message"]
    if "kind" in failure:
        error: LLMError | LimitExceededError = recorded_failure(failure)
    elif "limit" in failure:
        kind, limit, reached = failure["limit"]
        error = LimitExceededError(kind, limit, reached, text)
        error.note = str(failure.get("note", ""))
    elif name == VerdictError.__name__:  # the only error without a kind or a limit that ends a run
        return VerdictError(text)
    else:
        unknown_error: Exception = type(name, (Exception,), {})(text)
        return unknown_error
    error.spent = TokenUsage.from_dict(failure["spent"]) if "spent" in failure else None
    return error


@dataclass(frozen=True, slots=True)
class ReplayReport(PlainForm):
    """Result of a replay.

    Args:
        runs: Number of replayed runs, including the one with the difference.
        difference: First difference; None if there is none.
    """

    runs: int
    steps: int
    difference: Difference | None = None

    def __str__(self) -> str:
        if self.difference is not None:
            return str(self.difference)
        return f"{counted(self.runs, 'run')}, {counted(self.steps, 'step')}: identical"


def replay_session(
    records: Sequence[Record], *, agent: HandoffTarget | None = None, watch: Watch | None = None
) -> ReplayReport:
    """Run the loop again on the records of a session.

    Args:
        records: Records of the session: `SessionStore.read(session_id).records`.
        agent: Agent whose prompts, limits, permissions, tools and system prompt replace the recorded
            ones, so that changes to them are reported as differences. The model and the functions of this
            agent are not called.
        watch: Called inside the loop, in another thread, with a name and a value: an event's type and the
            event, an effect's key and its recorded value, or ``checkpoint`` and the state.

    Returns:
        The report, up to the first difference. An interrupted run is replayed to its last record.

    Raises:
        ConfigError: The records hold no run, or lack data that a replay needs.
        SessionReadError: A record holds data of the wrong type.
    """
    replay, raised = _Replay(records, agent, watch or _ignore), list[BaseException]()

    def work() -> None:
        try:
            replay.work()
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            raised.append(error)

    # The calling thread may run an event loop, so the replay needs another thread.
    thread = threading.Thread(target=work, name="pal-replay", daemon=True)
    thread.start()
    thread.join()
    if raised and isinstance(raised[0], Exception) and not isinstance(raised[0], PureAgentLoopError):
        # A replay runs no user code, so this error was caused by invalid records.
        why = f"{type(raised[0]).__name__}: {raised[0]}"
        raise SessionReadError(notice("library.replay_invalid", why=why)) from raised[0]
    if raised:
        raise raised[0]
    return replay.report


class _Replay:
    """One replay of all runs in a session."""

    def __init__(self, records: Iterable[Record], agent: HandoffTarget | None, watch: Watch) -> None:
        self.report = ReplayReport(0, 0)
        self._records = list(records)
        self._agent, self._watch = agent, watch
        self._point = ResumePoint()
        self._journal: ReplayJournal | None = None
        self._task: asyncio.Task[None] | None = None

    def work(self) -> None:
        loop = SkippingLoop(self._on_idle)
        try:
            self._task = loop.create_task(self._replay_runs())
            loop.run_until_complete(self._task)
        finally:
            loop.close()

    def _on_idle(self) -> None:
        if self._journal is None or self._task is None:
            raise RuntimeError("the replay waits for an event that cannot happen")
        self._journal.stuck()
        self._task.cancel()

    async def _replay_runs(self) -> None:
        begins = [number for number, record in enumerate(self._records) if record.type == "run"]
        if not begins:
            raise ConfigError(notice("library.replay_no_run"))
        for record in self._records[: begins[0]]:
            self._point.take(record)
        for begin, end in zip(begins, [*begins[1:], len(self._records)], strict=True):
            await self._run(self._records[begin], self._records[begin + 1 : end])
            if self.report.difference is not None:
                return

    def _windows(self, window: Window, records: list[Record]) -> Iterator[Window]:
        """Yield the records between two checkpoints, and keep the resume point up to date."""
        for record in records:
            self._point.take(record)
            key = str(record.data.get("key"))
            if record.type == "state":
                yield replace(window, messages=self._point.messages, state=record.data)
                window = Window({})
            elif record.type == "intent":
                window.running.add(key)
            elif record.type == "parts":
                window.parts += dicts_in(record.data, "parts")
            elif record.type == "failure":
                window.effects[key] = ("failure", record.data)
            elif record.type in EFFECTS:
                window.effects[key] = (record.type, record.data.get("value"))
        yield window

    async def _run(self, record: Record, records: list[Record]) -> None:
        run, point = record.data, replace(self._point)
        number = self.report.runs + 1
        try:
            config = self._run_config(run, point)
            kit = rebuild(config)
            state = self._first_state(run, point, kit)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                notice("library.replay_lacks", number=number, kind=type(error).__name__, error=error)
            ) from error
        self._point.take(record)
        windows = self._windows(Window(dict(point.effects), point.unfinished, dict(point.intents)), records)
        self._journal = journal = ReplayJournal(number, windows, state, self._watch)
        journal.difference = _compare_request(number, run, config)
        if journal.difference is None:
            kit = replace(_with_budget(kit, config, journal), emit=self._emit)
            await _run_to_end(state, kit, journal)
        self.report = ReplayReport(number, self.report.steps + journal.steps, journal.difference)
        for _ in windows:  # exhaust the iterator, which updates the resume point
            pass

    async def _emit(self, event: Event) -> None:
        self._watch(event.type.value, event)

    def _run_config(self, run: Mapping[str, Any], point: ResumePoint) -> Mapping[str, Any]:
        if self._agent is None:
            return run
        state = point.to_state() or QueryState()
        state.handed_to, state.stop_reason = list(run.get("in_charge", ())), None
        kit, _ = resolve_handoff(self._agent, kit_of(self._agent), state, new_task=False)
        return {
            **to_jsonable(describe(kit)),
            **{name: run[name] for name in ("model", "takes_meta", "origin") if name in run},
        }

    def _first_state(self, run: Mapping[str, Any], point: ResumePoint, kit: Kit) -> QueryState:
        recorded, prompt = recorded_input(run), run["system_prompt"]
        chain, is_handed = list(run.get("in_charge", ())), bool(run.get("handoff"))
        if self._agent is not None and (is_handed or recorded.messages is None):
            # Otherwise the recorded prompt is kept, because it may come from messages passed to the run.
            prompt = member_at(self._agent, chain).system_prompt
        if is_handed:
            return handed_state(point.to_state() or QueryState(), prompt, run.get("history", point.messages))
        state = first_state(point, "", replace(recorded, system_prompt=prompt), kit.prompts)[0]
        if state.handed_to and recorded.task is not None:
            state.handed_to, state.system_prompt = chain, prompt
        return state


def _compare_request(number: int, run: Mapping[str, Any], config: Mapping[str, Any]) -> Difference | None:
    """Compare the tools, the options and the output type of the run's requests."""
    for name in ("tools", "options", "output"):
        if run[name] != config[name]:
            return Difference(number, 0, name, expected=run[name], got=config[name])
    return None


def _with_budget(kit: Kit, config: Mapping[str, Any], journal: ReplayJournal) -> Kit:
    budget = None
    if config["budget"] is not None:
        budget = RecordedBudget(prices=read_prices(config["budget"]["prices"]))
        budget.journal = journal
    return replace(kit, budget=budget, journal=journal, clock=journal.clock)


async def _run_to_end(state: QueryState, kit: Kit, journal: ReplayJournal) -> None:
    try:
        await run_loop(state, kit)
        journal.close()
    except (Stopped, asyncio.CancelledError):
        pass
    finally:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Selector(selectors.DefaultSelector):
    """Selector that never waits, and adds up the skipped time."""

    skipped = 0.0

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the events that are ready now."""
        if timeout is None:
            self._on_idle()
        else:
            self.skipped += max(timeout, 0.0)
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """Event loop that skips timers instead of waiting.

    Args:
        on_idle: Function to call when no task can ever continue; it must end the wait.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._skipping = _Selector(on_idle)
        super().__init__(self._skipping)
        self.set_exception_handler(_ignore)

    def time(self) -> float:
        """Return the loop time plus the skipped time."""
        return super().time() + self._skipping.skipped


def _ignore(source: object, value: object) -> None:
    """Ignore events without a listener, and errors of abandoned tasks, which the journal reports."""
