"""`KeyJournal`: one run's journal, kept in a mapping, such as a table or an engine's memory."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeVar, cast

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Inbox, Incoming
from pure_agent_loop.kernel.journal import Checkpointed, MemoryJournal
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.sessions.resume import unknown_outcome
from pure_agent_loop.sessions.transcript import encode, read_effect
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.secrets.redaction import Redactor

T = TypeVar("T")
_TASK = "task"


class KeyJournal(MemoryJournal):
    """Journal of one run: effects are recorded by key, so that a resumed run is replayed from its start.

        agent.run(task, journal=KeyJournal(records))  # after a crash: the same call again

    Args:
        records: The run's records: JSON strings by key, empty for a new run. Once assigned, a record must
            outlive the process. Only one process at a time may use the records of a run.
    """

    def __init__(self, records: MutableMapping[str, str]) -> None:
        self._records = records
        # Mark of this attempt: an intent with a different mark belongs to a call of an interrupted attempt.
        self._attempt = secrets.token_hex(8)
        self._taken = 0
        self._is_checked = False
        self._prompts, self._redactor = prompts_for(), cast("Redactor | None", None)

    def bind(self, prompts: Prompts, redactor: Redactor | None) -> None:
        """Use the prompts and the redactor of the run that is beginning."""
        self._prompts, self._redactor = prompts, redactor

    async def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> T:
        """Execute an effect and record its result, or return the recorded result.

        Raises:
            SessionReadError: The record is invalid.
        """
        if key in self._records:
            return cast("T", read_effect(key, *read_json(self._records[key])))
        if about is not None:
            intent = self._intent(key)
            is_cut = intent is not None and intent["attempt"] != self._attempt
            if is_cut and not (about["idempotent"] and intent and intent["idempotent"]):
                return self._record(key, cast("T", unknown_outcome(self._prompts, about["tool"])))
            self._write(f"intent:{key}", {**about, "attempt": self._attempt})
        return self._record(key, await run())

    def recorded(self, key: str) -> bool:
        """Return True if `effect` will return a recorded result."""
        return key in self._records

    def intent_of(self, key: str) -> Mapping[str, Any] | None:
        """Return the recorded intent of a call that began in an earlier attempt."""
        intent = self._intent(key)
        return None if intent is None or intent["attempt"] == self._attempt else intent

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take due messages from the inbox and record them, or return the recorded ones."""
        key, self._taken = f"inbox:{self._taken}", self._taken + 1
        if key in self._records:
            return cast("list[Incoming]", read_effect(key, *read_json(self._records[key])))
        incoming = inbox.take(at_end=at_end)
        return self._record(key, incoming) if incoming else incoming

    def checkpoint(self, state: Checkpointed) -> None:
        """Reject a task that differs from the recorded one: each run needs its own records.

        Raises:
            ConfigError: The records belong to another task.
        """
        if not self._is_checked:
            task = state.to_dict()["task"]
            recorded = read_json(self._records.get(_TASK, json.dumps(task)))
            if recorded != task:
                raise ConfigError(
                    f"journal has the records of another task: {recorded!r:.80}. Use a new one."
                )
            self._write(_TASK, task)
            self._is_checked = True

    def _intent(self, key: str) -> Mapping[str, Any] | None:
        text = self._records.get(f"intent:{key}")
        return None if text is None else cast("Mapping[str, Any]", read_json(text))

    def _record(self, key: str, value: T) -> T:
        self._write(key, encode(value))
        return value

    def _write(self, key: str, value: Any) -> None:
        self._records[key] = json.dumps(self._clean(value))

    def _clean(self, value: Any) -> Any:
        return value if self._redactor is None else self._redactor.redact_value(value)
