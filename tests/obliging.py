"""A handler for `ScriptedServer` that plays a helpful model: it calls the first tool once, then answers."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.testing import ServerRequest, answer, call

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
    if last["role"] == "tool":
        return f"The tool says: {last['content']}"
    if request.tools:
        function = request.tools[0]["function"]
        properties = function["parameters"].get("properties", {})
        required = function["parameters"].get("required", [])
        return call(function["name"], **{name: _sample(properties[name]) for name in required})
    return answer(f"You said: {last['content']}", reasoning="Let me think about that.")


def _sample(schema: dict[str, Any]) -> Any:
    return schema["enum"][0] if "enum" in schema else SAMPLES.get(schema.get("type", "string"), "Oslo")
