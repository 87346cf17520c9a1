"""A journal that returns what was recorded, and compares the run with the recording at each checkpoint."""

from __future__ import annotations

import asyncio
import difflib
import json
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

from pure_agent_loop.budget import Budget
from pure_agent_loop.errors import LLMError, SessionReadError
from pure_agent_loop.inbox import Inbox, Incoming
from pure_agent_loop.kernel.journal import Checkpointed
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.parts import change_of
from pure_agent_loop.permissions import VerdictError
from pure_agent_loop.sessions.effects import read_effect
from pure_agent_loop.support.clock import SystemClock
from pure_agent_loop.support.text import to_jsonable

T = TypeVar("T")
_NOT_COMPARED = {"messages", "session_id"}
_TIMES = {"seconds", "warned_at_second"}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay is not what was recorded.

    Args:
        run: Which run of the session, from 1.
        step: The step that was being prepared, or was the last.
        what: ``message``, ``state``, ``parts``, ``tools``, ``options``, ``effect`` or ``end``.
        message: Which message of the history, from 1; 0 if it is about something else.
        expected: What is recorded, as plain JSON.
        got: What came out, as plain JSON.
    """

    run: int
    step: int
    what: str
    message: int = 0
    expected: Any = None
    got: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)

    def __str__(self) -> str:
        number = f" {self.message}" if self.message else ""
        before, after = _pretty(self.expected), _pretty(self.got)
        lines = difflib.unified_diff(before, after, "recorded", "replayed", n=3, lineterm="")
        return "\n".join([f"run {self.run}, step {self.step}: {self.what}{number} differs", *lines])


def _pretty(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return [] if value is None else json.dumps(value, ensure_ascii=False, indent=2).splitlines()


class Stopped(BaseException):
    """The replay of a run ends here: nothing more is recorded, or something differs."""


@dataclass
class Window:
    """What is recorded between two checkpoints, and what the second one says; None if there is none."""

    effects: dict[str, tuple[str, Any]]
    begun: set[str] = field(default_factory=set)  # calls that were running when the run was cut off
    intents: dict[str, dict[str, Any]] = field(default_factory=dict)  # of earlier processes
    parts: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] | None = None

    @property
    def was_cancelled(self) -> bool:
        """True if the run was stopped from outside, at a moment that nobody wrote down."""
        return self.state is not None and self.state.get("stop_reason") == "cancelled"

    @property
    def seconds(self) -> float | None:
        """What the run's clock said."""
        return None if self.state is None else float(self.state["ledger"]["seconds"])


class RecordedClock(SystemClock):
    """Says first when the run began, then what the run read at the next checkpoint."""

    def __init__(self, start: float) -> None:
        self.seconds = start
        self._start: list[float] = [start]

    def now(self) -> float:
        """The same; nothing compares it."""
        return self.seconds

    def monotonic(self) -> float:
        """Seconds the run had worked."""
        return self._start.pop() if self._start else self.seconds


class RecordedBudget(Budget):
    """Is used up when it was: what other runs took of it is not recorded."""

    journal: ReplayJournal

    @property
    def used_up(self) -> str:
        """Whether it is what ends the run at the next checkpoint."""
        return "shared" if self._said("closing") else ""

    def passed_by(self, usage: TokenUsage, model: str) -> str:  # noqa: ARG002 - what counts is what happened
        """Whether it ended the run there without a further request."""
        return "shared" if self._said("stop_reason") and not self._said("closing") else ""

    def _said(self, name: str) -> bool:
        state = self.journal.window.state
        return state is not None and state.get(name) == "budget"


