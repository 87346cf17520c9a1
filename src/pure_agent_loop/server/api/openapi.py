"""The OpenAPI document, written from the operations and the types that check requests, so it cannot be wrong
about either."""

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
_FRAME = {  # of each event
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": {**_TEXT, "contentMediaType": "application/json"}},
}
_REF = "#/components/schemas/{model}"
_ALWAYS = (400, 401, 403, 405, 413, 415, 421, 429, 500)
_DESCRIPTION = """\
Events are numbered over a session. A client that comes back names the last number it has, and misses nothing
and sees nothing twice, also after a restart of the server."""


class OpenAIErrorAbout(BaseModel):
    """What went wrong, as clients of OpenAI read it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """What went wrong below ``/v1``."""

    error: OpenAIErrorAbout


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document.

    Args:
        operations: All of them.
    """
    operations = list(operations)
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pure-agent-loop", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    bodies = {each.body: None for each in operations if each.body is not None}
    answers = {each.answer: None for each in operations if each.answer is not None}
    wanted: list[Any] = [(each, "validation") for each in bodies]
    wanted += [(each, "serialization") for each in (*answers, models.ProblemAbout, OpenAIError)]
    _, found = models_json_schema(wanted, ref_template=_REF)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _operation(each: Operation) -> dict[str, Any]:
    about: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [*_path(each), *_query(each), *_headers(each)],
        "responses": {str(each.status): _success(each), **_problems(each)},
    }
    if each.method == "GET" and STREAM in each.media:
        about["responses"]["204"] = {"description": "There is nothing more, and will not be."}
    if each.body is not None:
        content = {"application/json": {"schema": _ref(each.body)}}
        about["requestBody"] = {
            "required": bool(each.body.model_json_schema().get("required")),
            "content": content,
        }
    if each.role not in ("", "use"):
        about["description"] = f"Needs the role `{each.role}`."
    return about


def _path(each: Operation) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", each.path)
    schema = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "maxLength": 100}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _query(each: Operation) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    found = each.query.model_json_schema()
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in found["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What stands in an address is a text, or is left out."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default", "title")}
    return {**kept, **(kinds[0] if kinds else {})}


def _headers(each: Operation) -> list[dict[str, Any]]:
    found = []
    if each.keyed:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        about = "The same key begins nothing twice, for a day."
        found.append({"name": "Idempotency-Key", "in": "header", "schema": schema, "description": about})
    if each.method == "GET" and STREAM in each.media:
        schema = {"type": "string", "pattern": "^[0-9]{1,16}$"}
        about = "The number of the last event that is known."
        found.append({"name": "Last-Event-ID", "in": "header", "schema": schema, "description": about})
    return found


def _success(each: Operation) -> dict[str, Any]:
    about: dict[str, Any] = {
        "description": "Done." if each.status != 204 else "Done; there is nothing to say."
    }
    content: dict[str, Any] = {kind: {"schema": _TEXT if kind != STREAM else _FRAME} for kind in each.media}
    if each.answer is not None:
        content["application/json"] = {"schema": _ref(each.answer)}
    if content:
        about["content"] = content
    return about


def _problems(each: Operation) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref(models.ProblemAbout)}}
    if each.path.startswith("/v1/"):
        content = {"application/json": {"schema": _ref(OpenAIError)}}
    return {
        str(status): {"description": TITLES[status], "content": content}
        for status in sorted({*_ALWAYS, *each.problems})
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
