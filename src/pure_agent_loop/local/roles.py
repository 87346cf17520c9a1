"""What a tool does to files, the web or the shell, by its name and its arguments. Pure: no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.spans import name_words
from pure_agent_loop.local.turns import as_mapping

Deed = Literal["run", "fetch", "edit", "write", "search", "find", "read", "list"]
Slot = Literal["path", "old", "new", "content", "pattern", "command", "url", "all"]
Values = dict[Slot, str | bool]

# Arguments by a word of their names. The first slot that fits has an argument: "old_text" is no content.
_SLOTS: Mapping[Slot, frozenset[str]] = {
    "path": frozenset(("path", "file", "filename", "filepath", "folder", "directory", "dir")),
    "old": frozenset(("old", "find", "search", "before", "original")),
    "new": frozenset(("new", "replacement", "replace", "after")),
    "content": frozenset(("content", "contents", "text", "body")),
    "pattern": frozenset(("pattern", "query", "regex", "glob")),
    "command": frozenset(("command", "cmd")),
    "url": frozenset(("url", "uri")),
}
_NAMES: Mapping[Deed, frozenset[str]] = {
    "run": frozenset(("shell", "bash", "terminal", "command", "exec", "run")),
    "fetch": frozenset(("fetch", "download", "browse", "web", "http", "page", "url")),
    "edit": frozenset(("edit", "replace", "change", "update", "modify", "str")),
    "write": frozenset(("write", "create", "save")),
    "search": frozenset(("grep", "search", "rg")),
    "find": frozenset(("glob", "find")),
    "read": frozenset(("read", "open", "view", "cat", "show")),
    "list": frozenset(("list", "ls", "dir")),
}
_NEEDED: Mapping[Deed, tuple[Slot, ...]] = {
    "run": ("command",),
    "fetch": ("url",),
    "edit": ("path", "old", "new"),
    "write": ("path", "content"),
    "search": ("pattern",),
    "find": ("pattern",),
    "read": ("path",),
    "list": ("path",),
}
_OF_FILES: frozenset[Deed] = frozenset(("search", "find", "read", "list", "edit", "write"))
_SPECIAL = re.compile(r"([.^$*+?{}\[\]\\|()])")


@dataclass(frozen=True, slots=True)
class Role:
    """What a tool is for.

    Args:
        tool: The tool.
        deed: What it does.
        slots: The names of its arguments by what they are.
    """

    tool: ToolSpec
    deed: Deed
    slots: Mapping[Slot, str]

    def arguments(self, values: Values) -> dict[str, Any]:
        """The arguments of a call with these values; what the tool does not take is left out."""
        given = {self.slots[slot]: value for slot, value in values.items() if slot in self.slots}
        if self.deed == "search" and self._takes_expressions:
            name = self.slots["pattern"]
            given[name] = _SPECIAL.sub(r"\\\1", str(given[name]))
        return {name: given[name] for name in self.tool.properties if name in given}

    @property
    def _takes_expressions(self) -> bool:
        prop = as_mapping(self.tool.properties.get(self.slots["pattern"]))
        told = f"{self.slots['pattern']} {self.tool.details} {prop.get('description', '')}"
        return bool(re.search(r"regular expression|\bregex", told, re.IGNORECASE))


def roles_of(tools: Sequence[ToolSpec]) -> dict[Deed, Role]:
    """The first tool for each deed."""
    found: dict[Deed, Role] = {}
    for tool in tools:
        role = role_of(tool)
        if role is not None:
            found.setdefault(role.deed, role)
    return found


def role_of(tool: ToolSpec) -> Role | None:
    """What a tool is for, or None if its name and its arguments do not tell."""
    slots = _slots(tool)
    needed = tool.parameters.get("required")
    required = set(needed) if isinstance(needed, list) else set(tool.properties)
    words = set(name_words(tool.name))
    for deed, names in _NAMES.items():
        wanted = _NEEDED[deed]
        complete = all(slot in slots for slot in wanted) and required <= set(slots.values())
        if words & names and complete and _is_plain(deed, slots, required) and _is_about(deed, tool):
            return Role(tool, deed, slots)
    return None


def _is_plain(deed: Deed, slots: Mapping[Slot, str], required: set[str]) -> bool:
    """True if it requires nothing that the deed has no value for."""
    return required <= {slots[slot] for slot in (*_NEEDED[deed], "path") if slot in slots}


def _is_about(deed: Deed, tool: ToolSpec) -> bool:
    """True unless it is a deed among files, and the tool never speaks of them."""
    told = {*name_words(tool.name), *name_words(tool.details)}
    return deed not in _OF_FILES or bool(told & {"file", "files", "folder", "directory"})


def _slots(tool: ToolSpec) -> dict[Slot, str]:
    found: dict[Slot, str] = {}
    for name, prop in tool.properties.items():
        words, kind = set(name_words(name)), as_mapping(prop).get("type")
        slot = next((s for s, names in _SLOTS.items() if words & names), None)
        if kind == "boolean":
            slot = "all" if "all" in words else None
        elif kind != "string":
            slot = None
        if slot is not None:
            found.setdefault(slot, name)
    return found
