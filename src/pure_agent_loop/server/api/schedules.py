"""Schedules, where there is an engine."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.problems import Problem, not_found
from pure_agent_loop.support.text import safe_str


def _schedules(asked: Asked) -> Any:
    if asked.service.engine is None:
        raise Problem(404, "There are schedules only where there is an engine: database= (--database).")
    return asked.service.engine.schedules


class ScheduleBody(models.Body):
    """An agent that is run again and again; see docs/schedules.md."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,30}$")]
    agent: models.AgentName
    prompt: models.Text
    cron: Annotated[str, Field(max_length=200)] | None = None
    every: Annotated[float, Field(ge=1, le=31_622_400)] | None = None
    timezone: Annotated[str, Field(max_length=60)] = "UTC"
    enabled: bool = True


class ScheduleAbout(models.Answer):
    """A schedule, as it stands."""

    name: str
    agent: str
    prompt: str
    cron: str | None
    every: float | None
    timezone: str
    enabled: bool
    next: float | None
    last: float | None


class Schedules(models.Answer):
    """The schedules."""

    schedules: list[ScheduleAbout]


def _about(info: Any) -> ScheduleAbout:
    schedule = info.schedule
    last = info.last.due if info.last else None
    return ScheduleAbout.of(schedule, enabled=info.next is not None, next=info.next, last=last)


async def _list(asked: Asked) -> Schedules:
    found = await asyncio.to_thread(_schedules(asked).list)
    return Schedules(schedules=[_about(each) for each in found])


async def _get(asked: Asked) -> ScheduleAbout:
    return _about(await asyncio.to_thread(_known(_schedules(asked).get), asked.path["name"]))


async def _add(asked: Asked) -> ScheduleAbout:
    from pure_agent_loop.durable import Schedule

    schedules = _schedules(asked)
    try:
        schedule = Schedule(**asked.body.model_dump())
        return _about(await asyncio.to_thread(schedules.add, schedule))
    except ConfigError as error:
        raise Problem(409, safe_str(error)) from error


async def _remove(asked: Asked) -> None:
    await asyncio.to_thread(_known(_schedules(asked).remove), asked.path["name"])


async def _pause(asked: Asked) -> ScheduleAbout:
    return _about(await asyncio.to_thread(_known(_schedules(asked).pause), asked.path["name"]))


async def _resume(asked: Asked) -> ScheduleAbout:
    return _about(await asyncio.to_thread(_known(_schedules(asked).resume), asked.path["name"]))


def _known(function: Any) -> Any:
    def known(name: str) -> Any:
        from pure_agent_loop.durable import DurableError

        try:
            return function(name)
        except DurableError as error:
            raise not_found("schedule") if "There is no" in str(error) else error from None

    return known


_ALL, _ONE = "/api/schedules", "/api/schedules/{name}"
_FAILS: dict[str, Any] = {"role": "operate", "problems": (404, 503)}
OPERATIONS = [
    Operation("GET", _ALL, "list_schedules", "The schedules.", _list, Schedules, **_FAILS),
    Operation("POST", _ALL, "add_schedule", "Run an agent again and again.", _add, ScheduleAbout,
              role="operate", body=ScheduleBody, status=201, problems=(404, 409, 422, 503)),
    Operation("GET", _ONE, "get_schedule", "A schedule.", _get, ScheduleAbout, **_FAILS),
    Operation("DELETE", _ONE, "remove_schedule", "Take a schedule away.", _remove, status=204, **_FAILS),
    Operation("POST", f"{_ONE}/pause", "pause_schedule", "Run it no more until it is resumed.", _pause,
              ScheduleAbout, **_FAILS),
    Operation("POST", f"{_ONE}/resume", "resume_schedule", "Run it again from now on.", _resume,
              ScheduleAbout, **_FAILS),
]  # fmt: skip
