"""Requests through OpenAI's SDK, by its low-level ``post`` with an encoded body."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.addresses import has_proxy, proxy_variables
from pure_agent_loop.llm.http.plain import check_seconds, raise_failed

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from pure_agent_loop.llm.http import HttpResponse

_BODY_PARAMETERS: dict[type, str] = {}


class SdkTransport:
    """See `Transport`.

    Args:
        settings: Arguments of ``openai.AsyncOpenAI``, and what `transport_for` takes besides.

    Raises:
        ConfigError: The SDK rejects them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, OpenAIError

        from pure_agent_loop.llm.http.pool import StackedTransport, library, tls_for

        own: dict[str, Any] = {}
        settings = dict(settings)
        self._path = settings.pop("endpoint", "/chat/completions")
        if auth := settings.pop("auth_headers", None):
            headers = settings.get("default_headers") or {}
            settings["default_headers"] = {"Authorization": Omit(), **auth, **headers}
        if settings.get("http_client") is None and not has_proxy(settings["base_url"]):
            # Follows redirects, also from http to https. With a proxy, the library builds its own client.
            own["http_client"] = DefaultAsyncHttpxClient(transport=StackedTransport(tls_for("https")))
        try:
            client = AsyncOpenAI(**{**settings, **own})
            client._platform = "Unknown"  # else the SDK runs `uname` from the PATH
        except (OpenAIError, TypeError, ValueError, ImportError, library.InvalidURL) as error:
            proxies = proxy_variables() if has_proxy(settings["base_url"]) else ""
            hint = f". It reads its proxy from {proxies}: correct that, or unset it." if proxies else ""
            raise ConfigError(f"The OpenAI client cannot be built: {error}{hint}") from error
        self._client: Any = client  # Any: the body parameter differs between SDK versions
        self._body = _body_parameter(client)

    async def post(self, body: bytes, options: Mapping[str, Any]) -> HttpResponse:
        """See `Transport`."""
        from openai import AsyncStream, OpenAIError

        from pure_agent_loop.llm.http.pool import HttpxResponse

        fields = _request_options(options)
        try:
            opened = await self._client.post(
                self._path,
                **{self._body: body},
                cast_to=object,
                options=fields,
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except (OpenAIError, TimeoutError, asyncio.TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - translated and raised
            raise_failed(error)
        return HttpxResponse(opened.response)

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        return await self._client.get(url, cast_to=object, options={"timeout": seconds})

    async def close(self) -> None:
        """See `Transport`."""
        await self._client.close()


def _request_options(options: Mapping[str, Any]) -> Any:
    check_seconds(options.get("timeout"))
    names = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}
    return {new: options[old] for old, new in names.items() if options.get(old) is not None}


def _body_parameter(client: AsyncOpenAI) -> str:
    """Return the name of the SDK's parameter for bytes: ``content``, in older versions ``body``."""
    kind = type(client)
    if kind not in _BODY_PARAMETERS:
        parameters = inspect.signature(kind.post).parameters
        _BODY_PARAMETERS[kind] = "content" if "content" in parameters else "body"
    return _BODY_PARAMETERS[kind]
