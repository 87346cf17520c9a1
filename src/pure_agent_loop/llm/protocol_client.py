"""Base of the clients for model makers' own protocols: key, URL, connections and errors, over plain HTTP."""

from __future__ import annotations

import importlib
import os
import urllib.parse
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.addresses import checked_url, is_loopback
from pure_agent_loop.llm.base import StreamingClient
from pure_agent_loop.llm.http.connections import Connections, drain
from pure_agent_loop.llm.openai_client import (
    JSON_PACKAGES,
    LOCAL_SECONDS,
    PROBE_SECONDS,
    checked_key,
    encode_body,
)
from pure_agent_loop.llm.profiles import Profile, check_thinking_level
from pure_agent_loop.llm.protocol_reader import ProtocolReader
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.portal import close_at_exit
from pure_agent_loop.support.secrets.redaction import Redactor, client_secrets, shown_url

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import Transport
    from pure_agent_loop.llm.message_types import JsonObject, Message, Options, Tools


class ProtocolClient(StreamingClient):
    """A model behind its maker's own protocol.

    Args:
        model: The model's name on the server.
        api_key: The API key; default the maker's variable, which is sent only to the maker or to the URL of
            the maker's variable. Not needed for servers on this machine.
        base_url: The server's URL; default the maker's variable, else the maker.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``; None for the model's default.
        prepared: Whether to load everything for requests now; else call `prepare` before the first request.
        timeout: Seconds to wait for the next piece of a response; None for the default.
        default_headers: Headers of every request.

    Raises:
        ConfigError: An argument is invalid, or there is no key. With ``prepared=False``, the first request
            raises for a missing key.
    """

    takes_meta = True
    takes_server_tools = True
    thinks_in_text = False  # thinking has its own field
    profile: Profile
    default_url: ClassVar[str]
    url_variable: ClassVar[str]
    key_variable: ClassVar[str]
    other_key_variables: ClassVar[tuple[str, ...]] = ()
    own_host: ClassVar[str]
    path: ClassVar[str]
    needs_key: ClassVar[bool] = True  # else there are other credentials

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        prepared: bool = True,
        timeout: float | None = None,
        default_headers: Mapping[str, str] | None = None,
    ) -> None:
        if thinking_level is not None:
            check_thinking_level(thinking_level)
        self.model = str(model)
        self.thinking_level = thinking_level
        self.base_url = checked_url(str(base_url or os.environ.get(self.url_variable) or self.default_url))
        self.origin = f"{shown_url(self.base_url.rstrip('/'))} {model}"
        self._takes_variable = base_url is None or self.is_own(self.base_url)
        self._settings: JsonObject = {
            "base_url": self.base_url,
            "max_retries": 0,
            "endpoint": self._endpoint(),
            "default_headers": dict(default_headers or {}),
        }
        if timeout is not None or is_loopback(self.base_url):
            self._settings["timeout"] = LOCAL_SECONDS if timeout is None else timeout
        self._take_key(api_key)
        self._connections = Connections(self._new_transport)
        if prepared:
            self.prepare()
        close_at_exit(self)

    @classmethod
    def default_address(cls, _environ: Mapping[str, str]) -> str:
        """Return the maker's URL; of a cloud, the one for the environment's region."""
        return cls.default_url

    @classmethod
    def is_own(cls, url: str) -> bool:
        """Return True for a URL of the protocol's maker."""
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        is_own_host = host == cls.own_host or host.endswith(f".{cls.own_host}")
        return parts.scheme == "https" and is_own_host

    @property
    def has_key(self) -> bool:
        """True if there is a key. Without one, the first request reads the environment again."""
        return bool(self._settings["api_key"])

    def prepare(self) -> None:
        """Load modules and build a transport for the first request. Thread-safe; raises `ConfigError`."""
        self._connections.prepare()

    async def models(self) -> Any:
        """Return the server's list of models, as it sends it.

        Raises:
            LLMError: The server has no list, or the request failed.
        """
        url = f"{self._settings['endpoint'].rpartition(self.path)[0]}/models"
        try:
            return await (await self._connections.transport()).get(url, PROBE_SECONDS)
        except ValueError as error:
            said = f"{shown_url(url)} lists no models: {error}"
            raise LLMError(said, kind="not_found", said=said) from error
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._translated(error)  # noqa: B904 - its cause is set

    async def aclose(self) -> None:
        """Close the connections of the running event loop; one in use closes after its response."""
        await self._connections.aclose()

    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """Return the whole response. Same arguments and errors as `chat_stream`."""
        async with aclosing(self._ask(messages, tools, kwargs, stream=False)) as deltas:
            return await assembled(deltas, splits_thinking=False)

    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response. See `BaseLLMClient.chat_stream`.

        Args:
            messages: The history in the chat-completions shape.
            tools: Tool schemas in that shape, or tools of the server in the protocol's shape.
            kwargs: Options of chat completions or of the protocol.

        Raises:
            ConfigError: An option has no counterpart, or the model rejects it. Nothing was sent.
            LLMError: The request failed.
        """
        return self._ask(messages, tools, kwargs, stream=kwargs.get("stream") is not False)

    @abstractmethod
    def request_body(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        stream: bool,
    ) -> JsonObject:
        """Build the body of a request; see `ShowsRequest`."""

    @abstractmethod
    def _ask(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: JsonObject,
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response."""

    def _endpoint(self) -> str:
        """Return the URL for requests; the version may be part of the base URL or not."""
        base = self.base_url.rstrip("/")
        return f"{base}{self.path}" if base.endswith("/v1") else f"{base}/v1{self.path}"

    def _auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"authorization": f"Bearer {key}"}

    def _take_key(self, api_key: str | None) -> None:
        key = checked_key(api_key)
        if not key and self._takes_variable:
            variables = (self.key_variable, *self.other_key_variables)
            key = next(filter(None, (checked_key(os.environ.get(name)) for name in variables)), None)
        if not key and is_loopback(self.base_url):
            key = "not-needed"
        self._settings["api_key"] = key or ""
        self._settings["auth_headers"] = self._auth_headers(key or "")
        self.secrets = client_secrets(self._settings)
        self._redactor = Redactor(self.secrets, env={}, shapes=False)

    def _new_transport(self) -> Transport:
        return self._transport_to("")

    def _transport_to(self, path: str) -> Transport:
        """Build a transport to the endpoint, or to a path below it."""
        for name in JSON_PACKAGES:  # slow imports, so not inside a request
            importlib.import_module(name)
        from pure_agent_loop.llm.http.choice import transport_for

        if not self.has_key:
            self._take_key(None)
        if not self.has_key:
            raise ConfigError(
                f"No API key for {shown_url(self.base_url)}. Pass api_key=..., or set "
                f"{self.key_variable}, which is sent only to {self.own_host} or to {self.url_variable}."
            )
        return transport_for({**self._settings, "endpoint": self._settings["endpoint"] + path})

    async def _exchange(
        self,
        body: JsonObject,
        reader: ProtocolReader,
        options: Options,
        connections: Connections | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """Send one request, and stream what the reader makes of the response."""
        response = None
        try:
            transport = await (connections or self._connections).transport()
            response = await transport.post(encode_body(body), options)
            reader.is_document = reader.stream_type not in response.headers.get("content-type", "").lower()
            data = b"-"
            while data and not reader.is_done:
                try:
                    data = await response.read()
                except Exception:
                    if not (data := response.buffered()):  # what came before the connection failed
                        raise
                for delta in reader.feed(data) if data else reader.close():
                    yield delta
            if data:
                await drain(response)
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._translated(error)  # noqa: B904 - its cause is set
        finally:
            if response is not None:
                await response.aclose()

    def _translated(self, error: Exception) -> Exception:
        """Convert an error of a request to `LLMError`, and redact secrets that a server repeated."""
        from pure_agent_loop.llm.failures import redacted_error

        return redacted_error(error, self._redactor, shown_url(self.base_url), self.model)
