"""REST operations: each is both a route and an entry of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.server.people import SLASH, Person
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.server.service import Service
from pure_agent_loop.support.language import notice

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class ApiRequest:
    """A validated request.

    Args:
        body: The parsed body; None if the operation has none.
        query: The parsed query parameters; None if the operation has none.
    """

    service: Service
    person: Person
    path: Mapping[str, str]
    body: Any
    query: Any
    http: Request


def session_in(request: ApiRequest) -> str:
    """Return the session named in the path if the person may see it.

    Raises:
        HttpProblem: The id is invalid, or the session belongs to another person.
    """
    return request.service.session_of(request.person, request.path["session"])


Handler = Callable[[ApiRequest], Awaitable["BaseModel | Response | None"]]


@dataclass(frozen=True)
class Operation:
    """An HTTP method on a URL path.

    Args:
        method: ``GET``, ``POST``, ``PUT`` or ``DELETE``.
        path: The URL path, with path parameters as ``{name}``.
        name: The operation's id in the OpenAPI document.
        answer: The model of the response body; None for a response without a body.
        role: The required role; empty for any authenticated user.
        problems: Error statuses, in addition to those that every operation can return.
        types: Problem types (URNs) of the operation's conflicts.
        media: Content types of responses that are not JSON.
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
    types: tuple[str, ...] = ()
    media: tuple[str, ...] = field(default=())
    keyed: bool = False

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        person: Person = request.scope["state"]["person"]
        if self.role and not person.may(self.role):
            raise HttpProblem(403, notice("library.server_role", role=self.role))
        query = None if self.query is None else validated(self.query, _single(request), 400)
        body = None
        if self.body is not None:
            status = 400 if self.path.startswith("/v1/") else 422  # status 400, as in OpenAI's API
            body = validated(self.body, request_json(await request.body() or b"{}"), status)
        path = {name: value.replace(SLASH, "/") for name, value in request.path_params.items()}
        result = await self.handle(ApiRequest(request.app.state.service, person, path, body, query, request))
        if isinstance(result, Response):
            return result
        if result is None:
            return Response(status_code=204)
        return JSONResponse(result.model_dump(mode="json"), self.status)


def action_handler(action: Callable[..., Awaitable[BaseModel]], parameter: str) -> Handler:
    """Create the REST handler for an action that the WebSocket also offers.

    Args:
        action: A function of ``api/actions.py``.
        parameter: The path parameter with the id of the run or session.
    """

    async def handle(request: ApiRequest) -> BaseModel:
        return await action(request.service, request.person, request.path[parameter], request.body)

    return handle


def request_json(data: bytes | str) -> Any:
    """Parse strict JSON.

    Raises:
        HttpProblem: The JSON is invalid.
    """
    try:
        return loads_strictly(data if isinstance(data, str) else data.decode("utf-8-sig"))
    except ValueError as error:
        raise HttpProblem(400, f"Invalid JSON: {error}"[:200]) from None


def validated(model: type[M], value: Any, status: int) -> M:
    """Validate a value.

    Raises:
        HttpProblem: The value is invalid; the message names the field.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        # A union gives one error per alternative. The deepest error is the most specific.
        deepest = max(errors, key=lambda item: len(item["loc"]))
        path = [*_json_path(value, deepest["loc"])] + [
            str(name) for name in deepest["loc"][-1:] if deepest["type"] == "missing"
        ]
        message = deepest["msg"].removeprefix("Value error, ")
        field = ".".join(path) or "the body"
        raise HttpProblem(status, f"{field}: {message}"[:300], param=(path or [field])[0]) from None


def _json_path(value: Any, loc: Sequence[str | int]) -> Iterator[str]:
    """Yield the keys of a pydantic location that exist in the value, without the names of union members."""
    for name in loc:
        keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if name in keys:
            yield str(name)
            value = value[name]


def _single(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    query = dict(pairs)
    if len(query) < len(pairs):
        raise HttpProblem(400, "A query parameter was sent twice.")
    return query
