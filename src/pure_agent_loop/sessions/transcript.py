"""Write a run to its session, and read it back.

    run       start of a run: its task, system prompt, tools, limits and model
    messages  messages added to the history since the last record of this kind
    boundary  the whole history, after its older part was shortened
    state     state of the run without the messages; it includes everything recorded before it
    answer    response from the model
    intent    a tool is about to run
    outcome   outcome of the tool
    value     decision of a user function or a person; incoming messages; a summary
    parts     state changes of a step's parts, with times; written when the step ends
    failure   error from an effect; the effect is tried again when the run is resumed
    base      history and state at the end of a run, so that later runs need not read earlier records
    left      a durable run continues the run in a copy of the session; a record with an empty id cancels this
    end       stop reason of a run

After a crash, the newest state and the effects after it are restored. An intent without an outcome means that
the effect of the tool is unknown.
"""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from pure_agent_loop.errors import ConfigError, LimitExceededError, LLMError, SessionReadError
from pure_agent_loop.hooks import BeforeTool
from pure_agent_loop.inbox import Inbox, Incoming
from pure_agent_loop.kernel.journal import Checkpointed
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import as_history, calls_of
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage, get
from pure_agent_loop.parts import change_of
from pure_agent_loop.permissions import Permission
from pure_agent_loop.sessions.cost import COSTLY, METADATA, day_of, read_expenses, spending_of
from pure_agent_loop.sessions.run_record import describe
from pure_agent_loop.sessions.store import SessionLog, SessionStore, appends_many, is_remote, needs_base
from pure_agent_loop.sessions.stores.records import BASE, Record, dicts_in
from pure_agent_loop.stop_reasons import BACKGROUNDED, HANDED_OFF, WAITING
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import safe_str, to_jsonable
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread
from pure_agent_loop.support.typed import mistyped
from pure_agent_loop.tool import ToolOutcome

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

# -- convert results of effects to their plain form in a record, and back --------------------------------

_EXPECTED_TYPES = {
    "model": LLMResponse,
    "tool": ToolOutcome,
    "timeout": ToolOutcome,
    "permit": Permission,
    "ask": Permission,
    "before": BeforeTool,
    "judge": Permission | None,
    "forms": list[str],
    "refusal": list[str],
}
# Newer fields of an outcome, recorded only if set. `value` and `error`, Python objects, are never recorded.
_OPTIONAL_FIELDS = ("parts", "command", "refused")
_OUTCOME_FIELDS = [
    field.name for field in fields(ToolOutcome) if field.name not in (*_OPTIONAL_FIELDS, "value", "error")
]
_NOTHING = TokenUsage.zero().to_dict()
_UNFINISHED = (*WAITING, HANDED_OFF, "cancelled")
T = TypeVar("T")
EFFECTS = ("answer", "outcome", "value")
LEFT = "left"  # type of a record: the run continues elsewhere
DURABLE_RUN = "durable_run"  # key of a `run` or `base` record: id of the durable run
HOLD_SECONDS = 0.05  # seconds for which a response is held back, to be written with its calls' intents


class _Spent(TypedDict, total=False):
    usage: dict[str, Any] | None
    cost: float | None
    tool_calls: int | None
    in_budget: bool | None
    unpriced: bool | None


def encode(value: Any) -> tuple[str, Any]:
    """Return the record type and the plain form of an effect's result."""
    if isinstance(value, LLMResponse):
        requests = get(value.raw, "requests")  # number of requests, if the response took several
        return "answer", {**value.to_dict(), **({"requests": requests} if isinstance(requests, int) else {})}
    if isinstance(value, ToolOutcome):
        plain = {name: getattr(value, name) for name in _OUTCOME_FIELDS}
        optional = {name: getattr(value, name) for name in _OPTIONAL_FIELDS}
        return "outcome", plain | {
            name: item for name, item in optional.items() if item not in (None, [], "")
        }
    if isinstance(value, (Permission, BeforeTool)):
        plain = asdict(value)
        if not plain.get("similar"):
            plain.pop("similar", None)
        return "value", {type(value).__name__: plain}
    return "value", to_jsonable(value)


