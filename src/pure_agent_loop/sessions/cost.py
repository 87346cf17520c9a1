"""Costs recorded in sessions, by day, model, session, run, step, agent, person or schedule.

Each request is counted once, where its response is recorded; its failed attempts are included. Copies of
records in a fork are not counted again. Days are UTC days.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from weakref import WeakKeyDictionary

from pure_agent_loop.errors import SessionError
from pure_agent_loop.limits import PERSON, group_name
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.sessions.store import SessionStore
from pure_agent_loop.sessions.stores.records import Record

GROUPS = ("day", "model", "session", "run", "step", "agent", "person", "schedule")
METADATA = "metadata."  # ``metadata.KEY`` groups expenses by the value of that key
# Types of records that hold expenses or, for ``run``, the groups that the expenses belong to.
COSTLY = ("run", "answer", "failure", "outcome")
SCHEDULE = "schedule"  # metadata key for the name of the schedule that started the run
_NOTHING = TokenUsage.zero().to_dict()
_SPENDING: WeakKeyDictionary[Any, tuple[str, Spending]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Expense:
    """Usage of one model, for a recorded request or as reported by a tool.

    Args:
        id: Record id, record time and model; a copy of the record in a fork has the same id.
        time: In seconds since the epoch.
        names: Group of the expense, for each way of grouping; empty if it belongs to no group.
        tokens: Tokens, failed attempts included.
        cost: Cost; None if a part of it is unknown.
        known_cost: Known part of the cost.
    """

    id: tuple[str, float, str]
    time: float
    names: Mapping[str, str]
    tokens: int
    cost: float | None
    known_cost: float


@dataclass(slots=True)
class Total:
    """Sum of expenses.

    Args:
        requests: Number of expenses; a response written by two models counts twice.
        tokens: Sum of the tokens.
        known_cost: Sum of the known costs.
        unpriced: Number of expenses whose cost is not fully known.
    """

    requests: int = 0
    tokens: int = 0
    known_cost: float = 0.0
    unpriced: int = 0

    @property
    def cost(self) -> float | None:
        """The sum of the costs; None if a part of it is unknown."""
        return None if self.unpriced else self.known_cost

    def add(self, expense: Expense) -> None:
        """Add an expense."""
        self.requests += 1
        self.tokens += expense.tokens
        self.known_cost += expense.known_cost
        self.unpriced += expense.cost is None


def day_of(seconds: float) -> str:
    """Return the day of a time in seconds since the epoch, in UTC: ``2026-01-31``."""
    return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()


def read_expenses(records: Sequence[Record], session_id: str) -> Iterator[Expense]:
    """Yield the expenses in the records of a session."""
    run, number = {}, 0
    for record in records:
        value = record.data.get("value")
        if record.type == "run":
            run, number = record.data, number + (record.data.get("task") is not None)
            continue
        if record.type == "answer" and isinstance(value, dict):
            spent = [value.get("usage") or {}, *([value["spent"]] if value.get("spent") else [])]
        elif record.type == "failure" and record.data.get("spent"):
            spent = [record.data["spent"]]
        elif record.type == "outcome" and isinstance(value, dict) and value.get("spent"):
            account = value["spent"]
            if account.get("in_budget"):  # a subagent's usage, which is recorded in its own session
                continue
            spent = [{**(account.get("usage") or {}), "cost": account.get("cost")}]
        else:
            continue
        step = str(record.data.get("key", "")).partition(":")[0]
        yield from _by_model(record, spent, _names(record, run, session_id, number, step))


def _names(
    record: Record, run: Mapping[str, Any], session_id: str, number: int, step: str
) -> Mapping[str, str]:
    options, metadata = run.get("options") or {}, run.get("metadata") or {}
    return {
        "day": day_of(record.time),
        "model": "" if record.type == "outcome" else str(options.get("model") or run.get("model") or ""),
        "session": session_id,
        "run": f"{session_id}:{number}",
        "step": f"{session_id}:{number}:{step}",
        "agent": str(run.get("agent") or ""),
        PERSON: group_name(metadata.get(PERSON)),
        SCHEDULE: str(metadata.get(SCHEDULE) or ""),
        **{f"{METADATA}{key}": group_name(value) for key, value in metadata.items()},
    }


def _by_model(
    record: Record, spent: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> Iterator[Expense]:
    """Yield an expense per model that used tokens; usage without a name counts for the requested model."""
    parts: dict[str, list[tuple[int, float | None]]] = {}
    for plain in spent:
        usage = TokenUsage.from_dict({**_NOTHING, **plain})
        tokens, cost = usage.total_tokens, usage.cost
        for model, part in usage.by_model:
            parts.setdefault(model, []).append((part.total_tokens, part.cost))
            tokens -= part.total_tokens
            cost = None if cost is None else cost - (part.cost or 0.0)
        if tokens > 0 or not usage.by_model:
            parts.setdefault(names["model"], []).append((tokens, cost))
    for model, used in parts.items():
        known, is_known = sum(cost or 0.0 for _, cost in used), all(cost is not None for _, cost in used)
        cost = known if is_known else None
        count = sum(tokens for tokens, _ in used)
        key = record.id, record.time, model
        yield Expense(key, record.time, {**names, "model": model}, count, cost, known)


def expenses_of(store: SessionStore, since: float = 0.0) -> Iterator[Expense]:
    """Yield the expenses in all sessions of a store since a given time, each expense once.

    A session that cannot be read, or was deleted meanwhile, is skipped.

    Args:
        since: Start of the period, in seconds since the epoch.

    Raises:
        SessionReadError: The store cannot be read at all.
    """
    seen: set[tuple[str, float, str]] = set()
    for info in store.list():
        if info.updated < since:
            continue
        try:
            records = store.read(info.id).records
        except SessionError:
            continue
        for expense in read_expenses(records, info.id):
            if expense.time >= since and expense.id not in seen:
                seen.add(expense.id)
                yield expense


class Spending:
    """Expenses of one day in a store, updated from the session list: only changed sessions are read again.

    Args:
        store: The store.
        day: The day, as `day_of` returns it.
    """

    def __init__(self, store: SessionStore, day: str) -> None:
        self._store, self._day = store, day
        self._begin = datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()
        self._read: dict[str, tuple[tuple[float, int], list[Expense]]] = {}
        self._turn = threading.Lock()

    def others(self, session_id: str) -> list[Expense]:
        """Return the expenses of all sessions except this one.

        Raises:
            SessionReadError: The store cannot be read at all.
        """
        with self._turn:
            listed = {info.id: info for info in self._store.list() if info.updated >= self._begin}
            for info in listed.values():
                stamp = (info.updated, info.size_bytes)
                if info.id != session_id and self._read.get(info.id, (None,))[0] != stamp:
                    self._read[info.id] = stamp, self._expenses(info.id)
            self._read = {name: kept for name, kept in self._read.items() if name in listed}
            kept = [expenses for name, (_, expenses) in self._read.items() if name != session_id]
            return [expense for expenses in kept for expense in expenses]

    def _expenses(self, session_id: str) -> list[Expense]:
        try:
            records = self._store.read(session_id).records
        except SessionError:  # the session is damaged, or was deleted meanwhile
            return []
        return [e for e in read_expenses(records, session_id) if e.names["day"] == self._day]


def spending_of(store: SessionStore, day: str) -> Spending:
    """Return a store's `Spending` on a day, an object that all runs of this process share."""
    shared = getattr(store, "shared", store)
    try:
        known = _SPENDING.get(shared)
        if known is None or known[0] != day:
            known = _SPENDING[shared] = day, Spending(store, day)
    except TypeError:  # the caller's store is not hashable, so it is read each time
        return Spending(store, day)
    return known[1]


def totals_by(group: str, expenses: Iterable[Expense]) -> dict[str, Total]:
    """Return the sums of expenses, grouped by one of `GROUPS` or by ``metadata.KEY``, ordered by name."""
    totals: dict[str, Total] = {}
    for expense in expenses:
        totals.setdefault(expense.names.get(group, ""), Total()).add(expense)
    return dict(sorted(totals.items()))
