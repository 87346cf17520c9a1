"""With which arguments a tool is called: the request, and what may come out of it. Pure: no I/O.

The arguments are written as JSON under a schema; for the smallest models each argument can only be a piece of
the question. Where that leaves one choice, the model is not asked at all. Tools for which examples were
written are shown those; any other is described, after a few worked examples of tools that do not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.local.examples import ToolSpec, examples_for, has_written_examples
from pure_agent_loop.local.filling import narrow, tidied, wanted_arguments, without_doubles
from pure_agent_loop.local.spans import name_words, numbers, paths, phrases, sum_pattern, written_sum
from pure_agent_loop.local.told import is_in_states, is_place, place_pattern
from pure_agent_loop.local.turns import Message, as_mapping, few_shot

_LONGEST_HINT = 120
_SYSTEM = "Fill in the arguments of the tool from the question, as JSON. Copy values from the question."
# The same for every tool and question, so that a server keeps them in its cache.
_WORKED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        (
            "book_table: Reserve a table in a restaurant. restaurant: Name of the restaurant; "
            "people: How many guests; evening: Whether it is in the evening."
        ),
        "Please get us a table for 4 guests at Blue Garden, it should be in the evening.",
        {"restaurant": "Blue Garden", "people": 4, "evening": True},
    ),
    (
        (
            "convert_length: Convert a length to another unit. value: The length; "
            "from_unit: Its unit; to_unit: The unit wanted."
        ),
        "How many feet are 12.5 meters?",
        {"value": 12.5, "from_unit": "meters", "to_unit": "feet"},
    ),
    (
        (
            "find_flights: Search flights between two cities. origin: City of departure, e.g. Oslo, Norway; "
            "destination: City of arrival; stops: Cities on the way."
        ),
        "Is there a flight from Rome, Italy to Lima that stops in Madrid and Quito?",
        {"origin": "Rome, Italy", "destination": "Lima", "stops": ["Madrid", "Quito"]},
    ),
)

_PLACE_SYSTEM = "Write the city with its state or country."
_STATES = ("Houston, TX", "Denver, CO", "Sacramento, CA", "Buffalo, NY")
_PLACES = ("Oslo, Norway", "Houston, TX", "Madrid, Spain", "Buffalo, NY", "Cairo, Egypt", "Denver, CO")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The question for a tool's arguments.

    Args:
        tool: The tool.
        question: What the user asked.
        schema: What the arguments may be, narrowed to this question.
        copy_only: The model is not trusted with more than to choose among pieces.
    """

    tool: ToolSpec
    question: str
    schema: dict[str, Any]
    copy_only: bool = True

    @property
    def only_choice(self) -> dict[str, Any] | None:
        """The arguments, if the schema leaves just one possibility."""
        values = {name: prop.get("enum") for name, prop in self.schema["properties"].items()}
        if any(not isinstance(v, list) or len(v) != 1 for v in values.values()):
            return None
        return {name: v[0] for name, v in values.items() if v}

    def messages(self) -> list[Message]:
        """The request for them."""
        if not has_written_examples(self.tool):
            shots = [(_asked(tool, asked), json.dumps(values)) for tool, asked, values in _WORKED]
            return few_shot(_SYSTEM, shots, _asked(self._told(), self.question))
        names = ", ".join(self.tool.to_fill)
        system = f"Write the {names} for the tool {self.tool.name}, as JSON."
        if self.tool.description:
            system += f" The tool: {self.tool.description.lower()}."
        shots = [(e.text, json.dumps(dict(e.arguments))) for e in examples_for(self.tool) if e.arguments]
        return few_shot(system, shots, self.question)

    def _told(self) -> str:
        hints = {n: as_mapping(self.tool.properties[n]).get("description") for n in self.schema["properties"]}
        parts = "; ".join(f"{n}: {str(hint or n).rstrip('.')[:_LONGEST_HINT]}" for n, hint in hints.items())
        return f"{self.tool.name}: {self.tool.description}. {parts}."

    def finished(self, values: dict[str, Any] | str) -> dict[str, Any] | str:
        """What the model wrote, in the tool's own types."""
        return values if isinstance(values, str) else tidied(self.tool, values)

    def corrected(self, values: dict[str, Any] | str) -> Arguments | None:
        """A second question where a piece was taken for two arguments, else None."""
        if isinstance(values, str) or has_written_examples(self.tool):
            return None
        mended = without_doubles(self.tool, self.schema["properties"], values)
        return None if mended is None else replace(self, schema={**self.schema, "properties": mended})

    def incomplete(self, values: dict[str, Any] | str) -> list[str]:
        """The places whose state or country the tool wants and the question does not say."""
        if isinstance(values, str) or not self.copy_only or has_written_examples(self.tool):
            return []
        props = {name: as_mapping(self.tool.properties.get(name)) for name in values}
        return [n for n, value in values.items() if is_place(props[n]) and _is_bare_name(value)]

    def completion(self, name: str, place: str) -> tuple[list[Message], dict[str, Any]]:
        """The request for a place with its state or country."""
        prop = as_mapping(self.tool.properties[name])
        pattern = place_pattern(place, prop)
        shots = [(p.split(",")[0], json.dumps(p)) for p in (_STATES if is_in_states(prop) else _PLACES)]
        return few_shot(_PLACE_SYSTEM, shots, place), _format({"type": "string", "pattern": pattern})

    def response_format(self) -> dict[str, Any]:
        """The field of a request that holds the model to the schema."""
        return _format(self.schema)


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "arguments", "schema": schema}}