def decode(kind: str, value: Any) -> Any:
    """Rebuild a value from its record type and plain form; the reverse of `encode`."""
    if kind == "answer":
        response = LLMResponse.from_dict(value)
        return replace(response, raw={"requests": value["requests"]}) if "requests" in value else response
    if kind == "outcome":
        return ToolOutcome(**value)
    for known in (Permission, BeforeTool):
        if isinstance(value, dict) and list(value) == [known.__name__]:
            return known(**value[known.__name__])
    return value


def read_effect(key: str, kind: str, value: Any) -> Any:
    """Decode the result of an effect and check its type against the effect's key.

    Raises:
        SessionReadError: The value has the wrong type.
    """
    step, _, what = key.partition(":")
    expected = list[Any] if step == "inbox" else _EXPECTED_TYPES.get(what.partition(":")[0], Any)
    try:
        effect = decode(kind, value)
        problem = mistyped(effect, type(effect) if expected is Any else expected, "the value")
        if not problem and step == "inbox":
            effect = [Incoming(*message) for message in effect]
            problem = mistyped(effect, list[Incoming])
        spent = effect.spent if isinstance(effect, ToolOutcome) else None
        problem = problem or _check_spent(spent)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise SessionReadError(problem)
    return effect


def wrong_effect(key: str, kind: str, value: Any) -> str:
    """Return the reason why `read_effect` would reject a value; empty if it is valid."""
    try:
        read_effect(key, kind, value)
    except SessionReadError as error:
        return str(error)
    return ""


def _check_spent(spent: Mapping[str, Any] | None) -> str:
    problem = mistyped(spent or {}, _Spent)
    return problem or mistyped(TokenUsage.from_dict((spent or {}).get("usage") or _NOTHING), TokenUsage)


def describe_failure(error: Exception) -> dict[str, Any]:
    """Return the plain form of an error, from which a replay can raise the same error."""
    failure: dict[str, Any] = {"error": type(error).__name__, "message": safe_str(error)}
    if isinstance(error, LLMError):
        failure["kind"] = error.kind
        told = {"status": error.status, "said": error.said, "about": dict(error.about or {})}
        failure |= {name: value for name, value in told.items() if value and value != error.message}
    elif isinstance(error, LimitExceededError):
        failure["limit"] = [error.limit_type, error.limit_value, error.current_value]
        failure |= {"note": error.note} if error.note else {}
    spent = getattr(error, "spent", None)
    return failure if spent is None else {**failure, "spent": spent.to_dict()}


class _Intent(TypedDict):
    key: str
    tool: str
    args: dict[str, Any]
    idempotent: bool


