"""Where an address leads, as far as it shows. Nothing is looked up."""

from __future__ import annotations

import ipaddress
import urllib.parse

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.secrets.redaction import shown_url


def is_loopback(url: str) -> bool:
    """True if the address is on this machine."""
    address = _address_of(url)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_private(url: str) -> bool:
    """True if the address is on this machine or in a private network, as far as it shows."""
    address = _address_of(url)
    return address is not None and (address.is_private or address.is_unspecified)


def _address_of(url: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address in a URL; for ``localhost`` that of this machine, for other names None."""
    try:
        host = urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return None
    if host == "localhost" or host.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def checked_url(url: str) -> str:
    """The address of a server, without the white space around it.

    Raises:
        ConfigError: It is none.
    """
    url = url.strip()
    try:
        parts = urllib.parse.urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_usable = is_usable and url.isprintable()
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigError(
            f"base_url={shown_url(url)!r} is no web address. Give all of it, for instance "
            "'http://127.0.0.1:11434/v1'."
        )
    return url
