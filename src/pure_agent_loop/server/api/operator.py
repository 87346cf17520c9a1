"""Operations for operators: requests to models, the audit log, an engine's workers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from typing import Annotated, Any

from pydantic import Field

from pure_agent_loop.audit import AuditLog, history
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.server.api.models import ApiModel, Count, Query
from pure_agent_loop.server.api.operation import ApiRequest, Operation, session_in
from pure_agent_loop.server.problems import HttpProblem, not_found
from pure_agent_loop.sessions.requests import SentRequest, requests_in
from pure_agent_loop.support.language import LANGUAGES, TranslatedText, in_each_language, notice
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import to_jsonable

_COUNTS = (
    "prompt_tokens", "cached_tokens", "completion_tokens", "cache_write_tokens", "cache_missed_tokens",
)  # fmt: skip
_TASK = 200  # characters
DAY = 86_400.0  # seconds
_ONE: dict[str, Any] = {"role": "operate", "problems": (404,)}
_OF = "/api/sessions/{session}"


class RequestAbout(ApiModel):
    """A request to a model. `parts` are estimates in tokens; the other counts come from the model's server.

    The first `same` messages, and the tools if `same_tools`, equal those of the previous request: a prompt
    cache can reuse them. `changed` explains in each language which other part changed first, and who changed
    it. `reused` describes what a cache can reuse; null for the first request.
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
    cache_write_tokens: int | None = None
    cache_missed_tokens: int | None = None
    seconds: float | None = None
    changed: dict[str, str] | None = None
    reused: dict[str, str] | None = None


class Requests(ApiModel):
    """The newest requests of a session, oldest first."""

    requests: list[RequestAbout]
    total: Count


class RequestBody(ApiModel):
    """The body of a request to a model: messages, tools and options."""

    number: Count
    request: dict[str, Any]


class AuditEntry(ApiModel):
    """A call in the audit log."""

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


class Audit(ApiModel):
    """The newest calls of a session in the audit log, oldest first."""

    calls: list[AuditEntry]


class Working(ApiModel):
    """A worker and its number of runs. The host is empty for a worker known only by its runs.

    `alive` is false for a worker whose process has ended, or that has sent no heartbeat for 30 seconds;
    `seen` is the time of its last heartbeat in seconds since the epoch.
    """

    name: str
    host: str
    runs: Count
    alive: bool
    seen: float | None


class QueueAbout(ApiModel):
    """A queue of runs. Agents with the same model share a queue."""

    name: str
    agents: list[str]
    pending: Count
    running: Count


class FleetRun(ApiModel):
    """A run in the engine. `handovers` counts how often another worker had to take over the run.

    `error` is the shortened error. If a model's server failed, `failure` describes the failure in each
    language.
    """

    id: str
    agent: str
    task: str
    state: str
    worker: str
    session: str
    created: float
    updated: float
    handovers: Count
    error: str = ""
    failure: dict[str, str] = Field({})


class CostToday(ApiModel):
    """Today's cost of a person's runs of an agent; `unknown` is the number of runs without a known cost."""

    agent: str
    person: str
    runs: Count
    cost: float
    unknown: Count


class Fleet(ApiModel):
    """An engine: workers, queues and newest runs, with the number of runs per state.

    `costs_today` covers this server's runs that changed since midnight UTC, the highest cost first.
    """

    workers: list[Working]
    queues: list[QueueAbout]
    states: dict[str, int]
    runs: list[FleetRun]
    costs_today: list[CostToday]


