"""Convert a server's tools. Descriptions are untrusted: bounded, cleaned and marked as the server's.

Digests of the descriptions are stored, so that a server cannot change one unnoticed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.asking import ServerRequests
from pure_agent_loop.mcp.connection import Connection, is_answered
from pure_agent_loop.mcp.lenient import left_out
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.permissions import JudgeContext, Permission
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.locking import change_file
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import StepContext, Tool
from pure_agent_loop.tool_context import RunContext, current_run

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_TOOLS = 2_000  # per server
MAX_NAME = 64
MAX_ABOUT, MAX_ABOUT_FIELD = 2_000, 500  # characters of a description
MAX_SCHEMA, MAX_DEPTH = 50_000, 40
_TEXTS = ("description", "title", "$comment")
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_-]+")

Call = Callable[..., Awaitable[Any]]
LOG = logging.getLogger("pure_agent_loop.mcp")
MAX_PAGES = 100
TELL_SECONDS = 0.1  # minimum interval between progress reports
MAX_SHOWN = 40  # tools


def is_wanted(settings: ServerSettings, name: str) -> bool:
    """Return whether the settings' lists allow a tool; ``*`` matches any text."""
    allowed = settings.allow is None or any(fnmatchcase(name, pattern) for pattern in settings.allow)
    return allowed and not any(fnmatchcase(name, pattern) for pattern in settings.deny)


def convert_tool(tool: Any, settings: ServerSettings, call: Call, taken: set[str]) -> Tool | str:
    """Convert a server's tool to a `Tool`, or return the reason why it cannot be converted.

    Args:
        call: Calls the tool, by its name on the server and its arguments.
        taken: Names already in use; the new one is added.
    """
    schema = tool.input_schema
    if schema.get("type") != "object":
        return model_text("mcp_no_object")
    try:
        schema = _cleaned(schema, MAX_DEPTH)
        size = len(json.dumps(schema))
    except RecursionError:
        return model_text("mcp_too_deep")
    if size > MAX_SCHEMA:
        return model_text("mcp_too_long", most=MAX_SCHEMA)
    hints = tool.annotations
    reads = bool(hints and hints.read_only_hint)
    return Tool(
        partial(call, tool.name),
        name=unique_name(settings.tool_prefix, tool.name, taken),
        description=mark_description(settings.name, tool.description or tool.title or tool.name),
        parameters={"properties": {}, **schema},
        # A hint that asks for more care is always applied; one that asks for less only from a trusted server.
        read_only=settings.trusted and reads,
        idempotent=settings.trusted and bool(hints and hints.idempotent_hint),
        destructive=bool(hints and hints.destructive_hint) and not (settings.trusted and reads),
        timeout=settings.timeout,
        untrusted=True,
    )


def changed_tool(
    tool: Tool, settings: ServerSettings, agree: Callable[[], Awaitable[None]], taken: set[str]
) -> Tool:
    """Return the stand-in for a tool whose description differs from the approved one.

    The new description is for a person, not for the model. The stand-in has a different name, so that
    permissions of the old name do not apply to it.
    """
    new_description = json.dumps(
        {"description": tool.description, "parameters": tool.parameters}, ensure_ascii=False
    )

    def judge(_: dict[str, Any], context: JudgeContext) -> Permission:
        if not context.attended:
            return Permission("deny", model_text("mcp_not_agreed", server=settings.name))
        reason = model_text("mcp_agree", server=settings.name, tool=tool.name, text="")
        return Permission("ask", reason.rstrip(), updated_args={"says_now": new_description})

    async def ask(**_: Any) -> str:
        await agree()
        return model_text("mcp_agreed")

    return Tool(
        ask,
        name=unique_name("", f"{tool.name[: MAX_NAME - 9]}__changed", taken),
        description=model_text("mcp_changed", server=settings.name),
        parameters={"type": "object", "properties": {}},
        judge=judge,
    )


def unique_name(prefix: str, name: str, taken: set[str]) -> str:
    """Return a tool name that every model server accepts and that is not in use."""
    unique = plain = prefix + _UNUSUAL.sub("_", name)
    marks = accumulate(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest())
    if plain != prefix + name or len(plain) > MAX_NAME or plain in taken or not name:
        # Six digits, or more if the server chose names that collide.
        long_enough = (f"{plain[: MAX_NAME - 1 - len(mark)]}_{mark}" for mark in marks if len(mark) >= 6)
        unique = next(candidate for candidate in long_enough if candidate not in taken)
    taken.add(unique)
    return unique


def mark_description(server: str, text: str) -> str:
    """Return a server's text for a model: bounded, without control characters, marked as the server's."""
    return model_text("mcp_described", server=server, text=_short(text, MAX_ABOUT))


def _short(text: str, maximum: int) -> str:
    text = safe_text(text).strip()
    return text if len(text) <= maximum else f"{text[:maximum]} ..."


def _cleaned(schema: Any, depth: int) -> Any:
    if depth == 0:
        raise RecursionError
    if isinstance(schema, dict):
        return {
            key: _short(value, MAX_ABOUT_FIELD)
            if key in _TEXTS and isinstance(value, str)
            else _cleaned(value, depth - 1)
            for key, value in schema.items()
        }
    return [_cleaned(item, depth - 1) for item in schema] if isinstance(schema, list) else schema


