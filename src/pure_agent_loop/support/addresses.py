"""Where a server is, as far as its address shows. Pure."""

from __future__ import annotations

import ipaddress
import urllib.parse


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
