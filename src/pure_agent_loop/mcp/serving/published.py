"""Prompts and resources that a server of ours offers beside tools and agents: functions of yours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.tool import Tool, ToolLike, as_tool

_PLACE = re.compile(r"\{(\+?)(\w+)\}")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resource:
    """What can be read at an address.

    Args:
        uri: The address, or a template of addresses.
        tool: Reads it.
        pattern: What the addresses look like.
    """

    uri: str
    tool: Tool
    pattern: re.Pattern[str]

    @property
    def is_template(self) -> bool:
        """Whether it stands for several addresses."""
        return bool(self.pattern.groups)

    def arguments(self, uri: str) -> dict[str, str] | None:
        """What the places of the template are in an address; None if it is no such address."""
        found = self.pattern.fullmatch(uri)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        one_step = (name for plus, name in _PLACE.findall(self.uri) if not plus)
        return None if any("/" in values[name] for name in one_step) else values


class Published:
    """Prompts and resources for the clients of an MCP server of yours.

        def review(path: str, depth: Literal["quick", "thorough"] = "quick") -> str:
            "Have a file reviewed."
            return f"Review {path}, and be {depth}."

        published = Published(prompts=[review], resources={"notes://{day}": read_note})
        app = create_app(agent, published=published)

    The functions are called as tools are: their docstrings and annotations describe them, they may take a
    `RunContext`, and stand in the audit log. They must change nothing.

    Args:
        prompts: Each returns what a user would say: a text, an `Image`, a `File`, or a list of these. Its
            parameters are the prompt's arguments; those of a ``Literal`` are completed.
        resources: By address, or by a template such as ``notes://{day}``: ``{name}`` stands for one step of
            an address, ``{+name}`` also for several. Each function takes the names of its template, and
            returns a text, an `Image`, a `File`, or what has a JSON form.

    Raises:
        ConfigError: Two prompts have one name, or an address is none or does not fit its function.
    """

    def __init__(
        self, prompts: Iterable[ToolLike] = (), resources: Mapping[str, ToolLike] | None = None
    ) -> None:
        self.prompts: dict[str, Tool] = {}
        for each in map(_reading, prompts):
            if each.name in self.prompts:
                raise ConfigError(f"Two prompts have the name {each.name!r}. Give one another name.")
            self.prompts[each.name] = each
        self.resources = [_resource(uri, _reading(each)) for uri, each in (resources or {}).items()]
        self._listeners: list[Callable[[str], None]] = []

    def changed(self, uri: str) -> None:
        """Tell the clients that subscribed to an address that there is something new; from any thread."""
        for each in self._listeners:
            each(uri)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Have a function called with each address that `changed` names."""
        self._listeners.append(listener)

    def resource_at(self, uri: str) -> tuple[Resource, dict[str, Any]] | None:
        """What is read at an address, and with which arguments; None for nothing."""
        for each in self.resources:
            arguments = each.arguments(uri)
            if arguments is not None:
                return each, arguments
        return None


def choices(tool: Tool, argument: str) -> list[str]:
    """What an argument may be, where that is a list."""
    field = tool.parameters.get("properties", {}).get(argument, {})
    return [str(each) for each in field.get("enum", ())]


def _reading(given: ToolLike) -> Tool:
    return as_tool(given).changed(read_only=True)


def _resource(uri: str, tool: Tool) -> Resource:
    if not _ADDRESS.fullmatch(uri) or uri.startswith("pal:"):
        raise ConfigError(f"resources: {uri!r:.80} is no address such as 'notes://{{day}}', or one of ours.")
    names = [name for _, name in _PLACE.findall(uri)]
    known = tool.parameters.get("properties", {}).keys()
    if len(set(names)) < len(names) or set(names) != set(known):
        raise ConfigError(
            f"resources: {uri!r:.80} has the names {', '.join(names) or 'none'}, "
            f"and {tool.name} takes {', '.join(known) or 'none'}. They must be the same."
        )
    pattern = "".join(
        re.escape(part) if kind == 0 else f"(?P<{part}>{'.+' if plus else '[^/?#]+'})"
        for kind, part, plus in _pieces(uri)
    )
    return Resource(uri, tool, re.compile(pattern))


def _pieces(uri: str) -> Iterable[tuple[int, str, str]]:
    found = _PLACE.split(uri)  # a text, then for each place: its sign, its name, a text
    yield 0, found[0], ""
    for plus, name, text in zip(found[1::3], found[2::3], found[3::3], strict=True):
        yield 1, name, plus
        yield 0, text, ""
