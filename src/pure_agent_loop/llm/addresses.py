"""Classification of server URLs, without name lookups."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
import urllib.parse
from functools import lru_cache

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.secrets.redaction import shown_url

# Endpoint paths that people paste with their server's URL, and parameters that may be dropped with them.
_ENDPOINT = re.compile(
    r"/+((chat/)?completions|responses|messages(/count_tokens)?|model/[^/]+/[\w-]+|projects/.+:\w+"
    r"|(?<=/v1/|eta/|pha/)models(/[^/]+)?)/*$"
)
_OWN_PARAMETERS = {"alt", "beta", "key"}
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@lru_cache(maxsize=64)  # cached, because every run starts with this check
def is_loopback(url: str) -> bool:
    """Return True if the URL points to this machine."""
    address = _address_of(url)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_private(url: str) -> bool:
    """Return True if the URL's host is an address of this machine or of a private network."""
    address = _address_of(url)
    return address is not None and (address.is_private or address.is_unspecified)


def _address_of(url: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address in a URL; the loopback address for ``localhost``, None for other names."""
    try:
        host = (urllib.parse.urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return None
    if host == "localhost" or host.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        address = ipaddress.ip_address(host)
        return getattr(address, "ipv4_mapped", None) or address
    except ValueError:
        return None


def has_proxy(url: str) -> bool:
    """Return True if the environment or the system sets a proxy; ``NO_PROXY`` is left to the SDK.

    Args:
        url: The server's URL. Requests to this machine never use a proxy.
    """
    if is_loopback(url):
        return False
    if sys.platform in ("win32", "darwin"):
        from urllib.request import getproxies  # slow to import, and needed only here

        return not getproxies().keys().isdisjoint(("http", "https", "all"))
    return any(value and name.lower() in _PROXIES for name, value in os.environ.items())


def proxy_variables() -> str:
    """Return the environment variables that set a proxy, with their values but without passwords."""
    named = {name: value for name, value in os.environ.items() if value and name.lower() in _PROXIES}
    return ", ".join(f"{name}={_shown(value)}" for name, value in sorted(named.items()))


def _shown(proxy: str) -> str:
    return shown_url(proxy if "://" in proxy else f"http://{proxy}")


def proxy_for(url: str) -> str:
    """Return the proxy for requests to a URL, without its password; empty if there is none."""
    if not has_proxy(url):
        return ""
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urllib.parse.urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return _shown(proxy)


def checked_url(url: str) -> str:
    """Return a server's URL without surrounding white space and without the path of an endpoint.

    Raises:
        ConfigError: The value is not a full HTTP URL, or its endpoint has parameters that would be lost.
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
            f"base_url={shown_url(url)!r} is not a full URL. Use one such as 'http://127.0.0.1:11434/v1'."
        )
    return without_endpoint(url)


def without_endpoint(url: str) -> str:
    """Return a server's URL without the endpoint path that may have been pasted with it.

    Raises:
        ConfigError: The endpoint has parameters that would be lost.
    """
    parts = urllib.parse.urlsplit(url)
    path = _ENDPOINT.sub("", parts.path)
    if path == parts.path:
        return url
    if lost := urllib.parse.parse_qs(parts.query).keys() - _OWN_PARAMETERS:
        raise ConfigError(
            f"base_url={shown_url(url)!r} is the URL of an endpoint, and its parameters are not sent: "
            f"{', '.join(sorted(lost))}. Use the server's URL, and the request option extra_query=..."
        )
    return parts._replace(path=path, query="", fragment="").geturl()