def _is_bare_name(value: Any) -> bool:
    return isinstance(value, str) and value[:1].isupper() and not re.search(r"[,\d]", value)


def arguments_for(
    tool: ToolSpec, question: str, copy_only: bool, elsewhere: Mapping[str, Any] | None = None
) -> Arguments:
    """Narrow a tool's schema to a question.

    Args:
        tool: The tool.
        question: What the user asked.
        copy_only: Texts and numbers must be pieces of the question, if it has any that fit.
        elsewhere: Schemas of arguments that are not to be taken from this question.
    """
    properties = {**_properties(tool, question, copy_only), **(elsewhere or {})}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict(p) for name, p in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    if "$defs" in tool.parameters:
        schema["$defs"] = tool.parameters["$defs"]
    return Arguments(tool, question, schema, copy_only)


def from_elsewhere(
    tool: ToolSpec, names: Sequence[str], question: str, copy_only: bool, calls: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Schemas of arguments that a part of a question is silent about.

    Args:
        tool: The tool.
        names: The arguments.
        question: The whole question.
        copy_only: As in `arguments_for`.
        calls: The arguments of the calls before this one; what has the same name has the same value.
    """
    before = {name: value for call in calls for name, value in call.items()}
    whole = _properties(tool, question, copy_only)
    return {
        name: {"enum": [before[name]]} if name in before else whole[name]
        for name in names
        if name in before or name in whole
    }


def _properties(tool: ToolSpec, question: str, copy_only: bool) -> Mapping[str, Mapping[str, Any]]:
    written = has_written_examples(tool)
    if copy_only and not written:
        return narrow(tool, question)
    names = tool.to_fill if written else wanted_arguments(tool, question)
    properties = {name: as_mapping(tool.properties[name]) for name in names}
    if copy_only:
        return {name: _narrowed(tool, name, p, question) for name, p in properties.items()}
    return properties


def _asked(tool: str, question: str) -> str:
    return f"Tool {tool}\nQuestion: {question}"


def _narrowed(tool: ToolSpec, name: str, prop: Mapping[str, Any], question: str) -> Mapping[str, Any]:
    kind = prop.get("type")
    if "enum" in prop or "const" in prop:
        return prop
    if kind in ("integer", "number"):
        values = [json.loads(n.lstrip("0") or "0") if "." not in n else float(n) for n in numbers(question)]
        fitting = [v for v in values if kind == "number" or isinstance(v, int)]
        return {"enum": fitting} if fitting else prop
    return _narrowed_text(tool, name, prop, question) if kind == "string" else prop


def _narrowed_text(tool: ToolSpec, name: str, prop: Mapping[str, Any], question: str) -> Mapping[str, Any]:
    about = name_words(f"{name} {prop.get('title') or ''}")
    default = prop.get("default")
    default = default if isinstance(default, str) else None
    if {"expression", "expr", "formula"} & set(about):
        written, pattern = written_sum(question), sum_pattern(question)
        return {"enum": [written]} if written else {"type": "string", "pattern": pattern} if pattern else prop
    if {"path", "file", "filename", "dir", "directory", "folder"} & set(about):
        folders = bool({"dir", "directory", "folder"} & {*about, *name_words(tool.name)})
        found = paths(question, default, folders)
    else:
        found = phrases(question) + ([default] if default is not None else [])
    return {"enum": found} if found else prop


def parse_text(text: str | None) -> str | None:
    """The text that a model wrote as JSON, or None."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def parse_answer(text: str | None) -> dict[str, Any] | str:
    """The arguments a model wrote; the text itself if it is no JSON object (cut off, for instance)."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return text or ""
    return value if isinstance(value, dict) else text or ""
