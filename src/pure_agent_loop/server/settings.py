"""Server settings: limits, allowed hosts and origins, visibility of tools."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.runs.settings import check_starters
from pure_agent_loop.server.entries import Visibility
from pure_agent_loop.server.people import Person
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.language import notice

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_PORT = re.compile(r":\d{1,5}$")


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    Args:
        hosts: Allowed host names, in addition to ``localhost`` and IP addresses. The check of host names
            prevents DNS rebinding.
        origins: Allowed origins of other sites' pages, such as ``https://app.example``.
        show_tools: Tools whose arguments and results the role ``use`` may see; True for all.
        show_reasoning: Whether the role ``use`` may see reasoning.
        starters: Tasks that the page offers before a conversation begins.
        models: Models that a person may choose for a task, besides the agent's own; other models are
            rejected.
        max_body: Bytes per request body.
        max_frame: Bytes per WebSocket message.
        max_running: Concurrent runs.
        max_running_each: Concurrent runs per person.
        max_viewers: Open event streams (SSE and WebSocket).
        max_viewers_each: Open event streams per person.
        rate: Requests and messages per second and person; up to four times as many in a burst.
        viewer_seconds: Seconds a viewer may take to accept an event before it is dropped.
        keep_alive_seconds: Seconds between keep-alive messages on an idle event stream.
        grace: Seconds that runs get to finish at shutdown.
        keep_days: Days after which unused sessions are deleted, with their runs; None to keep them.
        prefix: The path at which a proxy serves the application, such as ``/agents``; the proxy may or may
            not strip it.
        share: Whether people may share sessions by links that need no login; if False, no link works.

    Raises:
        ConfigError: A value is invalid.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    show_tools: Collection[str] | bool = ()
    show_reasoning: bool = False
    starters: Sequence[str] = ()
    models: Sequence[str] = ()
    max_body: int = 8 << 20
    max_frame: int = 1 << 20
    max_running: int = 100
    max_running_each: int = 20
    max_viewers: int = 2_000
    max_viewers_each: int = 600
    rate: float = 50.0
    viewer_seconds: float = 20.0
    keep_alive_seconds: float = 15.0
    grace: float = 30.0
    prefix: str = ""
    keep_days: int | None = None
    share: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_limit = _is_number(field.default) or (field.name == "keep_days" and value is not None)
            if is_limit and not (_is_number(value) and value > 0):
                raise ConfigError(notice("library.above_zero", name=field.name, value=value))
        require_value(isinstance(self.share, bool), "share", self.share, "True or False")
        for name in ("hosts", "origins", "show_tools", "starters", "models"):
            if isinstance(getattr(self, name), (str, bytes)):
                raise ConfigError(f"{name} must be a list, not a string.")
        check_starters(self.starters)
        models: Sequence[object] = self.models
        if not all(isinstance(name, str) and name.strip() for name in models):
            raise ConfigError(notice("library.server_models", models=self.models))
        if self.prefix and not re.fullmatch(r"(/[\w.~-]+)+", self.prefix, re.ASCII):
            raise ConfigError(notice("library.server_prefix", prefix=self.prefix))
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^/\s]+", origin):
                raise ConfigError(notice("library.server_origin", origin=origin))

    def is_host(self, host: str) -> bool:
        """Return whether a ``Host`` header is allowed."""
        name = _PORT.sub("", host.lower())
        if name in _LOCAL or name in {known.lower() for known in self.hosts}:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True  # DNS rebinding needs a host name, so addresses are safe

    def is_origin(self, origin: str, host: str) -> bool:
        """Return whether an ``Origin`` header is allowed: the server's own, or one of `origins`.

        Args:
            origin: The value of ``Origin``.
            host: The value of ``Host``, checked by `is_host`.
        """
        return origin in (f"http://{host}", f"https://{host}") or origin in self.origins

    def visibility_of(self, person: Person) -> Visibility:
        """Return what a person may see of events."""
        if person.may("operate"):
            return Visibility(full=True)
        shown = self.show_tools if isinstance(self.show_tools, bool) else frozenset(self.show_tools)
        return Visibility(tools=True if person.may("approve") else shown, reasoning=self.show_reasoning)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def make_settings(options: dict[str, Any]) -> Settings:
    """Create settings from keyword arguments.

    Raises:
        ConfigError: A name is unknown or a value is invalid.
    """
    known = {field.name for field in fields(Settings)}
    unknown = options.keys() - known
    if unknown:
        raise ConfigError(
            notice(
                "library.server_setting", unknown=", ".join(sorted(unknown)), known=", ".join(sorted(known))
            )
        )
    return Settings(**options)