@dataclass
class ResumePoint:
    """Resume point of a session, read from its records.

    Args:
        state: Plain form of the newest state, without messages; None before the first checkpoint.
        effects: Effects recorded after that state, by key, as (type, data).
        intents: Intents of tool calls that have begun, by key.
        started_run: Record of the newest run that has a task or is a handoff; None once that run has a state.
        next_messages: History of the next state.
        after_hooks: Number of hooks that process each result before the model sees it.
        without_key: Descriptions of effects after the state that have no key.
        session_id: Id of the session; empty to count answers copied from another session.
        copied_answers: Keys of answers copied from another session by a fork. An approval allows one call, so
            a copied approval counts only if that call had begun.
        unused_answers: Keys of answers from outside a run that no run has used yet.
        durable_run: Id of the newest durable run; empty if there is none.
        left: Id of the durable run that continues the newest run elsewhere; empty if there is none.
    """

    messages: list[HistoryMessage] = field(default_factory=list)
    state: dict[str, Any] | None = None
    effects: dict[str, tuple[str, Any]] = field(default_factory=dict)
    intents: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: int = 0
    started_run: dict[str, Any] | None = None
    next_messages: list[HistoryMessage] = field(default_factory=list)
    after_hooks: int = 0
    without_key: list[str] = field(default_factory=list)
    session_id: str = ""
    copied_answers: set[str] = field(default_factory=set)
    unused_answers: set[str] = field(default_factory=set)
    durable_run: str = ""
    left: str = ""

    @property
    def unreadable(self) -> list[str]:
        """Descriptions of unreadable effects after the newest state; empty if all can be read."""
        intents = {key: mistyped(data, _Intent) for key, data in self.intents.items()}
        effects = {key: wrong_effect(key, *effect) for key, effect in self.effects.items()}
        named = [f"{key}: {why}" for problems in (intents, effects) for key, why in problems.items() if why]
        return [*self.without_key, *named]

    @property
    def unfinished(self) -> set[str]:
        """Keys of tool calls that have begun and have no outcome."""
        return self.intents.keys() - self.effects.keys()

    @property
    def was_cut_off(self) -> bool:
        """True if the process ended in the middle of a run."""
        if self.state is None:
            return False
        return self.state.get("stop_reason") is None or bool(self.effects or self.intents)

    def take(self, record: Record) -> None:
        """Add the next record; skip an invalid one, as files can be damaged."""
        data = record.data
        if record.type == "run":
            self.unused_answers, self.left = set(), ""
            self.durable_run = str(data.get(DURABLE_RUN, self.durable_run))
            self.runs += 1
            self.next_messages = self.messages  # this run records messages after the last state again
            if isinstance(data.get("task"), str) or data.get("handoff"):
                self.started_run = data
            functions = data.get("functions")
            hooks = functions.get("after_tool") if isinstance(functions, dict) else 0
            self.after_hooks = max(self.after_hooks, hooks if isinstance(hooks, int) else 0)
        elif record.type == BASE and not self.runs:  # if earlier records were read, a base adds nothing
            self.messages = self.next_messages = as_history(dicts_in(data, "messages"))
            self.state = state if isinstance(state := data.get("state"), dict) else None
            self.durable_run = str(data.get(DURABLE_RUN, ""))
            self.runs = 1
        elif record.type == "messages":
            self.next_messages = [*self.next_messages, *as_history(dicts_in(data, "messages"))]
        elif record.type == "boundary":
            self.next_messages = as_history(dicts_in(data, "messages"))
        elif record.type == "state":
            self.messages = self.next_messages
            is_newer = _newer_than(data, new_task=self.started_run is not None)
            self.effects = {key: effect for key, effect in self.effects.items() if is_newer(key)}
            self.intents = {key: intent for key, intent in self.intents.items() if is_newer(key)}
            self.state = data
            self.started_run = None
            self.without_key = []
        elif record.type == LEFT:
            self.left = str(data.get("run") or "")
        elif record.type == "intent" or record.type in EFFECTS:
            self._take_effect(record)

    def _take_effect(self, record: Record) -> None:
        data = record.data
        if not isinstance(key := data.get("key"), str):
            self.without_key.append(f"record {record.id} ({record.type}): key is {key!r:.40}")
        elif record.type == "intent":
            self.intents[key] = data
        else:
            self.effects[key] = (record.type, data.get("value"))
            is_own = not self.session_id or data.get("session", self.session_id) == self.session_id
            self.copied_answers = self.copied_answers - {key} if is_own else self.copied_answers | {key}
            if "by" in data and ":ask:" in key:
                self.unused_answers.add(key)

    def without_copied(self) -> ResumePoint:
        """Drop answers that were copied from another session and belong to calls that have not begun."""
        self.copied_answers = {key for key in self.copied_answers if not self.has_begun(key)}
        self.effects = {key: effect for key, effect in self.effects.items() if key not in self.copied_answers}
        return self

    def has_begun(self, key: str) -> bool:
        """Return True if the call that an answer belongs to has begun."""
        call = key.replace(":ask:", ":tool:", 1)
        return call in self.intents or call in self.effects

    def to_state(self) -> QueryState | None:
        """Return the state to resume from; None before the first checkpoint.

        Raises:
            SessionReadError: The recorded state is invalid.
        """
        if self.state is None:
            return None
        try:
            state = QueryState.from_dict({**self.state, "messages": self.messages})
        except ConfigError as error:
            raise SessionReadError(notice("library.state_unreadable", error=error)) from error
        requested = [call["id"] for message in state.messages[-1:] for call in calls_of(message)]
        # The state does not match the history: the file is damaged.
        if [call.id for call in state.pending] != requested:
            state.drop_calls()
        for call in state.pending:
            ruling = state.permissions.rulings.get(call.id)
            is_copied = ask_key(state.step, call.id) in self.copied_answers
            if is_copied and ruling is not None and ruling.behavior == "allow":
                state.permissions.rulings[call.id] = replace(ruling, behavior="ask")
        return state


