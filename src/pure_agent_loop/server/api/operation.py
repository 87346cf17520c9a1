"""An operation of the REST interface: written once, as a route and as a part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem, as_problem
from pure_agent_loop.server.service import Service

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Asked:
    """A request to an operation, checked.

    Args:
        service: The server.
        person: Who asks.
        path: What stands in the path, by name.
        body: What was sent; None where nothing is.
        query: What stands behind the question mark; None where nothing does.
        request: The request itself.
    """

    service: Service
    person: Person
    path: Mapping[str, str]
    body: Any
    query: Any
    request: Request


Handler = Callable[[Asked], Awaitable["BaseModel | Response | None"]]


@dataclass(frozen=True)
class Operation:
    """One method at one path.

    Args:
        method: ``GET``, ``POST``, ``PUT`` or ``DELETE``.
        path: With ``{names}``.
        name: Its id in the document.
        summary: What it does, as a sentence.
        handle: Does it.
        answer: What it answers; None for nothing.
        role: Who may; empty for everybody who is known.
        body: What it takes.
        query: What it takes behind the question mark.
        status: Of its success.
        problems: The statuses of its failures, besides those of every operation.
        media: The content types of answers that are no JSON.
        keyed: An Idempotency-Key holds for it.
    """

    method: str
    path: str
    name: str
    summary: str
    handle: Handler
    answer: type[BaseModel] | None = None
    role: str = "use"
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    problems: tuple[int, ...] = ()
    media: tuple[str, ...] = field(default=())
    keyed: bool = False

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await self._answer(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except PureAgentLoopError as error:
            problem = as_problem(error)
        body, kind = problem.body(request.url.path)
        return Response(body, problem.status, problem.headers, kind)

    async def _answer(self, request: Request) -> Response:
        person: Person = request.scope["state"]["person"]
        if self.role and not person.may(self.role):
            raise Problem(403, f"This needs the role {self.role!r}.")
        query = None if self.query is None else checked(self.query, _single(request), 400)
        body = None
        if self.body is not None:
            status = 400 if self.path.startswith("/v1/") else 422  # as clients of OpenAI expect it
            body = checked(self.body, read_json(await request.body() or b"{}"), status)
        asked = Asked(request.app.state.service, person, request.path_params, body, query, request)
        found = await self.handle(asked)
        if isinstance(found, Response):
            return found
        if found is None:
            return Response(status_code=204)
        return JSONResponse(found.model_dump(mode="json"), self.status)


def acting(act: Callable[..., Awaitable[BaseModel]], place: str) -> Handler:
    """The handler of what is done to a run or a session, the same way as over a WebSocket.

    Args:
        act: One of ``api/actions.py``.
        place: The name in the path of what it is done to.
    """

    async def handle(asked: Asked) -> BaseModel:
        return await act(asked.service, asked.person, asked.path[place], asked.body)

    return handle


def read_json(data: bytes | str) -> Any:
    """Strict JSON.

    Raises:
        Problem: It is none.
    """
    try:
        return loads_strictly(data if isinstance(data, str) else data.decode())
    except RecursionError:
        raise Problem(400, "This JSON is nested too deeply.") from None
    except ValueError as error:
        raise Problem(400, f"This is no JSON: {error}"[:200]) from None


def checked(model: type[M], given: Any, status: int) -> M:
    """A value as a model has it.

    Raises:
        Problem: It does not fit; the message names the field.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        # Of the ways in which a value could have been meant, the one that got farthest says most.
        said = max(found, key=lambda each: len(each["loc"]))
        place = [*_steps(given, said["loc"])] + [
            str(each) for each in said["loc"][-1:] if said["type"] == "missing"
        ]
        why = said["msg"].removeprefix("Value error, ")
        where = ".".join(place) or "the body"
        raise Problem(status, f"{where}: {why}"[:300], param=(place or [where])[0]) from None


def _steps(given: Any, place: Sequence[str | int]) -> Iterator[str]:
    """A place without the names that the types of ours have in it."""
    for name in place:
        known: Any = (
            given if isinstance(given, dict) else range(len(given)) if isinstance(given, list) else ()
        )
        if name in known:
            yield str(name)
            given = given[name]


def _single(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Problem(400, "A name stands twice behind the question mark.")
    return found
