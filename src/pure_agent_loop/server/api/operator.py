"""For who operates: what was sent to models, what the audit log says, and the workers of an engine."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from pure_agent_loop.audit import AuditLog, history
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.request import Request, build_request
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.server.api.models import Answer, Count, Query
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.api.sessions import session_in
from pure_agent_loop.server.problems import Problem, not_found
from pure_agent_loop.sessions.run_record import NoClient, rebuild
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import Past
from pure_agent_loop.support.text import to_jsonable

_UNREADABLE = (KeyError, TypeError, ValueError, ConfigError)  # of a record that another version wrote


class RequestAbout(Answer):
    """A request to a model. The parts are estimates, in tokens; the rest is what the server said.

    `same` messages at its beginning, and its tools if `same_tools`, are those of the request before: what a
    cache of prompts can use.
    """

    number: Count
    step: Count
    time: float
    model: str
    messages: Count
    same: Count
    same_tools: bool
    parts: dict[str, int]
    window: int | None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None


class Requests(Answer):
    """The newest requests of a session, oldest first."""

    requests: list[RequestAbout]
    total: Count


class RequestBody(Answer):
    """A request as its model was asked: messages, tools and options."""

    number: Count
    request: dict[str, Any]


class AuditEntry(Answer):
    """A call as the audit log has it."""

    number: Count
    time: float
    step: Count
    agent: str
    tool: str
    args: Any
    status: str
    verdict: str
    reason: str
    result: str | None
    result_sha256: str
    seconds: float | None
    user: str
    host: str


class Audit(Answer):
    """The newest calls of a session in the audit log, oldest first."""

    calls: list[AuditEntry]


class Working(Answer):
    """A worker, and how many runs it works on; its host is empty where it is gone."""

    name: str
    host: str
    runs: Count


class QueueAbout(Answer):
    """A queue: the runs of all agents with the same model."""

    name: str
    agents: list[str]
    pending: Count
    running: Count


class FleetRun(Answer):
    """A run of the engine; `handovers`: how often it was left before its end, and taken up again."""

    id: str
    agent: str
    state: str
    worker: str
    session: str
    created: float
    updated: float
    handovers: Count


class Fleet(Answer):
    """An engine: its workers, queues and newest runs; `states` counts these."""

    workers: list[Working]
    queues: list[QueueAbout]
    states: dict[str, int]
    runs: list[FleetRun]


class Newest(Query):
    """How many of the newest."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50


def _requests_in(records: Sequence[Record], first: int) -> Iterator[tuple[RequestAbout, Request]]:
    """The requests of a session from a number on, made by the same code as when they were sent."""
    past, run, number = Past(), dict[str, Any](), 0
    before: Request | None = None
    open_: tuple[RequestAbout, Request] | None = None
    for record in records:
        past.take(record)
        if record.type == "run":
            run = record.data
        elif record.type == "answer" and open_ is not None and str(record.data.get("key")).endswith(":model"):
            _answered(open_[0], record)
        elif record.type == "state" and record.data.get("awaiting"):
            number += 1
            if number < first - 1:
                continue
            if open_ is not None and open_[0].number >= first:
                yield open_
            made = _request(past, run)
            open_ = None if made is None else (_about(number, record, run, made, before), made)
            before = made
    if open_ is not None and open_[0].number >= first:
        yield open_


def _request(past: Past, run: dict[str, Any]) -> Request | None:
    try:
        state, kit = past.to_state(), rebuild(run)
        client = NoClient(str(run["model"]), takes_meta=False)  # messages as they go over the wire
        return None if state is None else build_request(state, replace(kit, client=client))
    except _UNREADABLE:
        return None


def _about(
    number: int, record: Record, run: dict[str, Any], asked: Request, before: Request | None
) -> RequestAbout:
    parts: Counter[str] = Counter()
    for message in asked.messages:
        parts[message["role"]] += estimate_message(message)
    if asked.tools:
        parts["tools"] = estimate_tokens(json.dumps(asked.tools, ensure_ascii=False))
    known = before.messages if before is not None else []
    pairs = enumerate(zip(asked.messages, known, strict=False))
    same = next((at for at, (new, old) in pairs if new != old), min(len(asked.messages), len(known)))
    return RequestAbout(
        number=number,
        step=int(record.data["ledger"]["steps"]),
        time=record.time,
        model=str(run["model"]),
        messages=len(asked.messages),
        same=same,
        same_tools=before is not None and asked.tools == before.tools,
        parts=dict(parts),
        window=run.get("window"),
    )


