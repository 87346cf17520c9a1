"""What a run writes into its session, and how that is read back.

========  =====================================================================================
run       a run begins: its task, system prompt, tools, limits and model
messages  messages that joined the history since the last record of this kind
boundary  the whole history, after its older part was shortened
state     where the run stands, without the messages; what was recorded before it is part of it
answer    what the model answered
intent    a tool is about to run
outcome   what came of it
value     what a function of the user, or a person, decided; a summary
end       why the run ended
========  =====================================================================================

After a crash: the newest state, and the effects behind it. An intent without an outcome means that nobody
knows whether the tool took effect.
"""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, cast

from pure_agent_loop.hooks import BeforeTool
from pure_agent_loop.journal import Checkpointed
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.permissions import Permission
from pure_agent_loop.sessions.records import Record
from pure_agent_loop.sessions.store import SessionLog
from pure_agent_loop.state import QueryState
from pure_agent_loop.text import to_jsonable
from pure_agent_loop.tool import ToolOutcome

T = TypeVar("T")
EFFECTS = ("answer", "outcome", "value")


@dataclass
class Past:
    """What a session says about where it stands.

    Args:
        messages: The history, from the newest boundary on.
        state: The plain form of the newest state, without messages; None if no run has come so far.
        effects: What was recorded behind it, by key, as (type, data).
        unfinished: Tools that had begun and of which no outcome is known, by key.
        runs: How many runs were begun.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] | None = None
    effects: dict[str, tuple[str, Any]] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    runs: int = 0

    @property
    def was_cut_off(self) -> bool:
        """True if a run was in the middle of something when its process ended."""
        return self.state is not None and self.state.get("stop_reason") is None

    def take(self, record: Record) -> None:
        """Take in the next record; one that does not fit is passed over, because files get damaged."""
        data = record.data
        if record.type == "run":
            self.runs += 1
        elif record.type == "messages":
            self.messages = [*self.messages, *_messages_in(data)]
        elif record.type == "boundary":
            self.messages = _messages_in(data)
        elif record.type == "state":
            self.state, self.effects, self.unfinished = data, {}, set()
        elif record.type == "intent" and isinstance(data.get("key"), str):
            self.unfinished.add(data["key"])
        elif record.type in EFFECTS and isinstance(data.get("key"), str):
            self.effects[data["key"]] = (record.type, data.get("value"))
            self.unfinished.discard(data["key"])

    def to_state(self) -> QueryState | None:
        """The state to go on from; None if there is none.

        Raises:
            ConfigError: What is recorded is no state.
        """
        if self.state is None:
            return None
        state = QueryState.from_dict({**self.state, "messages": self.messages})
        asked = [call["id"] for call in state.messages[-1].get("tool_calls") or ()] if state.messages else []
        if [call.id for call in state.pending] != asked:  # the file was damaged: nothing can be pending
            state.pending, state.results, state.rulings = [], {}, {}
        return state


def read_past(records: Sequence[Record]) -> Past:
    """Where a session stands."""
    past = Past()
    for record in records:
        past.take(record)
    return past


def _messages_in(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = data.get("messages")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def encode(value: Any) -> tuple[str, Any]:
    """The record type and the plain form of what an effect gave."""
    if isinstance(value, LLMResponse):
        return "answer", value.to_dict()
    if isinstance(value, ToolOutcome):
        return "outcome", asdict(value)
    if isinstance(value, (Permission, BeforeTool)):
        return "value", {type(value).__name__: asdict(value)}
    return "value", to_jsonable(value)


def decode(kind: str, value: Any) -> Any:
    """The reverse of `encode`."""
    if kind == "answer":
        return LLMResponse.from_dict(value)
    if kind == "outcome":
        return ToolOutcome(**value)
    for known in (Permission, BeforeTool):
        if isinstance(value, dict) and list(value) == [known.__name__]:
            return known(**value[known.__name__])
    return value


class SessionJournal:
    """Writes a run into its session.

    Args:
        log: The session, open for writing.
        past: Where it stood when it was opened; its effects are returned instead of made to happen.
        unknown: The outcome of a tool of which nobody knows whether it took effect, by its name.
    """

    def __init__(self, log: SessionLog, past: Past, unknown: Callable[[str], ToolOutcome]) -> None:
        self._log = log
        self._recorded = dict(past.effects)
        self._unfinished = set(past.unfinished)
        self._unknown = unknown
        self._written = list(past.messages)
        self._compared = False

    def begin(self, about: Mapping[str, Any]) -> None:
        """A run begins.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        self._log.append("run", about)

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """Make an effect happen and record it, or return what was recorded.

        Raises:
            SessionWriteError: Nothing can be written; a tool has not begun then.
        """
        if key in self._recorded:
            value: T = decode(*self._recorded.pop(key))
            return value
        if about is not None:
            if key in self._unfinished and not about["idempotent"]:
                return self._record(key, cast("T", self._unknown(about["tool"])))
            self._log.append("intent", {"key": key, **about}, durable=True)
        return self._record(key, await run())

    def checkpoint(self, state: Checkpointed) -> None:
        """Write the messages that came in, and where the run stands.

        Raises:
            SessionWriteError: Nothing can be written.
        """
        messages, known = state.messages, len(self._written)
        if not self._is_continued(messages):
            self._log.append("boundary", {"messages": messages})
        elif len(messages) > known:
            self._log.append("messages", {"messages": messages[known:]})
        self._written = list(messages)
        form = state.to_dict()
        del form["messages"]
        self._log.append("state", form, durable=True)
        self._recorded, self._unfinished = {}, set()

    def close(self) -> None:
        """Let others write."""
        self._log.close()

    def _is_continued(self, messages: list[dict[str, Any]]) -> bool:
        """True if what was written is still the beginning of the history."""
        known = len(self._written)
        if not self._compared:  # they come from the file, so they are equal, but not the same
            self._compared = True
            return messages[:known] == self._written
        return len(messages) >= known and all(map(operator.is_, self._written, messages))

    def _record(self, key: str, value: T) -> T:
        self._unfinished.discard(key)
        kind, plain = encode(value)
        self._log.append(kind, {"key": key, "value": plain}, durable=True)
        return value
