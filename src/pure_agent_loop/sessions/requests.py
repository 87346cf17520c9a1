"""Rebuild the requests of a session with the code that built them, and compare each with the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.prefix import PrefixChange, entries_of, first_change
from pure_agent_loop.kernel.request import Request, build_request
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.sessions.run_record import NoClient, rebuild
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import ResumePoint

_UNREADABLE = (KeyError, TypeError, ValueError, ConfigError)  # a record from another version


@dataclass(slots=True)
class SentRequest:
    """A request of a session.

    Args:
        number: Number in the session, from 1.
        record: Record of the state that the request was built from.
        run: Record of the run that sent the request.
        request: Messages, tools and options; the messages as they were sent.
        before: The previous request; None for the first.
        change: First change from the previous request; None if there is none.
        usage: Tokens, once the response has arrived and the server has reported them.
        answered: Time of the response; None if there is no response.
    """

    number: int
    record: Record
    run: Mapping[str, Any]
    request: Request
    before: Request | None = None
    change: PrefixChange | None = None
    usage: TokenUsage | None = None
    answered: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the number, usage and change as plain JSON."""
        usage = None if self.usage is None else self.usage.to_dict()
        change = None if self.change is None else self.change.to_dict()
        return {"number": self.number, "usage": usage, "change": change}


def requests_in(records: Sequence[Record], first: int = 1) -> Iterator[SentRequest]:
    """Rebuild the requests of a session, starting at number `first`. Requests that cannot be read are
    left out."""
    past, run, number = ResumePoint(), dict[str, Any](), 0
    before: SentRequest | None = None
    pending: SentRequest | None = None
    for record in records:
        past.take(record)
        if record.type == "run":
            run = record.data
        elif record.type == "answer" and pending and str(record.data.get("key")).endswith(":model"):
            _take_response(pending, record, before)
        elif record.type == "state" and record.data.get("awaiting"):
            number += 1
            if number < first - 1:
                continue
            if pending is not None and pending.number >= first:
                yield pending
            before = pending
            request = _request(past, run)
            pending = None if request is None else _sent(number, record, run, request, before)
    if pending is not None and pending.number >= first:
        yield pending


def _request(past: ResumePoint, run: Mapping[str, Any]) -> Request | None:
    try:
        state, kit = past.to_state(), rebuild(run)
        # With takes_meta=False, the messages are in the form in which they were sent.
        client = NoClient(str(run["model"]), run.get("origin", ""), takes_meta=False)
        return None if state is None else build_request(state, replace(kit, client=client))
    except _UNREADABLE:
        return None


def _sent(
    number: int, record: Record, run: Mapping[str, Any], request: Request, before: SentRequest | None
) -> SentRequest:
    if before is None:
        return SentRequest(number, record, run, request)
    writers = record.data.get("rewritten")
    old, new = (
        entries_of({"model": of["model"], "messages": sent.messages, "tools": sent.tools})
        for of, sent in ((before.run, before.request), (run, request))
    )
    change = first_change(old, new, writers if isinstance(writers, dict) else {})
    return SentRequest(number, record, run, request, before.request, change)


def _take_response(sent: SentRequest, record: Record, before: SentRequest | None) -> None:
    value = record.data.get("value")
    plain = value.get("usage") if isinstance(value, dict) else None
    sent.answered = record.time
    try:
        usage = None if plain is None else TokenUsage.from_dict(plain)
    except TypeError:
        return
    if usage is not None:
        previous = before.usage.prompt_tokens if before is not None and before.usage is not None else 0
        sent.usage = usage.with_missed(previous)
