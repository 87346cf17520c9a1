"""What a server is: how it is started or reached, and what is used of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.typed import mistyped

TRANSPORTS = ("http", "sse")
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
GRANTS = ("browser", "client_credentials")
CLIENT_AUTHS = ("basic", "post")
MOST_BYTES = 50_000_000  # of one message of a server
# No `__` and no `_` at its end: what a tool is called says which server's it is, and no other's.
_NAME = re.compile(r"(?!.*__)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9-])?")


@dataclass(frozen=True, slots=True)
class OAuth:
    """How to log in where a server wants that, other than in the browser as nobody it has known before.

    Args:
        grant: ``browser``: a person logs in, once. ``client_credentials``: a program logs in by itself.
        client_id: The name that somebody has registered for us; without it we register ourselves.
        client_secret: What belongs to the name.
        client_auth: How the secret is sent: ``basic`` or ``post``.
        private_key_file: A private key (PEM) in the place of a secret.
        algorithm: What the key signs with.
        issuer: Who gave the secret or the key out; they are sent to nobody else.
        client_metadata_url: An https address of a document about us, in the place of a registration.
        redirect_port: The port of this machine that the browser comes back to, at ``/callback``; 0 for any.

    Raises:
        ConfigError: A field cannot be used; the message names it.
    """

    grant: str = "browser"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_auth: str = "basic"
    private_key_file: str = ""
    algorithm: str = "RS256"
    issuer: str = ""
    client_metadata_url: str = ""
    redirect_port: int = 0

    def __post_init__(self) -> None:
        if wrong := _wrong_kind(self) or self._wrong():
            raise ConfigError(f"oauth: {wrong}.")

    @property
    def is_machine(self) -> bool:
        """Nobody is asked."""
        return self.grant == "client_credentials"

    def _wrong(self) -> str:
        if wrong := _no_choice(self, grant=GRANTS, client_auth=CLIENT_AUTHS):
            return wrong
        proofs = bool(self.client_secret) + bool(self.private_key_file)
        if self.is_machine and (not self.client_id or proofs != 1):
            return "client_credentials needs client_id, and one of client_secret and private_key_file"
        for name in ("client_metadata_url", "redirect_port") if self.is_machine else ("private_key_file",):
            if getattr(self, name):
                return f"{name} is for another grant than {self.grant}; leave it out"
        if proofs and not (self.client_id and urlsplit(self.issuer).scheme in ("http", "https")):
            return "client_secret and private_key_file need client_id and issuer='https://...', who gave them"
        if self.client_id and self.client_metadata_url:
            return "client_id and client_metadata_url are two ways to the same; leave one out"
        where = urlsplit(self.client_metadata_url)
        if self.client_metadata_url and (where.scheme != "https" or where.path in ("", "/")):
            return f"client_metadata_url={self.client_metadata_url!r:.80} must be https:// with a path"
        return "" if 0 <= self.redirect_port < 65536 else "redirect_port must be 0 to 65535"


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
    log_level: str = "warning"
    oauth: OAuth | None = None

    def __post_init__(self) -> None:
        shown = f"MCP server {str(self.name)!r:.60}"
        if wrong := _wrong_kind(self):
            raise ConfigError(f"{shown}: {wrong}.")
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{shown}: a name has at most 32 letters, digits, '-' and single '_' between them, as tools "
                "are named after it."
            )
        if bool(self.command) == bool(self.url):
            raise ConfigError(f"{shown} needs one of command=[...] and url='http...'.")
        if self.url and not _is_of_web(self.url):
            raise ConfigError(f"{shown}: url={self.url!r:.80} must be http:// or https://, with a host.")
        if wrong := _no_choice(self, transport=TRANSPORTS, log_level=LOG_LEVELS):
            raise ConfigError(f"{shown}: {wrong}.")
        for name in ("env", "inherit", "cwd") if self.url else ("headers", "oauth"):
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


_KINDS: Mapping[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Sequence[str]: "a list of texts",
    Mapping[str, str]: "a table of texts",
    OAuth: "a table",
}


def _wrong_kind(settings: ServerSettings | OAuth) -> str:
    for name, hint in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        kind = next(each for each in _KINDS if hint in (each, each | None))
        is_text = isinstance(value, str) and kind == Sequence[str]  # which would be a list of letters
        if wrong := f"{name} is {value!r:.60}" if is_text else mistyped(value, hint, name):
            return f"{wrong}; {name} must be {_KINDS[kind]}"
    return ""


def _no_choice(settings: object, **choices: Sequence[str]) -> str:
    for name, known in choices.items():
        if getattr(settings, name) not in known:
            return f"{name}={getattr(settings, name)!r:.60} must be one of {', '.join(known)}"
    return ""


def _is_of_web(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:  # such as a bracket that is never closed
        return False


def default_name(command: Sequence[str], url: str) -> str:
    """A name for a server that was given none: its program, or its host."""
    found = (
        (urlsplit(url).hostname or "server") if url else PurePath(command[0] if command else "server").stem
    )
    return as_name(found)


def as_name(text: str) -> str:
    """A name that a server may have, of what it is called elsewhere."""
    return re.sub(r"[^A-Za-z0-9_-]+|__+", "-", text).strip("-_")[:32].rstrip("-_") or "server"
