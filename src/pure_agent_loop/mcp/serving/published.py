"""Prompts and resources that the MCP server exposes, defined by the user's functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.tool import Tool, ToolLike, as_tool

_PLACE = re.compile(r"\{(\+?)(\w+)\}")
MAX_ADDRESS = 1_000  # characters
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resource:
    """A readable resource.

    Args:
        uri: The URI or URI template.
    """

    uri: str
    tool: Tool
    pattern: re.Pattern[str]

    @property
    def is_template(self) -> bool:
        """True if the URI is a template."""
        return bool(self.pattern.groups)

    def arguments(self, uri: str) -> dict[str, str] | None:
        """Return the values of the template's placeholders; None if the URI does not match."""
        # Bounded, because a template with several placeholders backtracks on long URIs.
        match = self.pattern.fullmatch(uri) if len(uri) <= MAX_ADDRESS else None
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        one_step = (name for plus, name in _PLACE.findall(self.uri) if not plus)
        return None if any("/" in values[name] for name in one_step) else values


class Published:
    """Prompts and resources for the clients of an MCP server.

        def review(path: str, depth: Literal["quick", "thorough"] = "quick") -> str:
            "Have a file reviewed."
            return f"Review {path}, and be {depth}."

        published = Published(prompts=[review], resources={"notes://{day}": read_note})
        app = create_app(agent, published=published)

    Functions for prompts and resources are called like tools: docstrings and annotations describe them, they
    may take a `RunContext`, and the audit log records their calls. These functions must be read-only.

    Args:
        prompts: Functions that return a user message: a string, an `Image`, a `File`, or a list of these. The
            parameters of the function are the prompt's arguments; ``Literal`` values are completed.
        resources: Functions by URI or by URI template such as ``notes://{day}``: ``{name}`` matches one path
            segment, ``{+name}`` one or more. Each function takes the placeholders of its template as
            parameters, and returns a string, an `Image`, a `File`, or a JSON value.

    Raises:
        ConfigError: Two prompts have the same name, or a URI is invalid or does not fit its function.
    """

    def __init__(
        self, prompts: Iterable[ToolLike] = (), resources: Mapping[str, ToolLike] | None = None
    ) -> None:
        self.prompts: dict[str, Tool] = {}
        for prompt in map(_reading, prompts):
            if prompt.name in self.prompts:
                raise ConfigError(f"Two prompts have the name {prompt.name!r}. Give one another name.")
            self.prompts[prompt.name] = prompt
        self.resources = [_resource(uri, _reading(reader)) for uri, reader in (resources or {}).items()]
        self._listeners: list[Callable[[str], None]] = []

    def changed(self, uri: str) -> None:
        """Notify a URI's subscribers that its resource has changed; callable from any thread."""
        for listener in self._listeners:
            listener(uri)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Register a function to call with each URI passed to `changed`."""
        self._listeners.append(listener)

    def resource_at(self, uri: str) -> tuple[Resource, dict[str, Any]] | None:
        """Return the resource at a URI and its arguments; None if missing."""
        for resource in self.resources:
            arguments = resource.arguments(uri)
            if arguments is not None:
                return resource, arguments
        return None


def choices(tool: Tool, argument: str) -> list[str]:
    """Return the allowed values of an argument; empty if it has no list of them."""
    field = tool.parameters.get("properties", {}).get(argument, {})
    return [str(value) for value in field.get("enum", ())]


def _reading(function: ToolLike) -> Tool:
    return as_tool(function).changed(read_only=True)


def _resource(uri: str, tool: Tool) -> Resource:
    if not _ADDRESS.fullmatch(uri) or uri.startswith("pal:"):
        raise ConfigError(
            f"resources: {uri!r:.80} must be a URI such as 'notes://{{day}}', and must not begin with 'pal:'."
        )
    names = [name for _, name in _PLACE.findall(uri)]
    known = tool.parameters.get("properties", {}).keys()
    if len(set(names)) < len(names) or set(names) != set(known):
        raise ConfigError(
            f"resources: {uri!r:.80} has the placeholders {', '.join(names) or 'none'}, "
            f"and {tool.name} takes {', '.join(known) or 'none'}. They must be the same."
        )
    pattern = "".join(
        re.escape(part) if kind == 0 else f"(?P<{part}>{'.+' if plus else '[^/?#]+'})"
        for kind, part, plus in _pieces(uri)
    )
    return Resource(uri, tool, re.compile(pattern))


def _pieces(uri: str) -> Iterable[tuple[int, str, str]]:
    pieces = _PLACE.split(uri)  # text, then per placeholder: sign, name, text
    yield 0, pieces[0], ""
    for plus, name, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield 1, name, plus
        yield 0, text, ""