def ask_key(step: int, call_id: str) -> str:
    """Return the key of a person's answer to a call."""
    return f"{step}:ask:{call_id}"


def _newer_than(state: Mapping[str, Any], *, new_task: bool = False) -> Callable[[str], bool]:
    """Return a function that tests if an effect is newer than a state, which means that a state was lost."""
    ledger = state.get("ledger")
    steps = ledger.get("steps") if isinstance(ledger, dict) else None
    if new_task or state.get("stop_reason") is not None or not isinstance(steps, int):
        return lambda _: False
    step = steps + bool(state.get("closing"))

    def is_newer_key(key: str) -> bool:
        number = key.partition(":")[0]
        return number.isdecimal() and int(number) >= step

    return is_newer_key


def _next_attempt(state: QueryState, kit: Kit, run_id: str) -> dict[str, Any]:
    """Return the record with which a durable run's next attempt continues a run."""
    about = {"task": None, "system_prompt": state.system_prompt, **describe(kit)}
    names = {"in_charge": state.handed_to} if state.handed_to else {}
    return {**about, **names, DURABLE_RUN: run_id}


def read_resume_point(records: Sequence[Record], session_id: str = "") -> ResumePoint:
    """Return the resume point of a session.

    Args:
        records: Records of the session, in the order they were written.
        session_id: Id of the session; empty to count answers copied from another session.
    """
    point = ResumePoint(session_id=session_id)
    for record in records:
        point.take(record)
    return point.without_copied()


def starts_with(messages: Sequence[object], known: Sequence[object]) -> bool:
    """Return True if the first messages are the same objects as `known`."""
    return len(messages) >= len(known) and all(map(operator.is_, known, messages))


