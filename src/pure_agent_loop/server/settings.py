"""What a server is told once: limits, who may come from where, what is shown."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.entries import Sight
from pure_agent_loop.server.people import Person

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_PORT = re.compile(r":\d{1,5}$")


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    Args:
        hosts: Names under which the server is called, besides ``localhost`` and addresses in figures: a page
            of somebody else whose name was turned to this machine is refused by that.
        origins: Pages of other origins that may call it, such as ``https://app.example``.
        show_tools: Tools of which people with the role ``use`` see what goes in and out; True for all.
        show_reasoning: They see the model's thinking.
        max_body: Bytes of a request.
        max_frame: Bytes of a WebSocket message.
        max_running: Runs at work at once.
        max_running_each: The same for one person.
        max_viewers: Open event streams, of both kinds.
        max_viewers_each: The same for one person.
        rate: Requests and messages a second of one person, for long; four times as many at once.
        viewer_seconds: How long a viewer may take for one event before it is dropped.
        keep_alive_seconds: How often an event stream says something when there is nothing to say.
        grace: Seconds that runs get to end when the server is to stop.

    Raises:
        ConfigError: One of them cannot be.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    show_tools: Collection[str] | bool = ()
    show_reasoning: bool = False
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

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if _is_number(each.default) and not (_is_number(value) and value > 0):
                raise ConfigError(f"{each.name}={value!r:.40} must be a number above 0.")
        for name in ("hosts", "origins", "show_tools"):
            if isinstance(getattr(self, name), (str, bytes)):
                raise ConfigError(f"{name} must be a list, not a text.")
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^/\s]+", origin):
                raise ConfigError(f"origins: {origin!r:.80} is none; write it as https://app.example.")

    def is_host(self, host: str) -> bool:
        """True if the server may be called so.

        Args:
            host: The value of the header ``Host``.
        """
        name = _PORT.sub("", host.lower())
        if name in _LOCAL or name in {each.lower() for each in self.hosts}:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True  # nobody can turn an address to another machine

    def is_origin(self, origin: str, host: str) -> bool:
        """True if a page of this origin may call: one that this server gave, or one that was named.

        Args:
            origin: The value of the header ``Origin``.
            host: The value of ``Host``, checked by `is_host`.
        """
        return origin in (f"http://{host}", f"https://{host}") or origin in self.origins

    def sight_of(self, person: Person) -> Sight:
        """How much a person sees of events."""
        if person.may("operate"):
            return Sight(full=True)
        shown = self.show_tools if isinstance(self.show_tools, bool) else frozenset(self.show_tools)
        return Sight(tools=True if person.may("approve") else shown, reasoning=self.show_reasoning)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def made_settings(given: dict[str, Any]) -> Settings:
    """Settings of keyword arguments.

    Raises:
        ConfigError: There is no such setting, or one cannot be.
    """
    known = {each.name for each in fields(Settings)}
    strange = given.keys() - known
    if strange:
        raise ConfigError(
            f"{', '.join(sorted(strange))} is no setting of a server. There are: {', '.join(sorted(known))}."
        )
    return Settings(**given)