class NewestOnly(Query):
    """The maximum number of items to return; the newest items are returned."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50


def _in_each_language(text: TranslatedText) -> dict[str, str]:
    return {language: text.translated(language) for language in LANGUAGES}


def _about(sent: SentRequest) -> RequestAbout:
    request, before, usage = sent.request, sent.before, sent.usage
    parts: Counter[str] = Counter()
    for message in request.messages:
        parts[message["role"]] += estimate_message(message)
    if request.tools:
        parts["tools"] = estimate_tokens(json.dumps(request.tools, ensure_ascii=False))
    known = before.messages if before is not None else []
    pairs = enumerate(zip(request.messages, known, strict=False))
    same = next((index for index, (new, old) in pairs if new != old), min(len(request.messages), len(known)))
    same_tools = before is not None and request.tools == before.tools
    kept = "library.request_kept" if same_tools else "library.request_tools_changed"
    return RequestAbout(
        number=sent.number,
        step=int(sent.record.data["ledger"]["steps"]),
        time=sent.record.time,
        model=str(sent.run["model"]),
        messages=len(request.messages),
        same=same,
        same_tools=same_tools,
        reused=before and in_each_language(kept, same=same, all=len(request.messages)),
        parts=dict(parts),
        window=sent.run.get("window"),
        changed=None if sent.change is None else _in_each_language(sent.change.words()),
        seconds=None if sent.answered is None else max(0.0, sent.answered - sent.record.time),
        **{name: getattr(usage, name) for name in _COUNTS if usage is not None},
    )


def _read(request: ApiRequest, first: int, last: int) -> list[SentRequest]:
    """Return the requests from number `first` to number `last`, counted from 1.

    A `first` of 0 or less counts from the end; a `last` of 0 sets no limit.
    """
    records = request.service.hub.sessions.store.read(session_in(request)).records
    total = sum(record.type == "state" and bool(record.data.get("awaiting")) for record in records)
    first = first if first > 0 else total + first
    return [item for item in requests_in(records, max(first, 1)) if last < 1 or item.number <= last]


async def _requests(request: ApiRequest) -> Requests:
    items = await asyncio.to_thread(_read, request, 1 - request.query.limit, 0)
    return Requests(requests=[*map(_about, items)], total=items[-1].number if items else 0)


async def _one(request: ApiRequest) -> RequestBody:
    text = request.path["number"]
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    items = await asyncio.to_thread(_read, request, number, number) if number else []
    if not items:
        raise not_found("request")
    sent = items[0].request
    tools = {"tools": sent.tools} if sent.tools else {}
    body = {"messages": sent.messages, **tools, **sent.options}
    return RequestBody(number=number, request=to_jsonable(body))


async def _audit(request: ApiRequest) -> Audit:
    session = session_in(request)
    logs = {
        log.path: log
        for agent in request.service.hub.agents.values()
        if isinstance(log := agent.config.audit, AuditLog)
    }
    calls = [
        call
        for log in logs.values()
        for call in await asyncio.to_thread(history, log, session=session, limit=request.query.limit)
    ]
    newest = sorted(calls, key=lambda call: call.time)[-request.query.limit :]
    return Audit(calls=[AuditEntry.of(call, args=to_jsonable(call.args)) for call in newest])


async def _fleet(request: ApiRequest) -> Fleet:
    engine = request.service.engine
    if engine is None:
        raise HttpProblem(404, notice("library.server_needs_engine"))
    fleet = await asyncio.to_thread(engine.fleet, request.query.limit)
    queues: dict[str, list[str]] = {}
    for agent, queue in sorted(fleet.agents.items()):
        queues.setdefault(queue, []).append(agent)
    depth, running = (fleet.gauges.get(f"pal_queue_{name}", {}) for name in ("depth", "running"))
    today = time.time() // DAY * DAY
    by_person: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for run in request.service.hub.runs.values():
        if run.updated >= today:
            by_person[run.agent, run.owner].append(run.cost)
    return Fleet(
        workers=[
            Working(
                name=worker.name,
                host=worker.host,
                runs=fleet.busy.get(worker.name, 0),
                alive=worker.is_alive,
                seen=worker.seen or None,
            )
            for worker in fleet.workers
        ],
        costs_today=sorted(
            (
                CostToday(
                    agent=agent,
                    person=person,
                    runs=len(costs),
                    cost=sum(filter(None, costs)),
                    unknown=costs.count(None),
                )
                for (agent, person), costs in by_person.items()
            ),
            key=lambda each: -each.cost,
        ),
        queues=[
            QueueAbout(
                name=name,
                agents=members,
                pending=int(depth.get((("queue", name),), 0)),
                running=int(running.get((("queue", name),), 0)),
            )
            for name, members in queues.items()
        ],
        states=fleet.states,
        runs=[
            FleetRun.of(
                task,
                id=task.run_id,
                task=task.task[:_TASK],
                state=task.status,
                session=task.session_id,
                handovers=fleet.handovers.get(task.run_id, 0),
                error=one_line(task.error, _TASK),
                failure=task.details.get("error_title") or {},
            )
            for task in fleet.tasks
        ],
    )


OPERATIONS = [
    Operation("GET", f"{_OF}/requests", "session_requests", "List requests to models.",
              _requests, Requests, query=NewestOnly, **_ONE),
    Operation("GET", f"{_OF}/requests/{{number}}", "session_request", "Get the body of a request.", _one,
              RequestBody, **_ONE),
    Operation("GET", f"{_OF}/audit", "session_audit", "List a session's calls in the audit log.", _audit,
              Audit, query=NewestOnly, **_ONE),
    Operation("GET", "/api/fleet", "fleet", "Get the engine's workers, queues and runs.", _fleet, Fleet,
              query=NewestOnly, role="operate", problems=(404, 503)),
]  # fmt: skip
