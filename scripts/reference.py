"""Pages of the reference that are written from the program.

A line ``::: openapi`` becomes the HTTP interface, from its OpenAPI document; ``::: commands`` the command
line, from its parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pure_agent_loop.cli.parser import make_parser
from pure_agent_loop.cli.shell_integration.outline import CommandOutline, OptionOutline, outline
from pure_agent_loop.server.api.openapi import ALWAYS, document
from pure_agent_loop.server.app import OPERATIONS
from pure_agent_loop.server.problems import TITLES

# Where an operation stands, by the part of its path behind /api; all others are protocols of other products.
SECTIONS = {
    "runs": "Runs",
    "sessions": "Sessions",
    "questions": "Questions",
    "agents": "Agents and tools",
    "tools": "Agents and tools",
    "schedules": "Schedules",
    "me": "People and usage",
    "logout": "People and usage",
    "usage": "People and usage",
    "tasks": "People and usage",
    "fleet": "Operators",
}
FOREIGN = "Other protocols"


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(titles: str, rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; none without rows."""
    names = titles.split(", ")
    lines = [f"| {' | '.join(row)} |" for row in [names, ["---"] * len(names), *rows]]
    return [*lines, ""] if rows else []


# -- the HTTP interface ----------------------------------------------------------------------------------


def http() -> Iterator[str]:
    """Yield the lines of the HTTP reference."""
    api = document(OPERATIONS)
    sections: dict[str, list[str]] = {title: [] for title in (*SECTIONS.values(), FOREIGN)}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            part = re.match(r"/api/(\w+)(?![\w-])", path)
            title = SECTIONS[part[1]] if part else FOREIGN
            sections[title] += operation_lines(f"{method.upper()} {path}", operation)
    yield from ("## Answers of every operation", "", "Each operation may also answer:", "")
    yield from table("Status, Meaning", [[f"`{status}`", TITLES[status]] for status in ALWAYS])
    for title, lines in sections.items():
        yield from (f"## {title}", "", *lines)
    yield from ("## Schemas", "", "Objects in bodies. No request may have a field that is not listed.", "")
    for name, schema in api["components"]["schemas"].items():
        yield from schema_lines(name, schema)


def operation_lines(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an operation."""
    name = operation["operationId"]
    label = name.replace("_", " ").capitalize()
    yield from (f'### `{title}` {{ #{name} data-toc-label="{label}" }}', "")
    yield from (f"{operation['summary']} {operation.get('description', '')}".rstrip(), "")
    parameters = [
        [
            f"`{each['name']}`",
            each["in"],
            type_of(each["schema"]),
            cell(described(each["schema"], each.get("description", ""))),
        ]
        for each in operation["parameters"]
    ]
    yield from table("Parameter, In, Type, Meaning", parameters)
    if body := operation.get("requestBody"):
        (content,) = body["content"].values()
        yield from (
            f"Request body{'' if body['required'] else ', optional'}: {type_of(content['schema'])}.",
            "",
        )
    responses = [
        [f"`{status}`", cell(response["description"]), contents_of(response)]
        for status, response in operation["responses"].items()
        if int(status) not in ALWAYS
    ]
    yield from table("Status, Meaning, Body", responses)


def contents_of(response: Mapping[str, Any]) -> str:
    """Return the types of a response's bodies."""
    contents = response.get("content", {})
    return ", ".join(
        type_of(content["schema"]) if kind.endswith("json") else f"`{kind}`"
        for kind, content in contents.items()
    )


def schema_lines(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a schema."""
    yield from (f"### {name} {{ #schema-{name} }}", "", cell(schema.get("description", "")), "")
    required = schema.get("required", ())
    fields = [
        [
            f"`{field}`",
            type_of(about),
            "required" if field in required else default_of(about),
            cell(described(about)),
        ]
        for field, about in schema.get("properties", {}).items()
    ]
    yield from table("Field, Type, Default, Meaning", fields)


def default_of(schema: Mapping[str, Any]) -> str:
    """Return the default of a field; an empty text if there is none."""
    return code(schema["default"]) if schema.get("default") is not None else ""


def described(schema: Mapping[str, Any], description: str = "") -> str:
    """Return the meaning of a value and its bounds."""
    plain = next((each for each in schema.get("anyOf", ()) if each.get("type") != "null"), schema)
    both = {**plain, **schema}
    bounds = {
        "at least {} characters": both.get("minLength", 0) if both.get("minLength", 0) > 1 else None,
        "at most {} characters": both.get("maxLength"),
        "at least {}": both.get("minimum"),
        "at most {}": both.get("maximum"),
        "at most {} items": both.get("maxItems"),
        "matches {}": both.get("pattern") and f"`{both['pattern']}`",
    }
    said = [(description or schema.get("description", "")).rstrip(".")]
    said += [
        text.format(f"{bound:,}" if isinstance(bound, int) else bound)
        for text, bound in bounds.items()
        if bound
    ]
    return "; ".join(filter(None, said))


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a value, with links to schemas."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name})"
    for alternatives in ("anyOf", "oneOf", "allOf"):
        if alternatives in schema:
            return " or ".join(dict.fromkeys(map(type_of, schema[alternatives])))
    if "const" in schema or "enum" in schema:
        return " or ".join(map(code, schema.get("enum") or [schema["const"]]))
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {type_of(schema['items'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def code(value: object) -> str:
    """Return a JSON value as code."""
    return f"`{value!r}`".replace("'", '"').replace("True", "true").replace("False", "false")


# -- the command line ------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Yield the lines of the command line's reference."""
    pal = outline(make_parser())
    shared = tuple(each for each in pal.commands["run"].options if each.words)
    for command in pal.all():
        if command.path:
            yield from command_lines(command, shared if command.path != ("run",) else ())


def command_lines(command: CommandOutline, shared: tuple[OptionOutline, ...]) -> Iterator[str]:
    """Yield the lines of a command; options of `pal run` are only named."""
    name = " ".join(("pal", *command.path))
    yield from (f"{'#' * (len(command.path) + 1)} `{name}` {{ #{name.replace(' ', '-')} }}", "")
    yield from (escaped(command.description or f"{command.about[0].upper()}{command.about[1:]}."), "")
    options = [each for each in command.options if "-h" not in each.words]
    rows = [[written_option(each), escaped(each.about)] for each in options if each not in shared]
    yield from table("Argument or option, Meaning", rows)
    if same := [f"`{each.words[-1]}`" for each in options if each in shared]:
        yield from (f"As [`pal run`](#pal-run): {', '.join(same)}.", "")
    if command.epilog:
        yield from ("```text", *command.epilog.splitlines(), "```", "")


def written_option(option: OptionOutline) -> str:
    """Return an option's flags with its value, or the name of an argument."""
    value = f"{{{option.value}}}" if option.choices else option.value
    words = [*option.words[:-1], f"{option.words[-1]} {value}".rstrip()] if option.words else [value]
    return ", ".join(f"`{cell(word)}`" for word in words)


def escaped(text: str) -> str:
    """Return a text of argparse as Markdown in a cell."""
    return re.sub(r"([<>*_\[\]])", r"\\\1", cell(text.replace("%%", "%")))


WRITERS: dict[str, Callable[[], Iterator[str]]] = {"::: openapi": http, "::: commands": commands}


def written(lines: list[str]) -> list[str]:
    """Return the lines of a page with the reference in place of each directive."""
    return [each for line in lines for each in (WRITERS[line]() if line in WRITERS else [line])]
