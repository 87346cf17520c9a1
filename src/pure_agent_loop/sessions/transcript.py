"""What a run writes into its session, and how that is read back.

========  =====================================================================================
run       a run begins: its task, system prompt, tools, limits and model
messages  messages that joined the history since the last record of this kind
boundary  the whole history, after its older part was shortened
state     where the run stands, without the messages; what was recorded before it is part of it
answer    what the model answered
intent    a tool is about to run
outcome   what came of it
value     what a function of the user, or a person, decided; messages that came in; a summary
parts     how the parts of a step changed, and when: pending, running, completed; written at its end
failure   what an effect failed with; it is tried again when the run is resumed
end       why the run ended
========  =====================================================================================

After a crash: the newest state, and the effects behind it. An intent without an outcome means that nobody
knows whether the tool took effect.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict, TypeVar, cast

from pure_agent_loop.errors import ConfigError, SessionReadError
from pure_agent_loop.inbox import Inbox, Incoming
from pure_agent_loop.kernel.journal import Checkpointed
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.parts import change_of
from pure_agent_loop.sessions.effects import describe_failure, encode, read_effect, wrong_effect
from pure_agent_loop.sessions.run_record import describe
from pure_agent_loop.sessions.store import SessionLog, SessionStore, is_remote
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.support.typed import mistyped
from pure_agent_loop.tool import ToolOutcome

T = TypeVar("T")
EFFECTS = ("answer", "outcome", "value")


class _Intent(TypedDict):
    key: str
    tool: str
    args: dict[str, Any]
    idempotent: bool


@dataclass
class Past:
    """What a session says about where it stands.

    Args:
        messages: The history, from the newest boundary on.
        state: The plain form of the newest state, without messages; None if no run has come so far.
        effects: What was recorded behind it, by key, as (type, data).
        intents: What was said about the tools that had begun, by key.
        runs: How many runs were begun.
        begun: The record of the newest run with a task of its own, or that was handed over, until its first
            state is there.
        coming: The history as the next state will have it; None if no message came in since the last.
        after_hooks: How many hooks look at each result before the model may see it.
        unnamed: Effects behind the state that have no key, in half a sentence each.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] | None = None
    effects: dict[str, tuple[str, Any]] = field(default_factory=dict)
    intents: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: int = 0
    begun: dict[str, Any] | None = None
    coming: list[dict[str, Any]] | None = None
    after_hooks: int = 0
    unnamed: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """What cannot be read of the effects, in half a sentence each: nobody knows what was done then."""
        intents = {key: mistyped(data, _Intent) for key, data in self.intents.items()}
        effects = {key: wrong_effect(key, *each) for key, each in self.effects.items()}
        named = [f"{key}: {why}" for found in (intents, effects) for key, why in found.items() if why]
        return [*self.unnamed, *named]

    @property
    def unfinished(self) -> set[str]:
        """Tools that had begun and of which no outcome is known, by key."""
        return self.intents.keys() - self.effects.keys()

    @property
    def was_cut_off(self) -> bool:
        """True if a run was in the middle of something when its process ended."""
        if self.state is None:
            return False
        return self.state.get("stop_reason") is None or bool(self.effects or self.intents)

    def take(self, record: Record) -> None:
        """Take in the next record; one that does not fit is passed over, because files get damaged."""
        data = record.data
        if record.type == "run":
            self.runs, self.coming = self.runs + 1, None  # what came in without a state comes in again
            if isinstance(data.get("task"), str) or data.get("handoff"):
                self.begun = data
            functions = data.get("functions")
            hooks = functions.get("after_tool") if isinstance(functions, dict) else 0
            self.after_hooks = max(self.after_hooks, hooks if isinstance(hooks, int) else 0)
        elif record.type == "messages":
            self.coming = [*(self.messages if self.coming is None else self.coming), *_messages_in(data)]
        elif record.type == "boundary":
            self.coming = _messages_in(data)
        elif record.type == "state":
            self.messages = self.messages if self.coming is None else self.coming
            ahead = _ahead(data, new_task=self.begun is not None)
            self.effects = {key: each for key, each in self.effects.items() if ahead(key)}
            self.intents = {key: each for key, each in self.intents.items() if ahead(key)}
            self.state = data
            self.begun = self.coming = None
            self.unnamed = []
        elif record.type == "intent" or record.type in EFFECTS:
            if not isinstance(key := data.get("key"), str):
                self.unnamed.append(f"record {record.id} ({record.type}): key is {key!r:.40}")
            elif record.type == "intent":
                self.intents[key] = data
            else:
                self.effects[key] = (record.type, data.get("value"))

    def to_state(self) -> QueryState | None:
        """The state to go on from; None if there is none.

        Raises:
            SessionReadError: What is recorded is no state.
        """
        if self.state is None:
            return None
        try:
            state = QueryState.from_dict({**self.state, "messages": self.messages})
        except ConfigError as error:
            raise SessionReadError(f"The newest state of the session cannot be read: {error}") from error
        asked = [call["id"] for call in state.messages[-1].get("tool_calls") or ()] if state.messages else []
        if [call.id for call in state.pending] != asked:  # the file was damaged: nothing can be pending
            state.drop_calls()
        return state