class ReplayJournal:
    """Returns what was recorded, and compares at each checkpoint.

    Args:
        run: Which run of the session, from 1.
        windows: What is recorded, from checkpoint to checkpoint; the last one is open.
        state: Where the run starts.
    """

    def __init__(self, run: int, windows: Iterator[Window], state: QueryState) -> None:
        self.difference: Difference | None = None
        self.steps = 0
        self.clock = RecordedClock(state.ledger.seconds)
        self._run, self._windows, self._state = run, windows, state
        self._stopped = False
        self._changes: list[Mapping[str, Any]] = []
        self._equal: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])  # replayed, recorded
        self._next()

    def _next(self) -> None:
        self.window = next(self._windows, Window({}))
        self._taken = 0
        if self.window.seconds is not None:
            self.clock.seconds = self.window.seconds

    async def effect(
        self,
        key: str,
        run: Callable[[], Awaitable[T]],  # noqa: ARG002 - nothing happens
        about: Mapping[str, Any] | None = None,  # noqa: ARG002 - the recorded intent says the same
    ) -> T:
        """What is recorded for `key`."""
        effects = self.window.effects
        if key in effects:
            value: T = self._recorded(key, *effects.pop(key))
            return value
        step, kind, *call = key.split(":", 2)
        if kind == "tool" and f"{step}:timeout:{call[0]}" in effects:
            await asyncio.Event().wait()  # until its time is up, which takes no time here
        self._miss(key, [each for each in effects if each.split(":")[1] == kind])
        raise Stopped

    def recorded(self, key: str) -> bool:
        """True if something is."""
        return key in self.window.effects

    def begun(self, key: str) -> Mapping[str, Any] | None:
        """What was said about a call that began before this run."""
        return self.window.intents.get(key)

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:  # noqa: ARG002 - nobody writes
        """What had come in at this point."""
        key = f"inbox:{self._taken}"
        self._taken += 1
        found = self.window.effects.pop(key, None)
        return [] if found is None else self._recorded(key, *found)

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Keep it for the comparison."""
        self._changes.append(change_of(part))

    def checkpoint(self, state: Checkpointed) -> None:
        """Compare, and go on to what is recorded next."""
        if self._stopped:
            return
        expected = self.window.state
        if expected is None:
            self._stop(None)
        was_cancelled = self.window.was_cancelled and self._state.stop_reason is None
        found = self._in_messages(state.messages, beginning=was_cancelled)
        if found is None and not was_cancelled:
            found = self._in_state(state.to_dict()) or self._in_parts()
        self._changes = []
        if found is not None or was_cancelled:
            self._stop(found)
        self.steps += self._state.stop_reason is None
        self._next()

    def close(self) -> None:
        """The loop is through: nothing more may be recorded."""
        if not self._stopped and self.window.state is not None:
            self.difference = self._differs("end", expected="the run goes on", got="the run has ended")

    def stuck(self) -> None:
        """Nothing will ever go on."""
        self._stopped = True
        self.difference = self._differs("effect", expected="", got="the run waits for something unrecorded")

    def _recorded(self, key: str, kind: str, value: Any) -> Any:
        try:
            found = _failure(value) if kind == "failure" else read_effect(key, kind, value)
        except (SessionReadError, TypeError, ValueError, KeyError, AttributeError) as error:
            self._stop(self._differs("effect", expected={key: value}, got=f"it cannot be read: {error}"))
        if kind == "failure":
            raise found
        return found

    def _miss(self, key: str, others: list[str]) -> None:
        """Nothing is recorded for an effect: the end of the recording, or a difference."""
        is_end = self.window.state is None or self.window.was_cancelled
        if not is_end or (others and key not in self.window.begun):
            self._stop(self._differs("effect", expected=others or "none", got=key))
        self._stop(self._in_messages(self._state.messages, beginning=True) if self.window.state else None)

    def _stop(self, difference: Difference | None) -> None:
        self._stopped = True
        self.difference = self.difference or difference
        raise Stopped

    def _in_messages(self, messages: list[dict[str, Any]], *, beginning: bool) -> Difference | None:
        expected = self.window.messages
        if beginning:
            shared = min(len(messages), len(expected))
            messages, expected = messages[:shared], expected[:shared]
        known, before = self._equal
        if not (_begins_with(messages, known) and _begins_with(expected, before)):
            known = []
        self._equal = list(messages), list(expected)
        begin = len(known)
        if messages[begin:] == expected[begin:]:
            return None
        for number, (old, new) in enumerate(zip_longest(expected[begin:], messages[begin:]), begin + 1):
            if old != new and old != to_jsonable(new):
                return self._differs("message", number, expected=old, got=to_jsonable(new))
        return None

    def _in_state(self, form: dict[str, Any]) -> Difference | None:
        expected = self.window.state or {}
        old, new = {}, {}
        for name in form.keys() & expected.keys() - _NOT_COMPARED:
            if form[name] != expected[name]:
                was, now = _timeless(expected[name]), _timeless(to_jsonable(form[name]))
                if was != now:
                    old[name], new[name] = was, now
        return self._differs("state", expected=old, got=new) if old else None

    def _in_parts(self) -> Difference | None:
        """The calls went the same way; what was streamed in pieces is recorded as a whole."""
        old, new = _ways(self.window.parts), _ways(self._changes)
        return self._differs("parts", expected=old, got=new) if old and old != new else None

    def _differs(self, what: str, message: int = 0, *, expected: Any, got: Any) -> Difference:
        return Difference(self._run, self._state.step, what, message, expected, got)


def _begins_with(messages: list[dict[str, Any]], known: list[dict[str, Any]]) -> bool:
    """True if these very messages are still its beginning."""
    return len(messages) >= len(known) and all(map(operator.is_, known, messages))


def _ways(changes: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    return [[each.get("id"), each.get("state")] for each in changes if each.get("call_id")]


def _timeless(value: Any) -> Any:
    """Without the times in a ledger."""
    return {k: v for k, v in value.items() if k not in _TIMES} if isinstance(value, dict) else value


def _failure(said: Mapping[str, Any]) -> Exception:
    if "kind" in said:
        return LLMError(said["message"], kind=said["kind"])
    if said["error"] == VerdictError.__name__:  # it ends a run, and others do not
        return VerdictError(said["message"])
    kind: type[Exception] = type(said["error"], (Exception,), {})
    return kind(said["message"])
