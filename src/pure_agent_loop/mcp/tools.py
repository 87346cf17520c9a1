"""Convert a server's tools, whose untrusted descriptions are bounded, cleaned and marked as the server's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from typing import Any

from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.permissions import JudgeContext, Permission
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import safe_text
from pure_agent_loop.tool import Tool

MAX_TOOLS = 2_000  # per server
MAX_NAME = 64
MAX_ABOUT, MAX_ABOUT_FIELD = 2_000, 500  # maximum characters of the descriptions of a tool and of a field
MAX_SCHEMA, MAX_DEPTH = 50_000, 40
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_-]+")

Call = Callable[..., Awaitable[Any]]


def is_wanted(settings: ServerSettings, name: str) -> bool:
    """Return whether the settings' lists allow a tool; ``*`` matches any text."""
    allowed = settings.allow is None or any(fnmatchcase(name, pattern) for pattern in settings.allow)
    return allowed and not any(fnmatchcase(name, pattern) for pattern in settings.deny)


def convert_tool(tool: Any, settings: ServerSettings, call: Call, taken: set[str]) -> Tool | str:
    """Convert a server's tool to a `Tool`, or return the reason why it cannot be converted.

    Args:
        call: Calls the tool, given its name on the server, whether the call may be repeated, and arguments.
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
    # A hint that makes the rules stricter is always applied; a hint that loosens them only from a trusted
    # server.
    is_idempotent = settings.trusted and bool(hints and hints.idempotent_hint)
    return Tool(
        partial(call, tool.name, is_idempotent or (settings.trusted and reads)),
        name=unique_name(settings.tool_prefix, tool.name, taken),
        description=mark_description(settings.name, tool.description or tool.title or tool.name),
        parameters={"properties": {}, **schema},
        read_only=settings.trusted and reads,
        idempotent=is_idempotent,
        destructive=bool(hints and hints.destructive_hint) and not (settings.trusted and reads),
        timeout=settings.timeout,
        untrusted=True,
    )


def changed_tool(
    tool: Tool, settings: ServerSettings, agree: Callable[[], Awaitable[None]], taken: set[str]
) -> Tool:
    """Return the stand-in for a tool whose description differs from the approved one.

    The new description is for a person, not for the model. The stand-in has a different name, so that
    permissions for the old name do not apply to it.
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
            if key in ("description", "title", "$comment") and isinstance(value, str)
            else _cleaned(value, depth - 1)
            for key, value in schema.items()
        }
    return [_cleaned(item, depth - 1) for item in schema] if isinstance(schema, list) else schema
