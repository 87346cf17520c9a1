"""Runs: begun, listed, steered, stopped."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.responses import JSONResponse, Response

from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.operation import Asked, Operation, acting
from pure_agent_loop.server.problems import Problem

T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def part_of(
    found: Sequence[T], page: models.Page, place: Callable[[T], tuple[float, str]]
) -> tuple[Sequence[T], str | None]:
    """A part of a list that is sorted downwards, and what to ask for the next one.

    Args:
        found: All of it.
        page: Which part.
        place: What it is sorted by.

    Raises:
        Problem: The cursor is none of ours.
    """
    if page.cursor is not None:
        try:
            when, name = json.loads(base64.urlsafe_b64decode(page.cursor))
            last = (float(when), str(name))
        except (ValueError, TypeError):
            raise Problem(404, "cursor: it is none that this server gave.") from None
        found = [each for each in found if place(each) < last]
    part = found[: page.limit]
    if len(part) == len(found):
        return part, None
    return part, base64.urlsafe_b64encode(json.dumps(place(part[-1])).encode()).decode()


def key_of(asked: Asked) -> str:
    """The Idempotency-Key of a request; empty for none.

    Raises:
        Problem: It cannot be one.
    """
    key = asked.request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise Problem(400, "Idempotency-Key has 1 to 200 characters of ASCII, without blanks.")
    return key or ""


def begun(run: models.Run, *, is_new: bool) -> Response:
    """The answer to what begins a run."""
    headers = {"Location": f"/api/runs/{run.id}", **({} if is_new else {"Idempotency-Replayed": "true"})}
    return JSONResponse(run.model_dump(mode="json"), 201, headers)


async def _start(asked: Asked) -> Response:
    run, is_new = await actions.send(asked.service, asked.person, asked.body, key_of(asked))
    return begun(run, is_new=is_new)


async def _list(asked: Asked) -> models.Runs:
    query: models.RunsQuery = asked.query
    found = [
        each
        for each in asked.service.hub.runs.values()
        if (asked.person.owns(each.session) or each.owner == asked.person.name)
        and query.state in (None, each.state)
        and query.session in (None, each.session)
    ]
    found.sort(key=lambda each: (each.created, each.id), reverse=True)
    part, after = part_of(found, query, lambda each: (each.created, each.id))
    return models.Runs(runs=[actions.run_about(each, asked.person) for each in part], next=after)


async def _get(asked: Asked) -> models.Run:
    return actions.run_about(asked.service.run_of(asked.person, asked.path["run"]), asked.person)


_ONE = "/api/runs/{run}"
OPERATIONS = [
    Operation("POST", "/api/runs", "start_run", "Begin a run with a message.", _start, models.Run,
              body=models.Message, status=201, problems=(404, 409, 422, 503), keyed=True),
    Operation("GET", "/api/runs", "list_runs", "The runs, the newest first.", _list, models.Runs,
              query=models.RunsQuery, problems=(404,)),
    Operation("GET", _ONE, "get_run", "A run, as it stands.", _get, models.Run, problems=(404,)),
    Operation("POST", f"{_ONE}/steer", "steer_run", "Say something to a run at work.",
              acting(actions.steer, "run"), models.Done,
              body=models.Steer, problems=(404, 409, 422)),
    Operation("POST", f"{_ONE}/stop", "stop_run", "Stop a run.", acting(actions.stop, "run"),
              models.Done, body=models.Stop, problems=(404, 422)),
]  # fmt: skip