def _ahead(state: Mapping[str, Any], *, new_task: bool = False) -> Callable[[str], bool]:
    """Says of an effect's key whether a state has it before it, as can be only if a state was lost."""
    ledger = state.get("ledger")
    steps = ledger.get("steps") if isinstance(ledger, dict) else None
    if new_task or state.get("stop_reason") is not None or not isinstance(steps, int):
        return lambda _: False
    step = steps + bool(state.get("closing"))

    def is_ahead(key: str) -> bool:
        number = key.partition(":")[0]
        return number.isdecimal() and int(number) >= step

    return is_ahead


def read_past(records: Sequence[Record]) -> Past:
    """Where a session stands."""
    past = Past()
    for record in records:
        past.take(record)
    return past


def _messages_in(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    return dicts_in(data, "messages")


def dicts_in(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in a list of a record; what is none is passed over."""
    found = data.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


class SessionJournal:
    """Writes a run into its session.

    A log that says `is_remote` is written in a thread: while its database is away, other runs of the event
    loop go on. What is written where nothing can be awaited waits for the next effect then, which begins
    when that is written, or for the end of the run.

    Args:
        log: The session, open for writing.
        past: Where it stood when it was opened; its effects are returned instead of made to happen.
        unknown: The outcome of a tool of which nobody knows whether it took effect, by its name.
        redactor: Takes known secrets out of what is written.
    """

    def __init__(
        self,
        log: SessionLog,
        past: Past,
        unknown: Callable[[str], ToolOutcome],
        redactor: Redactor | None = None,
    ) -> None:
        self._log = log
        self._redactor = redactor
        self._recorded = dict(past.effects)
        self._intents = dict(past.intents)
        self._unfinished = past.unfinished
        self._unknown = unknown
        self._written = list(past.messages)
        self._compared = False
        self._taken = 0
        self._is_remote: bool = is_remote(log)
        self._due: list[partial[Record]] = []
        self._changes: list[Mapping[str, Any]] = []
        self._turn = threading.Lock()
        self.store: SessionStore | None = None  # where it is kept, for what belongs to the run

    def begin(self, about: Mapping[str, Any]) -> None:
        """A run begins.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        self._log.append("run", self._clean(about))

    def begin_handed(self, state: QueryState, kit: Kit, *, history: bool) -> None:
        """The loop of the agent begins that the run was handed over to.

        Args:
            history: Whether the messages are others than they were.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        self._redactor = kit.redactor
        about = {"task": None, "handoff": kit.name, "in_charge": state.handed_to, **describe(kit)}
        messages = {"history": state.messages} if history else {}
        self._put_down("run", {**about, "system_prompt": state.system_prompt, **messages}, durable=True)

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """Make an effect happen and record it, or return what was recorded.

        Raises:
            SessionWriteError: Nothing can be written; a tool has not begun then.
        """
        if key in self._recorded:
            value: T = read_effect(key, *self._recorded.pop(key))
            return value
        if about is not None:
            if key in self._unfinished and not (about["idempotent"] and self._intents[key].get("idempotent")):
                return await self._record(key, cast("T", self._unknown(about["tool"])))
            await self._append("intent", {"key": key, **about}, durable=True)
        elif self._due:
            await self._written_out(self._write_due)
        try:
            value = await run()
        except Exception as error:
            await self._append("failure", {"key": key, **describe_failure(error)})
            raise
        step, _, what = key.partition(":")
        if what == "model":  # its answer was lost: what came of its calls belongs to no call of the new one
            self._recorded = {k: each for k, each in self._recorded.items() if k.partition(":")[0] != step}
            self._unfinished = {k for k in self._unfinished if k.partition(":")[0] != step}
            self._intents = {k: each for k, each in self._intents.items() if k.partition(":")[0] != step}
        return await self._record(key, value)

    def recorded(self, key: str) -> bool:
        """True if `effect` will return what is recorded."""
        return key in self._recorded

    def begun(self, key: str) -> Mapping[str, Any] | None:
        """What was said about a tool's call when it began before this session was opened."""
        return self._intents.get(key)

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take what is due out of the inbox and record it, or return what was recorded.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        key = f"inbox:{self._taken}"  # counted from the last checkpoint: a resumed run asks as often
        self._taken += 1
        if key in self._recorded:
            found: list[Incoming] = read_effect(key, *self._recorded.pop(key))
            return found
        taken = inbox.take(at_end=at_end)
        if taken:
            kind, plain = encode(taken)
            self._put_down(kind, {"key": key, "value": plain}, durable=True)
        return taken

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Keep a change of a part for the next checkpoint: until then other records say as much."""
        self._changes.append(change_of(part))

    def checkpoint(self, state: Checkpointed) -> None:
        """Write the messages that came in, and where the run stands.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        messages, known = state.messages, len(self._written)
        if self._changes:
            self._put_down("parts", {"parts": self._changes})
            self._changes = []
        if not self._is_continued(messages):
            self._put_down("boundary", {"messages": list(messages)})
        elif len(messages) > known:
            self._put_down("messages", {"messages": messages[known:]})
        self._written = list(messages)
        form = state.to_dict()
        del form["messages"]
        self._put_down("state", form, durable=True)
        if form["stop_reason"] is not None:
            self._write_due()  # nothing comes after it
        ahead, self._taken = _ahead(form), 0
        self._recorded = {key: each for key, each in self._recorded.items() if ahead(key)}
        self._unfinished = {key for key in self._unfinished if ahead(key)}
        self._intents = {key: each for key, each in self._intents.items() if ahead(key)}

    def close(self) -> None:
        """Let others write."""
        self._log.close()

    def _clean(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return data if self._redactor is None else self._redactor.redact_value(data)

    def _is_continued(self, messages: list[dict[str, Any]]) -> bool:
        """True if what was written is still the beginning of the history."""
        known = len(self._written)
        if not self._compared:  # they come from the file, so they are equal, but not the same
            self._compared = True
            return messages[:known] == self._written
        return len(messages) >= known and all(map(operator.is_, self._written, messages))

    async def _record(self, key: str, value: T) -> T:
        self._unfinished.discard(key)
        kind, plain = encode(value)
        await self._append(kind, {"key": key, "value": plain}, durable=True)
        return value

    async def _append(self, kind: str, data: Mapping[str, Any], *, durable: bool = False) -> None:
        data = self._clean(data)
        if not self._is_remote:
            self._log.append(kind, data, durable=durable)
            return

        def write() -> None:
            self._write_due()
            self._log.append(kind, data, durable=durable)

        await self._written_out(write)

    async def _written_out(self, write: Callable[[], None]) -> None:
        """Write in a thread. Also one who is cancelled waits for it: what happened is to be recorded."""
        writing = asyncio.ensure_future(run_in_thread(write))
        cancelled: asyncio.CancelledError | None = None
        while not writing.done():
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError as error:  # noqa: PERF203 - as often as it is cancelled
                cancelled = error
        if isinstance(found := writing.result(), Raised):
            raise found.error
        if cancelled is not None:
            raise cancelled

    def _put_down(self, kind: str, data: Mapping[str, Any], *, durable: bool = False) -> None:
        write = partial(self._log.append, kind, self._clean(data), durable=durable)
        if self._is_remote:
            self._due.append(write)
        else:
            write()

    def _write_due(self) -> None:
        with self._turn:
            while self._due:
                self._due[0]()
                del self._due[0]
