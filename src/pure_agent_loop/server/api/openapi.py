"""The OpenAPI document, generated from the operations and their validation models."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pure_agent_loop._version import __version__
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.server.api import models
from pure_agent_loop.server.people import SLASH, TITLES, HttpProblem, Person
from pure_agent_loop.server.serving import Service
from pure_agent_loop.support.language import notice

# -- REST operations: each is both a route and an entry of the OpenAPI document --------------------------

M = TypeVar("M", bound=BaseModel)
STREAM = "text/event-stream"
_TEXT = {"type": "string"}
_FRAME = {  # a Server-Sent Event
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": {**_TEXT, "contentMediaType": "application/json"}},
}
_REF = "#/components/schemas/{model}"
ALWAYS = (400, 401, 403, 405, 413, 415, 421, 429, 500)
_DESCRIPTION = """\
Events are numbered per session. A client that reconnects sends its last number; it misses no event and gets
none twice, even after a restart of the server."""


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


Handler = Callable[[ApiRequest], Awaitable["BaseModel | Response | None"]]


@dataclass(frozen=True)
class Operation:
    """A method of a path.

    Args:
        method: ``GET``, ``POST``, ``PUT`` or ``DELETE``.
        path: With ``{names}`` of path parameters.
        name: The operation's id in the OpenAPI document.
        answer: The response body; None for none.
        role: The required role; empty for any authenticated user.
        problems: Error statuses, in addition to those of every operation.
        types: Problem types (URNs) of its conflicts.
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
            status = 400 if self.path.startswith("/v1/") else 422  # 400 as in OpenAI's API
            body = validated(self.body, read_json(await request.body() or b"{}"), status)
        path = {name: value.replace(SLASH, "/") for name, value in request.path_params.items()}
        result = await self.handle(ApiRequest(request.app.state.service, person, path, body, query, request))
        if isinstance(result, Response):
            return result
        if result is None:
            return Response(status_code=204)
        return JSONResponse(result.model_dump(mode="json"), self.status)


def action_handler(action: Callable[..., Awaitable[BaseModel]], parameter: str) -> Handler:
    """Create the REST handler of an action that the WebSocket also has.

    Args:
        action: A function of ``api/actions.py``.
        parameter: The path parameter with the id of the run or session.
    """

    async def handle(request: ApiRequest) -> BaseModel:
        return await action(request.service, request.person, request.path[parameter], request.body)

    return handle


def read_json(data: bytes | str) -> Any:
    """Parse strict JSON.

    Raises:
        HttpProblem: The JSON is invalid.
    """
    try:
        return loads_strictly(data if isinstance(data, str) else data.decode())
    except RecursionError:
        raise HttpProblem(400, "Invalid JSON: nested too deeply.") from None
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
        # A union gives an error per alternative: the deepest one is the most specific.
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


class OpenAIErrorAbout(BaseModel):
    """The error object of OpenAI's API."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error response below ``/v1``."""

    error: OpenAIErrorAbout


def document(operations: Iterable[Operation], root: str = "") -> dict[str, Any]:
    """Create the document."""
    operations = list(operations)
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pure-agent-loop", "version": __version__, "description": _DESCRIPTION},
        **({"servers": [{"url": root}]} if root else {}),
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    bodies = {operation.body: None for operation in operations if operation.body is not None}
    answers = {operation.answer: None for operation in operations if operation.answer is not None}
    models_and_modes: list[Any] = [(body, "validation") for body in bodies]
    models_and_modes += [(answer, "serialization") for answer in (*answers, models.ProblemAbout, OpenAIError)]
    _, definitions = models_json_schema(models_and_modes, ref_template=_REF)
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas


def _operation(operation: Operation) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path(operation), *_query(operation), *_headers(operation)],
        "responses": {str(operation.status): _success(operation), **_problems(operation)},
    }
    if operation.method == "GET" and STREAM in operation.media:
        spec["responses"]["204"] = {"description": "The run has ended and has no more events."}
    if operation.body is not None:
        content = {"application/json": {"schema": _ref(operation.body)}}
        spec["requestBody"] = {
            "required": bool(operation.body.model_json_schema().get("required")),
            "content": content,
        }
    if operation.role:
        spec["description"] = f"Requires the role `{operation.role}`."
    return spec


def _path(operation: Operation) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    plain = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "maxLength": 100}
    schemas = {"session": {"type": "string", "minLength": 1, "maxLength": 300}}  # any text, percent-encoded
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, plain)} for name in names
    ]


def _query(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    query = operation.query.model_json_schema()
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in query["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a schema: a query parameter is a string or missing."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default", "title")}
    return {**kept, **(kinds[0] if kinds else {})}


def _headers(operation: Operation) -> list[dict[str, Any]]:
    headers = []
    if operation.keyed:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        description = "Within 24 hours, requests with the same key start one run."
        headers.append(
            {"name": "Idempotency-Key", "in": "header", "schema": schema, "description": description}
        )
    if operation.method == "GET" and STREAM in operation.media:
        schema = {"type": "string", "pattern": "^[0-9]{1,16}$"}
        description = "The number of the last received event."
        headers.append(
            {"name": "Last-Event-ID", "in": "header", "schema": schema, "description": description}
        )
    return headers


def _success(operation: Operation) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "description": "Success." if operation.status != 204 else "Success, without a body."
    }
    content: dict[str, Any] = {
        kind: {"schema": _TEXT if kind != STREAM else _FRAME} for kind in operation.media
    }
    if operation.answer is not None:
        content["application/json"] = {"schema": _ref(operation.answer)}
    if content:
        spec["content"] = content
    return spec


def _problems(operation: Operation) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref(models.ProblemAbout)}}
    own = {422} if operation.body is not None else set()  # the body does not fit its model
    if operation.path.startswith("/v1/"):
        own, content = set(), {"application/json": {"schema": _ref(OpenAIError)}}
    types = ", ".join(f"`{kind}`" for kind in operation.types)
    titles = {**TITLES, **({409: f"Conflict; type {types} or `about:blank`"} if types else {})}
    return {
        str(status): {"description": titles[status], "content": content}
        for status in sorted({*ALWAYS, *operation.problems, *own})
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
