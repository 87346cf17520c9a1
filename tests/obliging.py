"""A handler for `ScriptedServer` that plays a helpful model: it calls the first tool once, then answers."""

from __future__ import annotations

import json
from typing import Any

from llm_client_conformance import ServerRequest, answer, call

SAMPLES: dict[str, Any] = {
    "string": "Oslo",
    "integer": 2,
    "number": 2.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def obliging(request: ServerRequest) -> Any:
    """Call the first tool with sample arguments; once there is a result, answer with it."""
    last = request.messages[-1]
    form = (request.body.get("response_format") or {}).get("json_schema")
    if form is not None and (last["role"] == "tool" or not request.tools):
        return json.dumps(_sample(form["schema"]))
    if last["role"] == "tool":
        return f"The tool says: {last['content']}"
    if request.tools:
        function = request.tools[0]["function"]
        properties = function["parameters"].get("properties", {})
        required = function["parameters"].get("required", [])
        return call(function["name"], **{name: _sample(properties[name]) for name in required})
    return answer(f"You said: {last['content']}", reasoning="Let me think about that.")


def _sample(schema: dict[str, Any]) -> Any:
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0])
    if schema.get("properties"):
        return {name: _sample(each) for name, each in schema["properties"].items()}
    return schema["enum"][0] if "enum" in schema else SAMPLES.get(schema.get("type", "string"), "Oslo")
