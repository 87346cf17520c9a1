"""The tools of a server as ours. What it says of them is data: bounded, cleaned, marked as its own words.

What they said when they came is remembered: a server may not change that unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.mcp.words import say
from pure_agent_loop.permissions import JudgeContext, Permission
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.shared_file import change_file
from pure_agent_loop.support.terminal import safe_text
from pure_agent_loop.tool import Tool

MOST_TOOLS = 2_000  # of one server
MOST_NAME = 64
MOST_ABOUT, MOST_ABOUT_FIELD = 2_000, 500  # characters of a description
MOST_SCHEMA, MOST_DEPTH = 50_000, 40
_TEXTS = ("description", "title", "$comment")
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_-]+")

Call = Callable[..., Awaitable[Any]]


def is_wanted(settings: ServerSettings, name: str) -> bool:
    """Whether a tool is to be used, by the lists of the settings; ``*`` in them is any text."""
    allowed = settings.allow is None or any(fnmatchcase(name, each) for each in settings.allow)
    return allowed and not any(fnmatchcase(name, each) for each in settings.deny)


def as_ours(tool: Any, settings: ServerSettings, call: Call, taken: set[str]) -> Tool | str:
    """A tool of a server as one of ours; or why it cannot be.

    Args:
        tool: As the server describes it.
        call: Calls it: its name there, then its arguments.
        taken: Names that others have; the new one is added.
    """
    schema = tool.input_schema
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        return "its schema is that of no object"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        return "its schema names what is required in no list"
    try:
        schema = _cleaned(schema, MOST_DEPTH)
        size = len(json.dumps(schema))
    except (RecursionError, ValueError):
        return "its schema is nested too deeply"
    if size > MOST_SCHEMA:
        return f"its schema has more than {MOST_SCHEMA:,} characters"
    hints = tool.annotations
    reads = bool(hints and hints.read_only_hint)
    return Tool(
        partial(call, tool.name),
        name=own_name(settings.tool_prefix, tool.name, taken),
        description=described(settings.name, tool.description or tool.title or tool.name),
        parameters={"properties": {}, **schema},
        # A hint that asks for more care is believed of everybody, one for less only of whom a person trusts.
        read_only=settings.trusted and reads,
        idempotent=settings.trusted and bool(hints and hints.idempotent_hint),
        destructive=bool(hints and hints.destructive_hint) and not (settings.trusted and reads),
        timeout=settings.timeout,
        untrusted=True,
    )


def changed_tool(
    tool: Tool, settings: ServerSettings, agree: Callable[[], Awaitable[None]], taken: set[str]
) -> Tool:
    """What stands in the place of a tool that says something else than was agreed to.

    Its words are for a person, not for the model, and its name is another one: what was allowed of the old
    name says nothing about it.
    """
    said = json.dumps({"description": tool.description, "parameters": tool.parameters}, ensure_ascii=False)

    def judge(_: dict[str, Any], context: JudgeContext) -> Permission:
        if not context.attended:
            return Permission("deny", say("mcp_not_agreed", server=settings.name))
        reason = say("mcp_agree", server=settings.name, tool=tool.name, text="")
        return Permission("ask", reason.rstrip(), updated_args={"says_now": said})

    async def ask(**_: Any) -> str:
        await agree()
        return say("mcp_agreed")

    return Tool(
        ask,
        name=own_name("", f"{tool.name[: MOST_NAME - 9]}__changed", taken),
        description=say("mcp_changed", server=settings.name),
        parameters={"type": "object", "properties": {}},
        judge=judge,
    )


def own_name(prefix: str, name: str, taken: set[str]) -> str:
    """A name that every model server takes, and no other tool has."""
    found = plain = prefix + _UNUSUAL.sub("_", name)
    marks = accumulate(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest())
    if plain != prefix + name or len(plain) > MOST_NAME or plain in taken or not name:
        # Six digits, and more if a server has chosen its names so that these are the same.
        long_enough = (f"{plain[: MOST_NAME - 1 - len(mark)]}_{mark}" for mark in marks if len(mark) >= 6)
        found = next(each for each in long_enough if each not in taken)
    taken.add(found)
    return found


def described(server: str, text: str) -> str:
    """The words of a server for a model: bounded, without control characters, and marked as its own."""
    return say("mcp_described", server=server, text=_short(text, MOST_ABOUT))


def _short(text: str, most: int) -> str:
    text = safe_text(text).strip()
    return text if len(text) <= most else f"{text[:most]} ..."


def _cleaned(schema: Any, depth: int) -> Any:
    if depth == 0:
        raise RecursionError
    if isinstance(schema, dict):
        return {
            key: _short(value, MOST_ABOUT_FIELD)
            if key in _TEXTS and isinstance(value, str)
            else _cleaned(value, depth - 1)
            for key, value in schema.items()
        }
    return [_cleaned(each, depth - 1) for each in schema] if isinstance(schema, list) else schema


def digest_of(tool: Any) -> str:
    """Of all that a server says of a tool: another one asks again."""
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Approvals:
    """What was agreed to, of one server: the digests of its tools by name, in a file.

    Args:
        identity: Of the server.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def path(self) -> Path:
        """The file."""
        return data_folder() / "mcp" / "agreed" / f"{self._identity}.json"

    def changed(self, digests: Mapping[str, str]) -> set[str]:
        """The tools that say something else than when they were first seen. New ones are kept as they are.

        Args:
            digests: Of the tools there are now, by name.

        Raises:
            OSError: The file cannot be written.
        """
        known = _parsed(self.path.read_bytes()) if self.path.exists() else {}
        if not digests.keys() <= known.keys():
            known = self.agree(digests, digests.keys() - known.keys())
        return {name for name, digest in digests.items() if known[name] != digest}

    def agree(self, digests: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
        """A person agrees to what some tools say now; what is agreed to in all.

        Raises:
            OSError: It cannot be written.
        """
        wanted = {name: digests[name] for name in names}
        found: dict[str, str] = {}

        def change(old: bytes) -> bytes:
            found.update({**_parsed(old), **wanted})
            return json.dumps(found, indent=0, sort_keys=True).encode()

        private_folder(self.path.parent)
        change_file(self.path, change)
        return found

    def forget(self) -> None:
        """The server was taken away."""
        self.path.unlink(missing_ok=True)


def _parsed(data: bytes) -> dict[str, str]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}
