"""Which library the requests of a client go through."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pure_agent_loop.llm.http import Transport
    from pure_agent_loop.llm.http.plain import PlainTransport

HTTP_VARIABLE = "PURE_AGENT_LOOP_HTTP"
LEAST = (3, 11)  # of aiohttp
_WAYS = ("aiohttp", "httpx")
_OURS = {"api_key", "base_url", "max_retries", "timeout", "default_headers"}
_READ_BY_US = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}


def transport_for(settings: Mapping[str, Any]) -> Transport:
    """Make what requests go through.

    Those of a plain endpoint go through aiohttp where it is installed, else through the SDK's HTTP library;
    others through the SDK. ``PURE_AGENT_LOOP_HTTP`` says ``aiohttp`` or ``httpx`` to have that and no other.

    Args:
        settings: Of ``openai.AsyncOpenAI``, the key and the address among them.

    Raises:
        ConfigError: The settings are wrong, or the variable is, or what it says cannot be had.
    """
    wanted = os.environ.get(HTTP_VARIABLE, "").strip().lower()
    if wanted not in ("", *_WAYS):
        raise ConfigError(f"{HTTP_VARIABLE}={wanted!r} is not known. Use one of: {', '.join(_WAYS)}.")
    from pure_agent_loop.llm.http.plain import check_seconds

    check_seconds(settings.get("timeout"))
    why, has_aiohttp = why_not(settings), wanted != "httpx" and _aiohttp_is_there()
    if wanted == "aiohttp":
        if not has_aiohttp:
            raise MissingExtraError(f"{HTTP_VARIABLE}=aiohttp", "fast")
        if why:
            raise ConfigError(f"{HTTP_VARIABLE}=aiohttp cannot be used with {why}. Unset it to use the SDK.")
    if why:
        return _through_sdk(settings)
    kind: type[PlainTransport]
    if has_aiohttp:
        from pure_agent_loop.llm.http.aio import AioTransport as kind  # noqa: N813 - one of two
    else:
        from pure_agent_loop.llm.http.direct import DirectTransport as kind  # noqa: N813 - one of two
    beside = None if wanted == "aiohttp" else partial(_through_sdk, settings)
    return kind(settings["base_url"], settings["api_key"], settings, beside)


def _through_sdk(settings: Mapping[str, Any]) -> Transport:
    from pure_agent_loop.llm.http.sdk import SdkTransport

    return SdkTransport(settings)


def why_not(settings: Mapping[str, Any]) -> str:
    """What makes an endpoint one for the SDK; empty if it is plain.

    Args:
        settings: As in `transport_for`.
    """
    for name, value in settings.items():
        if name not in _OURS or not _is_plain(name, value):
            return f"this {name}"
    parts = urllib.parse.urlsplit(settings["base_url"])
    if parts.query or parts.fragment or parts.username or parts.password:
        return "a base_url with more than a host and a path"
    # The SDK makes headers and logs of what it finds there, now and in versions to come.
    told = sorted(n for n, v in os.environ.items() if n.startswith("OPENAI_") and v and n not in _READ_BY_US)
    if told:
        return f"the variable {told[0]}"
    from pure_agent_loop.llm.http.plain import has_proxy

    return "a proxy" if has_proxy() else ""


def _is_plain(name: str, value: object) -> bool:
    if name == "max_retries":
        return value == 0
    if name == "timeout":
        return value is None or isinstance(value, (int, float))
    if name == "default_headers":
        from pure_agent_loop.llm.http.plain import are_plain

        return are_plain(value)
    return isinstance(value, str)


def _aiohttp_is_there() -> bool:
    try:
        import aiohttp
    except ImportError:
        return False
    major, minor = aiohttp.__version__.split(".")[:2]
    return (int(major), int(minor)) >= LEAST
