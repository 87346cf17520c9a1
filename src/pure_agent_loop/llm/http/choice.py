"""Choice of the HTTP library for a client's requests."""

from __future__ import annotations

import os
import urllib.parse
from functools import partial
from typing import TYPE_CHECKING

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.llm.addresses import has_proxy
from pure_agent_loop.llm.values import JsonFields
from pure_agent_loop.support.language import checked_choice
from pure_agent_loop.support.variables import variable

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import PlainTransport, Transport

HTTP_VARIABLE = "PAL_HTTP"
MIN_AIOHTTP = (3, 11)
_PLAIN_SETTINGS = {
    "api_key", "base_url", "max_retries", "timeout", "default_headers", "endpoint", "auth_headers",
}  # fmt: skip
_READ_VARIABLES = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}


def transport_for(settings: JsonFields) -> Transport:
    """Build the transport for a client's settings.

    Plain endpoints use aiohttp if it is installed, else the SDK's HTTP library; other endpoints use the SDK.
    ``PAL_HTTP`` can require ``aiohttp`` or ``httpx``.

    Args:
        settings: Arguments of ``openai.AsyncOpenAI``, with the key and the base URL. Other protocols add
            ``endpoint``, the URL for requests, and ``auth_headers``, sent in place of a bearer token.

    Raises:
        ConfigError: A setting or the variable is invalid, or the required library cannot be used.
    """
    wanted = variable(HTTP_VARIABLE).strip().lower()
    if wanted:
        checked_choice(HTTP_VARIABLE, wanted, ("aiohttp", "httpx"))
    from pure_agent_loop.llm.http.plain import check_seconds

    check_seconds(settings.get("timeout"))
    reason, has_aiohttp = sdk_only_reason(settings), wanted != "httpx" and _has_aiohttp()
    if wanted == "aiohttp":
        if not has_aiohttp:
            raise MissingExtraError(f"{HTTP_VARIABLE}=aiohttp", "fast")
        if reason:
            raise ConfigError(
                f"{HTTP_VARIABLE}=aiohttp cannot be used with {reason}. Unset it to use the SDK."
            )
    if reason:
        return _through_sdk(settings)
    kind: type[PlainTransport]
    if has_aiohttp:
        from pure_agent_loop.llm.http.aio import AioTransport as kind  # noqa: N813 - one of two
    else:
        from pure_agent_loop.llm.http.httpx import DirectTransport as kind  # noqa: N813 - one of two
    fallback = None if wanted == "aiohttp" else partial(_through_sdk, settings)
    return kind(settings["base_url"], settings["api_key"], settings, fallback)


def _through_sdk(settings: JsonFields) -> Transport:
    from pure_agent_loop.llm.http.httpx import SdkTransport

    return SdkTransport(settings)


def sdk_only_reason(settings: JsonFields) -> str:
    """Return the reason why an endpoint needs the SDK; empty if it is plain.

    Args:
        settings: As in `transport_for`.
    """
    for name, value in settings.items():
        if name not in _PLAIN_SETTINGS or not _is_plain(name, value):
            return f"this {name}"
    parts = urllib.parse.urlsplit(settings["base_url"])
    if parts.query or parts.fragment or parts.username or parts.password:
        return "a base_url with more than a host and a path"
    # The SDK reads these variables, and later versions may read more.
    variables = sorted(
        n for n, v in os.environ.items() if n.startswith("OPENAI_") and v and n not in _READ_VARIABLES
    )
    if variables and "endpoint" not in settings:
        return f"the variable {variables[0]}"
    return "a proxy" if has_proxy(settings["base_url"]) else ""


def _is_plain(name: str, value: object) -> bool:
    if name == "max_retries":
        return value == 0
    if name == "timeout":
        return value is None or isinstance(value, (int, float))
    if name in ("default_headers", "auth_headers"):
        from pure_agent_loop.llm.http.plain import are_plain

        return are_plain(value)
    return isinstance(value, str)


def _has_aiohttp() -> bool:
    try:
        import aiohttp
    except ImportError:
        return False
    major, minor = aiohttp.__version__.split(".")[:2]
    return (int(major), int(minor)) >= MIN_AIOHTTP
