"""The OpenAPI document, generated from the operations and their validation models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pure_agent_loop._version import __version__
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.operation import Operation
from pure_agent_loop.server.problems import TITLES

STREAM = "text/event-stream"
_TEXT = {"type": "string"}
_FRAME = {  # schema of a Server-Sent Event
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": {**_TEXT, "contentMediaType": "application/json"}},
}
_REF = "#/components/schemas/{model}"
ALWAYS = (400, 401, 403, 405, 413, 415, 421, 429, 500)
_DESCRIPTION = """\
Events are numbered per session. A client that reconnects sends the number of its last event; it misses no
event and gets none twice, even after a restart of the server."""


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
        {
            "name": name,
            "in": "query",
            "required": name in query.get("required", ()),
            "schema": _without_null(schema),
        }
        for name, schema in query["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a schema: a query parameter may be missing, but is never null."""
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
