"""Settings of a server: how to start or reach it, and which of its features to use."""

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
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.typed import mistyped

TRANSPORTS = ("http", "sse")
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
GRANTS = ("browser", "client_credentials")
CLIENT_AUTHS = ("basic", "post")
MAX_BYTES = 50_000_000  # size limit for each message from a server
# No `__` and no `_` at the end: a tool's name must identify its server uniquely.
_NAME = re.compile(r"(?!.*__)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9-])?")


@dataclass(frozen=True, slots=True)
class OAuth:
    """Settings of an OAuth login, if the default (browser, self-registered client) does not fit.

    Args:
        grant: ``browser``: a person logs in, once. ``client_credentials``: a program logs in without a
            person.
        client_id: The ID of a registered client; if empty, the client registers itself.
        client_secret: The client's secret.
        client_auth: How the secret is sent: ``basic`` or ``post``.
        private_key_file: A private key (PEM) instead of a secret.
        algorithm: The key's signature algorithm.
        issuer: The issuer of the secret or key; neither is sent to any other issuer.
        client_metadata_url: An https URL of a client metadata document, instead of a registration.
        redirect_port: The local port of the browser's redirect to ``/callback``; 0 for any.

    Raises:
        ConfigError: A field is invalid; the message names the field.
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
        if problem := _wrong_kind(self) or self._wrong():
            raise ConfigError(notice("library.mcp_wrong", shown="oauth", wrong=problem))

    @property
    def is_machine(self) -> bool:
        """True if the login needs no person."""
        return self.grant == "client_credentials"

    def _wrong(self) -> str:
        if problem := _no_choice(self, grant=GRANTS, client_auth=CLIENT_AUTHS):
            return problem
        credentials = bool(self.client_secret) + bool(self.private_key_file)
        if self.is_machine and (not self.client_id or credentials != 1):
            return notice("library.oauth_machine")
        for name in ("client_metadata_url", "redirect_port") if self.is_machine else ("private_key_file",):
            if getattr(self, name):
                return notice("library.oauth_conflict", name=name, grant=self.grant)
        if credentials and not (self.client_id and urlsplit(self.issuer).scheme in ("http", "https")):
            return notice("library.oauth_issuer")
        if self.client_id and self.client_metadata_url:
            return notice("library.oauth_client")
        where = urlsplit(self.client_metadata_url)
        if self.client_metadata_url and (where.scheme != "https" or where.path in ("", "/")):
            return notice("library.oauth_metadata", url=self.client_metadata_url)
        return "" if 0 <= self.redirect_port < 65536 else notice("library.oauth_port")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one server; see `MCPServer` for the fields.

    Raises:
        ConfigError: A field is invalid; the message names the field.
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
        shown = notice("library.mcp_server", name=str(self.name))
        if problem := _wrong_kind(self):
            raise ConfigError(notice("library.mcp_wrong", shown=shown, wrong=problem))
        if not _NAME.fullmatch(self.name):
            raise ConfigError(notice("library.mcp_name", shown=shown))
        if bool(self.command) == bool(self.url):
            raise ConfigError(notice("library.mcp_command_or_url", shown=shown))
        if self.url and not _is_of_web(self.url):
            raise ConfigError(notice("library.mcp_url", shown=shown, url=self.url))
        if problem := _no_choice(self, transport=TRANSPORTS, log_level=LOG_LEVELS):
            raise ConfigError(notice("library.mcp_wrong", shown=shown, wrong=problem))
        for name in ("env", "inherit", "cwd") if self.url else ("headers", "oauth"):
            if getattr(self, name):
                other = notice("library.mcp_started" if self.url else "library.mcp_remote")
                raise ConfigError(notice("library.mcp_only_for", shown=shown, name=name, other=other))
        if self.start_timeout <= 0 or (self.timeout is not None and self.timeout <= 0):
            raise ConfigError(notice("library.mcp_timeout", shown=shown))

    @property
    def tool_prefix(self) -> str:
        """The prefix of the server's tool names."""
        return f"mcp__{self.name}__" if self.prefix is None else self.prefix

    @property
    def shown(self) -> str:
        """The server's location for people, without variables and headers, which may be secret."""
        return one_line(self.url.partition("?")[0] if self.url else " ".join(self.command))

    @property
    def identity(self) -> str:
        """A short digest that identifies the server."""
        which = json.dumps([self.name, list(self.command), self.url])
        return hashlib.sha256(which.encode("utf-8", "surrogatepass")).hexdigest()[:24]


_KINDS: Mapping[Any, str] = {
    str: "text",
    bool: "switch",
    int: "whole_number",
    float: "number",
    Sequence[str]: "texts",
    Mapping[str, str]: "text_table",
    OAuth: "table",
}


def _wrong_kind(settings: ServerSettings | OAuth) -> str:
    for name, hint in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        kind = next(known for known in _KINDS if hint in (known, known | None))
        is_text = isinstance(value, str) and kind == Sequence[str]  # a string would be split into letters
        problem = mistyped(value, hint, name)
        if is_text:
            problem = notice("library.mcp_value", name=name, value=value)
        if problem:
            kind_name = notice(f"library.kind_{_KINDS[kind]}")
            return notice("library.mcp_must_be", problem=problem, name=name, kind=kind_name)
    return ""


def _no_choice(settings: object, **choices: Sequence[str]) -> str:
    for name, known in choices.items():
        if getattr(settings, name) not in known:
            return notice(
                "library.mcp_one_of", name=name, value=getattr(settings, name), choices=", ".join(known)
            )
    return ""


def _is_of_web(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:  # a malformed URL, for example with an unclosed bracket
        return False


def default_name(command: Sequence[str], url: str) -> str:
    """Return a default name for a server: its program or its host."""
    source = (
        (urlsplit(url).hostname or "server") if url else PurePath(command[0] if command else "server").stem
    )
    return server_name_from(source)


def server_name_from(text: str) -> str:
    """Convert a foreign name to a valid server name."""
    return re.sub(r"[^A-Za-z0-9_-]+|__+", "-", text).strip("-_")[:32].rstrip("-_") or "server"
