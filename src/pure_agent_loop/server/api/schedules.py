"""Operations on an engine's schedules."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.operation import ApiRequest, Handler, Operation
from pure_agent_loop.server.problems import HttpProblem, not_found
from pure_agent_loop.support.language import in_each_language, notice

# States of a firing that a run cannot have, each with a description; all other states are those of runs.
_FIRING = (
    "due",
    "answered",
    "delivering",
    "done",
    "delivered",
    "quiet",
    "skipped",
    "empty",
    "undelivered",
    "unknown",
)
_ALL, _ONE = "/api/schedules", "/api/schedules/{name}"
_FAILS: dict[str, Any] = {"role": "operate", "problems": (404, 503)}


def _schedules(request: ApiRequest) -> Any:
    if request.service.engine is None:
        raise HttpProblem(404, notice("library.server_needs_engine"))
    return request.service.engine.schedules


class ScheduleBody(models.Body):
    """A schedule that runs an agent repeatedly; see docs/schedules.md."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,30}$")]
    agent: models.AgentName
    prompt: models.Text
    cron: Annotated[str, Field(max_length=200)] | None = None
    every: Annotated[float, Field(ge=1, le=31_622_400)] | None = None
    when: Annotated[
        str | None,
        Field(
            max_length=200, description="`cron` or `every` in words: `weekdays at 18:30`, `every 15 minutes`"
        ),
    ] = None
    timezone: Annotated[str, Field(max_length=60)] = "UTC"
    enabled: bool = True


class ScheduleAbout(models.ApiModel):
    """A schedule, its next due time, and its last due time with the state of that firing."""

    name: str
    agent: str
    prompt: str
    cron: str | None
    every: float | None
    timezone: str
    enabled: bool
    when: dict[str, str] = Field(description="`cron` or `every` in words, by language")
    next: float | None
    last: float | None
    last_state: str | None
    last_words: dict[str, str] | None = Field(
        description="`last_state` in words, by language, if it has some"
    )
    last_detail: str


class SchedulesBody(models.ApiModel):
    """All schedules."""

    schedules: list[ScheduleAbout]


def _model(info: Any) -> ScheduleAbout:
    from pure_agent_loop.durable.schedules.when import when_words

    schedule = info.schedule
    due, state, detail = (info.last.due, info.last.state, info.last.detail) if info.last else (None, None, "")
    return ScheduleAbout.of(
        schedule,
        enabled=info.next is not None,
        when=when_words(schedule.cron, schedule.every),
        next=info.next,
        last=due,
        last_state=state,
        last_words=in_each_language(f"library.firing_{state}") if state in _FIRING else None,
        last_detail=detail,
    )


async def _list(request: ApiRequest) -> SchedulesBody:
    schedules = await asyncio.to_thread(_schedules(request).list)
    return SchedulesBody(schedules=[_model(schedule) for schedule in schedules])


def _on_schedule(method: str) -> Handler:
    """Return the handler for a `Schedules` method that takes a name."""

    async def handle(request: ApiRequest) -> ScheduleAbout | None:
        from pure_agent_loop.durable import DurableNotFoundError

        try:
            info = await asyncio.to_thread(getattr(_schedules(request), method), request.path["name"])
        except DurableNotFoundError:
            raise not_found("schedule") from None
        return None if info is None else _model(info)

    return handle


def _times(body: ScheduleBody) -> dict[str, Any]:
    """Return the `Schedule` arguments that define when the schedule is due."""
    from pure_agent_loop.durable import read_when

    if body.when is None:
        return {"cron": body.cron, "every": body.every}
    if body.cron is not None or body.every is not None:
        raise ConfigError(notice("library.when_or_cron"))
    return read_when(body.when)


async def _add(request: ApiRequest) -> ScheduleAbout:
    from pure_agent_loop.durable import Schedule

    schedules = _schedules(request)
    try:
        about = request.body.model_dump(exclude={"when", "cron", "every"})
        schedule = Schedule(**about, **_times(request.body))
        return _model(await asyncio.to_thread(schedules.add, schedule))
    except ConfigError as error:
        raise HttpProblem(409, error) from error


OPERATIONS = [
    Operation("GET", _ALL, "list_schedules", "List schedules.", _list, SchedulesBody, **_FAILS),
    Operation("POST", _ALL, "add_schedule", "Add a schedule.", _add, ScheduleAbout,
              role="operate", body=ScheduleBody, status=201, problems=(404, 409, 503)),
    Operation("GET", _ONE, "get_schedule", "Get a schedule.", _on_schedule("get"), ScheduleAbout, **_FAILS),
    Operation("DELETE", _ONE, "remove_schedule", "Remove a schedule.", _on_schedule("remove"), status=204,
              **_FAILS),
    Operation("POST", f"{_ONE}/pause", "pause_schedule", "Pause a schedule.", _on_schedule("pause"),
              ScheduleAbout, **_FAILS),
    Operation("POST", f"{_ONE}/resume", "resume_schedule", "Resume a paused schedule.",
              _on_schedule("resume"), ScheduleAbout, **_FAILS),
]  # fmt: skip