def _answered(about: RequestAbout, record: Record) -> None:
    value = record.data.get("value")
    usage = value.get("usage") if isinstance(value, dict) else None
    about.seconds = max(0.0, record.time - about.time)
    for name in ("prompt_tokens", "cached_tokens", "completion_tokens"):
        setattr(about, name, usage.get(name) if isinstance(usage, dict) else None)


def _read(asked: Asked, first: int, last: int) -> list[tuple[RequestAbout, Request]]:
    """Requests by number, from 1; of the end where they are not above 0."""
    records = asked.service.hub.sessions.store.read(session_in(asked)).records
    total = sum(each.type == "state" and bool(each.data.get("awaiting")) for each in records)
    first = first if first > 0 else total + first
    return [each for each in _requests_in(records, max(first, 1)) if last < 1 or each[0].number <= last]


async def _requests(asked: Asked) -> Requests:
    found = await asyncio.to_thread(_read, asked, 1 - asked.query.limit, 0)
    return Requests(requests=[about for about, _ in found], total=found[-1][0].number if found else 0)


async def _one(asked: Asked) -> RequestBody:
    given = asked.path["number"]
    number = int(given) if given.isdecimal() and len(given) < 10 else 0
    found = await asyncio.to_thread(_read, asked, number, number) if number else []
    if not found:
        raise not_found("request")
    (_, request), *_ = found
    tools = {"tools": request.tools} if request.tools else {}
    body = {"messages": request.messages, **tools, **request.options}
    return RequestBody(number=number, request=to_jsonable(body))


async def _audit(asked: Asked) -> Audit:
    session = session_in(asked)
    logs = {
        log.path: log
        for agent in asked.service.hub.agents.values()
        if isinstance(log := agent._kit.observers.audit, AuditLog)  # the two are one package
    }
    found = [
        each
        for log in logs.values()
        for each in await asyncio.to_thread(history, log, session=session, limit=asked.query.limit)
    ]
    newest = sorted(found, key=lambda each: each.time)[-asked.query.limit :]
    return Audit(calls=[AuditEntry.of(each, args=to_jsonable(each.args)) for each in newest])


async def _fleet(asked: Asked) -> Fleet:
    engine = asked.service.engine
    if engine is None:
        raise Problem(404, "There is a fleet only where there is an engine: database= (--database).")
    tasks, agents, left, hosts = await asyncio.to_thread(engine.fleet, asked.query.limit)
    queues: dict[str, list[str]] = {}
    for agent, queue in sorted(agents.items()):
        queues.setdefault(queue, []).append(agent)
    by = Counter((each.agent, each.status) for each in tasks)
    busy = Counter(each.worker for each in tasks if each.status == "running" and each.worker)
    workers = {**dict.fromkeys(busy, ""), **dict(hosts)}  # one that is gone may still have runs
    return Fleet(
        workers=[Working(name=name, host=host, runs=busy[name]) for name, host in sorted(workers.items())],
        queues=[
            QueueAbout(
                name=name,
                agents=some,
                pending=sum(by[each, "pending"] for each in some),
                running=sum(by[each, "running"] for each in some),
            )
            for name, some in queues.items()
        ],
        states=dict(Counter(each.status for each in tasks)),
        runs=[
            FleetRun.of(
                each,
                id=each.run_id,
                state=each.status,
                session=each.session_id,
                handovers=left.get(each.run_id, 0),
            )
            for each in tasks
        ],
    )


_ONE: dict[str, Any] = {"role": "operate", "problems": (404,)}
_OF = "/api/sessions/{session}"
OPERATIONS = [
    Operation("GET", f"{_OF}/requests", "session_requests", "What was sent to models, with its parts.",
              _requests, Requests, query=Newest, **_ONE),
    Operation("GET", f"{_OF}/requests/{{number}}", "session_request", "A request as it was sent.", _one,
              RequestBody, **_ONE),
    Operation("GET", f"{_OF}/audit", "session_audit", "The calls of a session in the audit log.", _audit,
              Audit, query=Newest, **_ONE),
    Operation("GET", "/api/fleet", "fleet", "Workers, queues and runs of the engine.", _fleet, Fleet,
              query=Newest, role="operate", problems=(404, 503)),
]  # fmt: skip
