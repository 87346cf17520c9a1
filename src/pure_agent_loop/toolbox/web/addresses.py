"""Decide which web addresses a tool may open: parse the URL strictly, and check every IP address of its host.

A host name proves nothing, so the check uses its IP addresses, and the connection goes to a checked address.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field

from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.lazy import lazy_pattern

WEB_PORTS = frozenset({80, 443, 8080, 8443})
MAX_URL = 8_000
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = lazy_pattern(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*")
# Rejected even with `allow_private`: these addresses have no web pages, but serve cloud credentials.
_NEVER = {
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "a cloud provider's own": ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "unspecified": ("0.0.0.0/8", "::/128"),
    "reserved": ("240.0.0.0/4",),
}
_PRIVATE = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
    "reserved": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001::/23",  # including Teredo
        "2001:db8::/32",
        "3fff::/20",
    ),
}
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = 0x5EFE


class AddressError(Exception):
    """A URL was rejected. The message is for the model and gives the reason."""


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """A parsed URL.

    Args:
        scheme: ``http`` or ``https``.
        host: Lower-case ASCII, without a final dot or brackets.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.netloc}{self.path}"


def read_url(url: str) -> ParsedUrl:
    """Parse a URL; reject what two programs might parse differently.

    Raises:
        AddressError: The URL is not a plain web address.
    """
    if len(url) > MAX_URL:
        raise AddressError(model_text("url_too_long", limit=MAX_URL))
    if any(char <= " " or char in "\\\x7f" or char.isspace() or not char.isprintable() for char in url):
        raise AddressError(model_text("url_characters"))
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressError(model_text("url_unreadable")) from None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https"):
        raise AddressError(model_text("url_scheme"))
    if "@" in parts.netloc:
        raise AddressError(model_text("url_user"))
    path = urllib.parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = urllib.parse.quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]|")
    target = ParsedUrl(scheme, _plain_host(host), _port(port, scheme), f"{path}?{query}" if query else path)
    if not path.startswith("/"):
        raise AddressError(model_text("url_unreadable"))
    return target


def _port(port: int | None, scheme: str) -> int:
    if port == 0:
        raise AddressError(model_text("port_zero"))
    return port or {"http": 80, "https": 443}[scheme]


def _plain_host(host: str) -> str:
    if "%" in host:
        raise AddressError(model_text("host_percent"))
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError:
            raise AddressError(model_text("no_ipv6")) from None
    host = _ascii(host).removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
            raise AddressError(model_text("odd_ip")) from None
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise AddressError(model_text("host_unreadable"))
    return host


def _ascii(host: str) -> str:
    """Return the host name in ASCII; full-width letters, digits and dots become plain ones."""
    if host.isascii():
        return host.lower()
    if len(host) > 253:  # the codec takes quadratic time on longer names
        raise AddressError(model_text("host_unreadable"))
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise AddressError(model_text("host_unreadable")) from None


def _networks(
    table: dict[str, tuple[str, ...]],
) -> list[tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network]]:
    return [(kind, ipaddress.ip_network(text)) for kind, networks in table.items() for text in networks]


_NEVER_OPEN = _networks(_NEVER)
_NOT_PUBLIC = _networks(_PRIVATE)


def kind_of(address: IPAddress) -> tuple[str, bool]:
    """Return the kind of an address, empty if public, and whether `allow_private` permits it."""
    inner = _embedded(address)
    if inner is not None:
        return kind_of(inner)
    for kind, network in _NEVER_OPEN:
        if address in network:
            return kind, False
    for kind, network in _NOT_PUBLIC:
        if address in network:
            return kind, True
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return "reserved", False
    return "", True


def _embedded(address: IPAddress) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    inner = address.ipv4_mapped or address.sixtofour
    number = int(address)
    is_isatap = (number >> 32) & 0xFFFF == _ISATAP and (number >> 48) & 0xFDFF == 0
    if inner is None and (address in _NAT64 or is_isatap):
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return inner


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules for opening addresses.

    Args:
        allow_hosts: The only allowed names, ``example.org`` or ``*.example.org``; empty for all.
        allow_addresses: Single allowed addresses, each with its port or None for any.
        allow_ports: Ports besides 80, 443, 8080 and 8443.
    """

    allow_hosts: Sequence[str] = ()
    deny_hosts: Sequence[str] = ()
    allow_private: bool = False
    allow_addresses: frozenset[tuple[IPAddress, int | None]] = field(default_factory=frozenset)
    allow_ports: frozenset[int] = frozenset()

    def check_name(self, target: ParsedUrl) -> None:
        """Reject a target if the rules do not allow its host name.

        Raises:
            AddressError: The rules do not allow the target.
        """
        if _matches(target.host, self.deny_hosts):
            raise AddressError(model_text("host_denied", host=target.host))
        if self.allow_hosts and not _matches(target.host, self.allow_hosts):
            hosts = ", ".join(map(str, self.allow_hosts))
            raise AddressError(model_text("host_not_listed", host=target.host, hosts=hosts))

    def checked(self, target: ParsedUrl, resolved: Sequence[str]) -> list[IPAddress]:
        """Return the addresses of a host name, if all of them may be opened.

        Raises:
            AddressError: The name has no addresses, or one of them may not be opened.
        """
        try:
            addresses = [ipaddress.ip_address(text) for text in resolved]
        except ValueError:
            raise AddressError(model_text("odd_address", host=target.host)) from None
        if not addresses:
            raise AddressError(model_text("no_address", host=target.host))
        for address in addresses:
            self._check(address, target)
        return addresses

    def _check(self, address: IPAddress, target: ParsedUrl) -> None:
        if (address, target.port) in self.allow_addresses:
            return
        if target.port not in WEB_PORTS and target.port not in self.allow_ports:
            raise AddressError(model_text("port_closed", port=target.port))
        if (address, None) in self.allow_addresses:
            return
        kind, may_be_opened = kind_of(address)
        if kind and not (self.allow_private and may_be_opened):
            raise AddressError(model_text("not_public", host=target.host, kind=model_text(kind)))


def _matches(host: str, patterns: Sequence[str]) -> bool:
    for pattern in patterns:
        name = pattern.lower().rstrip(".")
        if host == name or (name.startswith("*.") and (host.endswith(name[1:]) or host == name[2:])):
            return True
    return False


def read_address(text: str) -> tuple[IPAddress, int | None]:
    """Parse ``127.0.0.1:8000``, ``10.0.0.5``, ``::1`` or ``[::1]:8000`` into address and port.

    Raises:
        ValueError: The text is not an address.
    """
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    return ipaddress.ip_address(host), int(port) if port else None