class SessionJournal:
    """Journal that records a run in its session.

    Records are queued and written together in one commit, at the latest before the next effect begins or when
    the run ends. The result of an effect is written before the effect returns. A response with tool calls is
    an exception, and is written together with the intents of its calls, or after `HOLD_SECONDS`. A log with
    `is_remote` is written in a thread, so that other runs of the event loop continue while its database is
    unavailable.

    Args:
        point: Resume point at opening; its effects are returned, not executed again.
        unknown: Function that takes a tool's name and returns the outcome of an interrupted call.
    """

    def __init__(
        self,
        log: SessionLog,
        point: ResumePoint,
        unknown: Callable[[str], ToolOutcome],
        redactor: Redactor | None = None,
    ) -> None:
        self._log = log
        self._redactor = redactor
        self._recorded = dict(point.effects)
        self._intents = dict(point.intents)
        self._durable_run = point.durable_run
        self._unfinished = point.unfinished
        self._unknown = unknown
        self._written = list(point.messages)
        self._compared = False
        self._taken = 0
        self._is_remote: bool = is_remote(log)
        self._many = appends_many(log)
        self._due: list[tuple[str, Mapping[str, Any], bool]] = []  # type, data, and True if durable
        self._queued_count = self._written_count = 0
        self._writing: asyncio.Future[Any] | None = None
        self._changes: list[Mapping[str, Any]] = []
        self._turn = threading.Lock()
        self.store: SessionStore | None = None  # the session's store, which also holds other data of the run
        self._own: list[Record] | None = None  # records of this session, to compute its costs

    def begin(self, description: Mapping[str, Any]) -> None:
        """Record the start of a run.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        self._log.append("run", self._clean(description))

    def begin_handed(self, state: QueryState, kit: Kit, *, history: bool) -> None:
        """Record the start of a handoff: the loop of another agent begins.

        Args:
            history: True if the messages were changed.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        self._redactor = kit.redactor
        about = {"task": None, "handoff": kit.name, "in_charge": state.handed_to, **describe(kit)}
        messages = {"history": state.messages} if history else {}
        self._write("run", {**about, "system_prompt": state.system_prompt, **messages}, durable=True)

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """Run an effect and record its result, or return the recorded result.

        Raises:
            SessionWriteError: The record cannot be written. A tool whose intent cannot be written has not
                begun.
        """
        if key in self._recorded:
            value: T = read_effect(key, *self._recorded.pop(key))
            return value
        if about is not None:
            if key in self._unfinished and not (about["idempotent"] and self._intents[key].get("idempotent")):
                return await self._record(key, cast("T", self._unknown(about["tool"])))
            self._queue("intent", {"key": key, **about}, durable=True)
        if self._due:
            await self._flush()
        try:
            value = await run()
        except Exception as error:
            self._queue("failure", {"key": key, **describe_failure(error)})
            await self._flush()
            raise
        step, _, what = key.partition(":")
        if what == "model":  # drop effects of the former response, because the new one has different calls
            self._keep_effects(lambda other: other.partition(":")[0] != step)
        return await self._record(key, value)

    async def spent_on_day(self, now: float, groups: Mapping[str, str]) -> dict[str, float]:
        """Return the known cost of a day so far, in all sessions of the store; see `DailyCosts`."""
        day, own_id, store = day_of(now), self._log.session_id, cast("SessionStore", self.store)
        if self._own is None:
            await self._flush()
            self._own = [*(await in_thread(lambda: store.read(own_id))).records]
        own = [e for e in read_expenses(self._own, own_id) if e.names["day"] == day]
        others = await in_thread(lambda: spending_of(store, day).others(own_id))
        # Collected by id, so that copies in a fork, which have the same ids, are counted once.
        expenses = {expense.id: expense for expense in (*own, *others)}.values()
        return {
            key: sum(
                expense.known_cost
                for expense in expenses
                if not key or expense.names.get(f"{METADATA}{key}", "") == value
            )
            for key, value in groups.items()
        }

    def _note_costly(self, kind: str, data: Mapping[str, Any]) -> None:
        if self._own is not None and kind in COSTLY:
            self._own.append(Record("", None, time.time(), kind, dict(data)))

    def recorded(self, key: str) -> bool:
        """Return True if `effect` will return a recorded result."""
        return key in self._recorded

    def intent_of(self, key: str) -> Mapping[str, Any] | None:
        """Return the recorded intent of a call that began before this session was opened."""
        return self._intents.get(key)

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take the due messages from the inbox and record them, or return the recorded ones.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        key = f"inbox:{self._taken}"  # counted from the last checkpoint, in a resumed run too
        self._taken += 1
        if key in self._recorded:
            return cast("list[Incoming]", read_effect(key, *self._recorded.pop(key)))
        incoming = inbox.take(at_end=at_end)
        if incoming:
            kind, plain = encode(incoming)
            self._write(kind, {"key": key, "value": plain}, durable=True)
        return incoming

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Keep a change to a part for the next checkpoint; until then other records hold the same data."""
        self._changes.append(change_of(part))

    def checkpoint(self, state: Checkpointed) -> None:
        """Write new messages and the state of the run; write nothing if another process continues the run.

        Raises:
            SessionWriteError: The records cannot be written.
        """
        form = state.to_dict()
        if form["stop_reason"] == BACKGROUNDED:
            return
        messages, known = state.messages, len(self._written)
        if self._changes:
            self._queue("parts", {"parts": self._changes})
            self._changes = []
        if not self._continues_written(messages):
            self._queue("boundary", {"messages": list(messages)})
        elif len(messages) > known:
            self._queue("messages", {"messages": messages[known:]})
        self._written = list(messages)
        del form["messages"]
        self._write("state", form, durable=True)
        if form["stop_reason"] is not None:
            if needs_base(self._log) and form["stop_reason"] not in _UNFINISHED:
                mark = {DURABLE_RUN: self._durable_run} if self._durable_run else {}
                self._queue(BASE, {"messages": self._written, "state": form, **mark})
            self._write_due()  # write now, because no further write follows
        self._taken = 0
        self._keep_effects(_newer_than(form))

    async def hand_over(self, state: QueryState, kit: Kit, run_id: str) -> None:
        """Record, after everything else, that a durable run will continue this run as its next attempt.

        Args:
            run_id: Id of the durable run. Until the durable run is queued, the session holds an interrupted
                run like any other.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        self._queue("run", _next_attempt(state, kit, run_id), durable=True)
        await self._flush()

    async def leave(self, state: QueryState, kit: Kit, run_id: str) -> Mapping[str, Any]:
        """Record, after everything else, that a durable run will continue this run in a copy of the session.

        Args:
            run_id: Id of the durable run. This session will not be resumed, whether or not the durable run is
                queued.

        Returns:
            The record of the durable run's attempt, to append to the copy.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        self._queue(LEFT, {"run": run_id}, durable=True)
        await self._flush()
        return self._clean(_next_attempt(state, kit, run_id))

    def close(self) -> None:
        """Release the session for other writers."""
        self._log.close()

    def _keep_effects(self, is_kept: Callable[[str], bool]) -> None:
        """Drop the recorded effects and intents whose key does not pass a test."""
        self._recorded = {key: effect for key, effect in self._recorded.items() if is_kept(key)}
        self._unfinished = {key for key in self._unfinished if is_kept(key)}
        self._intents = {key: intent for key, intent in self._intents.items() if is_kept(key)}

    def _clean(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return data if self._redactor is None else self._redactor.redact_value(data)

    def _continues_written(self, messages: list[HistoryMessage]) -> bool:
        """Return True if the written messages are still the beginning of the history."""
        # Compare once by value, because messages from the file are equal but not identical objects.
        if not self._compared:
            self._compared = True
            return messages[: len(self._written)] == self._written
        return starts_with(messages, self._written)

    async def _record(self, key: str, value: T) -> T:
        self._unfinished.discard(key)
        kind, plain = encode(value)
        origin = {"session": self._log.session_id} if ":ask:" in key else {}
        self._queue(kind, {"key": key, "value": plain, **origin}, durable=True)
        if isinstance(value, LLMResponse) and value.tool_calls:
            asyncio.get_running_loop().call_later(HOLD_SECONDS, self._write_held, self._queued_count)
        else:
            await self._flush()
        return value

    def _queue(self, kind: str, data: Mapping[str, Any], *, durable: bool = False) -> None:
        self._note_costly(kind, data)
        self._due.append((kind, self._clean(data), durable))
        self._queued_count += 1

    async def _flush(self) -> None:
        """Write the queued records, even if cancelled: an effect that happened must be recorded."""
        last, cancelled = self._queued_count, None
        while self._written_count < last:
            try:
                result = await asyncio.shield(self._begin_write())
            except asyncio.CancelledError as error:
                cancelled = error
                continue
            if isinstance(result, Raised):
                raise result.error
        if cancelled is not None:
            raise cancelled

    def _begin_write(self) -> asyncio.Future[Any]:
        """Return the running write; start one in the next cycle of the event loop if there is none.

        So calls that begin or end together share a commit.
        """
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_soon())
        return self._writing

    async def _write_soon(self) -> Any:
        if self._is_remote:
            return await run_in_thread(self._write_due)
        try:
            self._write_due()
        except Exception as error:  # noqa: BLE001 - each task that waits for the write raises it
            return Raised(error)
        return None

    def _write_held(self, number: int) -> None:
        """Write a response whose calls have not begun; if that fails, the next write raises the error."""
        if self._written_count < number:
            self._begin_write()

    def _write(self, kind: str, data: Mapping[str, Any], *, durable: bool = False) -> None:
        self._queue(kind, data, durable=durable)
        if not self._is_remote:
            self._write_due()

    def _write_due(self) -> None:
        with self._turn:
            while self._due:
                rows = self._due[:1] if self._many is None else self._due[:]
                is_durable = any(durable for _, _, durable in rows)
                if self._many is None:
                    self._log.append(rows[0][0], rows[0][1], durable=is_durable)
                else:
                    self._many.append_all([(kind, data) for kind, data, _ in rows], durable=is_durable)
                del self._due[: len(rows)]
                self._written_count += len(rows)
