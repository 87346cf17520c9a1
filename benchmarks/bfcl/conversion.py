"""Convert the leaderboard's function docs to tool schemas of the chat-completions protocol.

The result is exactly what the leaderboard itself sends to OpenAI-style models (a test compares it with
the leaderboard's own code for every question), because numbers are only comparable if the prompts are.
"""

from __future__ import annotations

import copy
import json
from typing import Any

# The docs use the type names of Python, Java and JavaScript. Unknown types become strings too.
TYPES = {
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
    **dict.fromkeys(("string", "any", "char", "Any", "String"), "string"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), "object"),
}
_HINTS = {"python": "Python 3 syntax", "java": "Java 8 SDK syntax", "javascript": "JavaScript syntax"}
_LANGUAGES = {"java": "Java", "javascript": "JavaScript"}


def tool_name(name: str) -> str:
    """Return a tool name for a function's name: the protocol allows no dots."""
    return name.replace(".", "_")


def to_tool(function: dict[str, Any], language: str = "python") -> dict[str, Any]:
    """Convert a function doc to a tool schema.

    Args:
        function: The doc: name, description, parameters. It is not changed.
        language: ``python``, ``java`` or ``javascript``; in the last two every argument is source text.
    """
    doc = copy.deepcopy(function)
    doc["name"] = tool_name(doc["name"])
    doc["description"] += f" Note that the provided function is in {_HINTS[language]}."
    parameters = doc["parameters"]
    if language in _LANGUAGES:
        for parameter in parameters["properties"].values():
            _as_source_text(parameter, _LANGUAGES[language])
    parameters["type"] = "object"
    _convert_all(parameters["properties"])
    return {"type": "function", "function": doc}


def _as_source_text(parameter: dict[str, Any], language: str) -> None:
    """Replace a Java or JavaScript type by a string, and describe the type in words."""
    kind, described = parameter["type"], parameter.get("description", "")
    if kind == "any":
        described += f" This parameter can be of any type of {language} object in string representation."
    else:
        described += f" This is {language} {kind} type parameter in string representation."
    if kind in ("array", "Array", "ArrayList"):
        inner = parameter.pop("items")["type"]
        described += f" The list elements are of type {inner}; they are not in string representation."
    if kind == "dict" and "properties" in parameter:
        entries = json.dumps(parameter.pop("properties"))
        described += (
            " The dictionary entries have the following schema; they are not in string representation. "
            f"{entries}"
        )
    parameter.update(type="string", description=described)


def _convert_all(properties: dict[str, Any]) -> None:
    for schema in properties.values():
        if schema.get("type") == "float":
            schema["format"] = "float"
            schema["description"] = schema.get("description", "") + " This is a float type value."
        _convert(schema)


def _convert(schema: dict[str, Any]) -> None:
    """Replace the type names of a schema in place, at every level."""
    schema["type"] = TYPES.get(schema.get("type", "string"), "string")
    if schema["type"] not in ("array", "object"):
        return
    if "properties" in schema:
        _convert_all(schema["properties"])
    elif "items" in schema:
        _convert(schema["items"])