def digest_of(tool: Any) -> str:
    """Return a digest of a tool's full description; a different digest needs a new approval."""
    details = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return hashlib.sha256(json.dumps(details, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Approvals:
    """The approved tool digests of one server, stored in a file.

    Args:
        identity: The server's digest.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def path(self) -> Path:
        """The path of the file."""
        return data_folder() / "mcp" / "agreed" / f"{self._identity}.json"

    def changed(self, digests: Mapping[str, str]) -> set[str]:
        """Return the tools whose digest differs from the approved one. New tools are approved and stored.

        Args:
            digests: Digests of the current tools, by name.

        Raises:
            OSError: The file cannot be written.
        """
        known = _parsed(self.path.read_bytes()) if self.path.exists() else {}
        if not digests.keys() <= known.keys():
            known = self.agree(digests, digests.keys() - known.keys())
        return {name for name, digest in digests.items() if known[name] != digest}

    def agree(self, digests: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
        """Approve the current digests of some tools and return all approved digests.

        Raises:
            OSError: The file cannot be written.
        """
        wanted = {name: digests[name] for name in names}
        approved: dict[str, str] = {}

        def change(old: bytes) -> bytes:
            approved.update({**_parsed(old), **wanted})
            return json.dumps(approved, indent=0, sort_keys=True).encode()

        private_folder(self.path.parent)
        change_file(self.path, change)
        return approved

    def forget(self) -> None:
        """Delete the file after the server was removed."""
        self.path.unlink(missing_ok=True)


def _parsed(data: bytes) -> dict[str, str]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in value.items()} if isinstance(value, dict) else {}


# -- A server in use, and the link between its calls and their runs --------------------------------------

Tools = list[Tool]
Prompts = Sequence[tuple[str, str, Sequence[str]]]  # name, description, argument names


class ServerUse:
    """A server in use by runs of one event loop."""

    def __init__(
        self, settings: ServerSettings, requests: ServerRequests, login: Callable[[], Awaitable[Any]]
    ) -> None:
        self.users = 0
        self.requests = requests
        self.tools: Tools | None = None
        self.is_stale = False
        self.changed_tools: dict[str, tuple[Tool, str]] = {}  # with the digest of the description
        self.prompts: Prompts = ()
        self.has_prompts = False
        self.left_out: list[str] = []  # tools, with the reasons
        self.listing = asyncio.Lock()
        self.connection = Connection(settings, requests.callbacks, login, self._note_change, requests.log)

    def _note_change(self) -> None:
        self.is_stale = True


async def all_pages(what: str, maximum: int, notes: list[str], client: Any) -> list[Any]:
    """Return all pages of a list. Append left-out entries and their reasons to `notes`."""
    entries: list[Any] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < MAX_PAGES and len(entries) < maximum:
        seen.add(cursor)
        # Bypass the SDK's cache: this request follows a change.
        try:
            page = await getattr(client, f"list_{what}")(cursor=cursor, cache_mode="refresh")
        except Exception as error:
            if cursor is None or not is_answered(error):
                raise
            notes.append(
                model_text(
                    "mcp_left_out", what=what, name=model_text("mcp_rest"), why=one_line(safe_str(error))
                )
            )
            break
        entries += getattr(page, what)
        notes += left_out(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    return entries[:maximum]


def run_here() -> RunContext[Any] | None:
    """Return the current run; None outside of a run."""
    try:
        return current_run()
    except ConfigError:
        return None


def tell_person(text: str) -> None:
    """Report a message to the person of the current run."""
    run = run_here()
    if run is None:
        LOG.warning("%s", text)
    else:
        run.progress(text)


def teller(run: RunContext[Any] | None) -> Callable[..., Awaitable[None]] | None:
    """Return a function that reports a call's progress to the run, rate-limited."""
    if run is None:
        return None
    context, next_time = copy_context(), 0.0

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal next_time
        now = asyncio.get_running_loop().time()
        if now >= next_time:
            next_time = now + TELL_SECONDS
            far = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            context.run(run.progress, one_line(f"{far} {message or ''}".strip()))

    return tell


# -- limit the tools that a model sees: if there are many, it gets one search tool instead ---------------

List = Callable[[StepContext], Awaitable[Sequence[Tool]]]


class ToolSearch:
    """The tools shown to a model: those that a function lists, or a search tool.

    Args:
        most: Maximum number of tools shown directly.
    """

    def __init__(self, every: List, maximum: int, name: str, description: str) -> None:
        self._every, self._most, self._name, self._about = every, maximum, name, description
        self._search: Any = None

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the tools, or the search tool with the tools it has found in this run."""
        tools = await self._every(context)
        if len(tools) <= self._most:
            return tools
        if self._search is None:
            from pure_agent_loop.toolsets.search import searchable

            self._search = searchable(_AllTools(self._every), name=self._name, about=self._about)
        matches: Sequence[Tool] = await self._search.list(context)
        return matches


class _AllTools:
    """All tools as a toolset. Their owner enters and exits the servers."""

    def __init__(self, every: List) -> None:
        self._every = every

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def list(self, context: StepContext) -> Sequence[Tool]:
        return await self._every(context)

    async def call(self, name: str, _: dict[str, Any]) -> Any:
        """Raise: each tool has its own function."""
        raise LookupError(name)
