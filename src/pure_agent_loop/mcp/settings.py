"""What a server is: how it is started or reached, and what is used of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.typed import mistyped

TRANSPORTS = ("http", "sse")
MOST_BYTES = 50_000_000  # of one message of a server
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server; `MCPServer` says what each field is.

    Raises:
        ConfigError: A field cannot be used; the message names it.
    """

    name: str
    command: Sequence[str] = ()
    url: str = ""
    transport: str = "http"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    inherit: Sequence[str] = ()
    cwd: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str | None = None
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    trusted: bool = False
    pinned: bool = True
    resources: bool = True
    timeout: float | None = None
    start_timeout: float = 30.0
    roots: Sequence[str] = ()
    legacy: bool = False

    def __post_init__(self) -> None:
        shown = f"MCP server {str(self.name)!r:.60}"
        if wrong := _wrong_kind(self):
            raise ConfigError(f"{shown}: {wrong}.")
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{shown}: a name has at most 32 letters, digits, '-' and '_', as tools are named after it."
            )
        if bool(self.command) == bool(self.url):
            raise ConfigError(f"{shown} needs one of command=[...] and url='http...'.")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(f"{shown}: url={self.url!r:.80} must begin with http:// or https://.")
        if self.transport not in TRANSPORTS:
            raise ConfigError(
                f"{shown}: transport={self.transport!r} must be one of {', '.join(TRANSPORTS)}."
            )
        for name in ("env", "inherit", "cwd") if self.url else ("headers",):
            if getattr(self, name):
                other = "started" if self.url else "reached over the network"
                raise ConfigError(f"{shown}: {name} is for servers that are {other}; leave it out.")
        if self.start_timeout <= 0 or (self.timeout is not None and self.timeout <= 0):
            raise ConfigError(f"{shown}: timeout and start_timeout are seconds above 0.")

    @property
    def tool_prefix(self) -> str:
        """What the names of its tools begin with."""
        return f"mcp__{self.name}__" if self.prefix is None else self.prefix

    @property
    def shown(self) -> str:
        """Where it is, for people: no variable or header, which may be secret."""
        return one_line(self.url.partition("?")[0] if self.url else " ".join(self.command))

    @property
    def identity(self) -> str:
        """A short digest of which server this is."""
        which = json.dumps([self.name, list(self.command), self.url])
        return hashlib.sha256(which.encode("utf-8", "surrogatepass")).hexdigest()[:24]


_KINDS: Mapping[str, Any] = {
    "name": str,
    "command": Sequence[str],
    "url": str,
    "transport": str,
    "env": Mapping[str, str],
    "inherit": Sequence[str],
    "cwd": str,
    "headers": Mapping[str, str],
    "prefix": str | None,
    "allow": Sequence[str] | None,
    "deny": Sequence[str],
    "trusted": bool,
    "pinned": bool,
    "resources": bool,
    "timeout": float | None,
    "start_timeout": float,
    "roots": Sequence[str],
    "legacy": bool,
}


def _wrong_kind(settings: ServerSettings) -> str:
    for name, hint in _KINDS.items():
        value = getattr(settings, name)
        if isinstance(value, str) and hint not in (str, str | None):
            return f"{name}={value!r:.60} must be a list" + (
                ": [program, argument]" if name == "command" else ""
            )
        if wrong := mistyped(value, hint, name):
            return f"{wrong}, which is of the wrong kind"
    return ""


def default_name(command: Sequence[str], url: str) -> str:
    """A name for a server that was given none: its program, or its host."""
    found = (
        (urlsplit(url).hostname or "server") if url else PurePath(command[0] if command else "server").stem
    )
    return re.sub(r"[^A-Za-z0-9_-]+", "-", found).strip("-_")[:32] or "server"
