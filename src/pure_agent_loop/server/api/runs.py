"""Operations on runs: start, list, steer, stop."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.operation import ApiRequest, Operation, action_handler
from pure_agent_loop.server.hub import WAITS
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.support.parsing import read_json

T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_ONE = "/api/runs/{run}"


def paginate(
    items: Sequence[T], page: models.PageQuery, sort_key: Callable[[T], tuple[float, str]]
) -> tuple[Sequence[T], str | None]:
    """Return a page of a descending list, and the cursor of the next page.

    Raises:
        HttpProblem: The cursor is invalid.
    """
    if page.cursor is not None:
        try:
            when, name = read_json(base64.urlsafe_b64decode(page.cursor))
            last = (float(when), str(name))
        except (ValueError, TypeError):
            raise HttpProblem(404, "cursor: invalid. Use `next` of the previous page.") from None
        items = [item for item in items if sort_key(item) < last]
    part = items[: page.limit]
    if len(part) == len(items):
        return part, None
    return part, base64.urlsafe_b64encode(json.dumps(sort_key(part[-1])).encode()).decode()


def key_of(request: ApiRequest) -> str:
    """Return the Idempotency-Key of a request; empty for none.

    Raises:
        HttpProblem: The key is invalid.
    """
    key = request.http.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise HttpProblem(400, "Idempotency-Key must be 1 to 200 printable ASCII characters without spaces.")
    return key or ""


def run_response(request: ApiRequest, run: models.RunBody, *, is_new: bool) -> Response:
    """Create the response to a request that started a run."""
    root = request.http.scope.get("root_path", "")
    headers = {
        "Location": f"{root}/api/runs/{quote(run.id, safe=':')}",
        **({} if is_new else {"Idempotency-Replayed": "true"}),
    }
    return JSONResponse(run.model_dump(mode="json"), 201, headers)


async def _start(request: ApiRequest) -> Response:
    run, is_new = await actions.send(request.service, request.person, request.body, key_of(request))
    return run_response(request, run, is_new=is_new)


async def _list(request: ApiRequest) -> models.Runs:
    query: models.RunsQuery = request.query
    runs = [
        run
        for run in request.service.hub.runs.values()
        if (request.person.owns(run.session) or run.owner == request.person.name)
        and query.state in (None, run.state)
        and query.session in (None, run.session)
    ]
    runs.sort(key=lambda run: (run.created, run.id), reverse=True)
    page, cursor = paginate(runs, query, lambda run: (run.created, run.id))
    return models.Runs(runs=[actions.run_model(run, request.person) for run in page], next=cursor)


async def _get(request: ApiRequest) -> models.RunBody:
    return actions.run_model(request.service.run_of(request.person, request.path["run"]), request.person)


OPERATIONS = [
    Operation("POST", "/api/runs", "start_run", "Start a run.", _start, models.RunBody,
              body=models.Message, status=201, problems=(404, 409, 503), types=(WAITS,), keyed=True),
    Operation("GET", "/api/runs", "list_runs", "List runs, newest first.", _list, models.Runs,
              query=models.RunsQuery, problems=(404,)),
    Operation("GET", _ONE, "get_run", "Get a run.", _get, models.RunBody, problems=(404,)),
    Operation("POST", f"{_ONE}/steer", "steer_run", "Send a message to a running run.",
              action_handler(actions.steer, "run"), models.Done,
              body=models.Steer, problems=(404, 409)),
    Operation("POST", f"{_ONE}/stop", "stop_run", "Stop a run.", action_handler(actions.stop, "run"),
              models.Done, body=models.Stop, problems=(404,)),
]  # fmt: skip
