"""Base of the clients for model makers' own protocols: key, URL, connections and errors, over plain HTTP."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.adapt import leave_out
from pure_agent_loop.llm.addresses import checked_url, is_loopback
from pure_agent_loop.llm.histories import WrittenHistories
from pure_agent_loop.llm.http.connections import Connections, drain
from pure_agent_loop.llm.http_client import (
    LOCAL_SECONDS,
    PROBE_SECONDS,
    checked_key,
    encode_body,
    load_json_packages,
)
from pure_agent_loop.llm.key_file import KeyFile
from pure_agent_loop.llm.learning import LearningClient, RequestAttempt, leave_out_advice
from pure_agent_loop.llm.options import OptionNames
from pure_agent_loop.llm.profiles import check_thinking_level, chosen_fields
from pure_agent_loop.llm.protocol_reader import ProtocolReader
from pure_agent_loop.llm.values import Delta, JsonObject, Message, Options, Tools, get
from pure_agent_loop.support.secrets.redaction import shown_url

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import Transport


# Fields that a thinking level sets, in any protocol.
_LEVEL_FIELDS = frozenset({
    "thinking", "thinking.type", "thinking.budget_tokens", "output_config", "output_config.effort",
    "reasoning", "reasoning.effort", "generationConfig.thinkingConfig",
    "generationConfig.thinkingConfig.thinkingLevel", "generationConfig.thinkingConfig.thinkingBudget",
})  # fmt: skip
_ADVICE = "thinking_level sets this field: use thinking_level='off', or a level that this model supports."


class ProtocolClient(LearningClient):
    """Client of a model that uses its maker's own protocol.

    Args:
        model: The model's name on the server.
        api_key: The API key; default the maker's key variable, which is sent only to the maker or to the URL
            in the maker's URL variable. Not needed for servers on this machine.
        base_url: The server's URL; default the maker's URL variable, else the maker's server.
        thinking_level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.
        prepared: Whether to load what requests need now; if False, or without a key, call `prepare` before
            the first request.
        timeout: Seconds to wait for the next piece of a response; None for the default.
        default_headers: Headers of every request.

    Raises:
        ConfigError: An argument is invalid. `prepare` and the first request raise it if the key is missing.
    """

    thinks_in_text = False  # False, because these protocols have a separate field for thinking
    default_url: ClassVar[str]
    url_variable: ClassVar[str]
    key_variable: ClassVar[str]
    _option_names: ClassVar[OptionNames]
    other_key_variables: ClassVar[tuple[str, ...]] = ()
    own_host: ClassVar[str]
    path: ClassVar[str]
    _window_field: ClassVar[str] = ""  # field for the window in tokens, in the server's facts about the model
    needs_key: ClassVar[bool] = True  # False if other credentials are possible

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
        self.thinking_level = None if thinking_level == "off" else thinking_level
        self.context_window = None
        self._has_asked = False  # True once the server has been asked for the context window
        self._histories: WrittenHistories[Any] = WrittenHistories()
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
        self._key_file = api_key if isinstance(api_key, KeyFile) else None
        self._take_key(api_key)
        self._connect(prepared=prepared)

    @classmethod
    def default_address(cls, _environ: Mapping[str, str]) -> str:
        """Return the maker's URL; for a cloud, the URL for the environment's region."""
        return cls.default_url

    @classmethod
    def is_own(cls, url: str) -> bool:
        """Return True for a URL of the protocol's maker."""
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        is_own_host = host == cls.own_host or host.endswith(f".{cls.own_host}")
        return parts.scheme == "https" and is_own_host

    async def find_context_window(self) -> int | None:
        """Return `context_window`, after querying the server once."""
        if not self._has_asked and (address := self._model_address()):
            try:
                # This fails without a key; the next call then asks again.
                transport = await self._connections.transport()
                self._has_asked = True
                info = await transport.get(address, PROBE_SECONDS)
            except Exception:  # noqa: BLE001 - other servers list no models
                return None
            self._read_model(info)
        return self.context_window

    def _model_address(self) -> str:
        """Return the URL where the server describes the model; empty if it has none."""
        return ""

    def _read_model(self, info: object) -> None:
        """Apply the server's facts about the model."""
        window = get(info, self._window_field)
        self.context_window = window if type(window) is int and window > 0 else None

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
            raise self._as_llm_error(error)  # noqa: B904 - its cause is set

    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response. See `BaseLLMClient.chat_stream`.

        Args:
            messages: The history in the chat-completions shape.
            tools: Tool schemas in that shape, or server tools in the protocol's shape.
            kwargs: Options of chat completions or of the protocol.

        Raises:
            ConfigError: The protocol or the model does not support an option. Nothing was sent.
            LLMError: The request failed.
        """
        return self._ask(messages, tools, kwargs, stream=kwargs.get("stream") is not False)

    def _chosen(self, attempt: RequestAttempt) -> dict[str, str]:
        from pure_agent_loop.llm.lessons import settings_of

        options = attempt.options
        own = {field: name for name in chosen_fields(options) for field in self._option_names.spellings(name)}
        level = options.get("thinking_level") or self.thinking_level
        # The fields for "none" may be left out: a model that rejects them cannot think anyway.
        level_fields = _LEVEL_FIELDS if level not in (None, "off", "none") else ()
        chosen: dict[str, str] = {}
        for path in settings_of(attempt.body):
            name = own.get(path.partition(".")[0]) or own.get(path.rpartition(".")[2])
            if name or path in level_fields:
                chosen[path] = leave_out_advice(name) if name else _ADVICE
        return chosen

    def _accepted_fields(self, attempt: RequestAttempt, body: JsonObject) -> JsonObject:
        """Set and return an attempt's body, without refused fields unless the caller set them."""
        attempt.body = body
        if attempt.profile.refuses:
            attempt.body, chosen = dict(body), self._chosen(attempt)
            for path in attempt.profile.refuses:
                if path not in chosen:
                    leave_out(attempt.body, path)
        return attempt.body

    def _endpoint(self) -> str:
        """Return the URL for requests, whether or not the base URL ends in the version."""
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
        key = key or ""
        self._take_settings({**self._settings, "api_key": key, "auth_headers": self._auth_headers(key)})

    def _new_transport(self) -> Transport:
        return self._transport_to("")

    def _transport_to(self, path: str) -> Transport:
        """Build a transport to the endpoint, or to a path below it."""
        load_json_packages()
        from pure_agent_loop.llm.http.choice import transport_for

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
        """Send one request, and stream the deltas that the reader decodes."""
        response = None
        try:
            response = await self._post(encode_body(body), options, connections or self._connections)
            reader.is_document = reader.stream_type not in response.headers.get("content-type", "").lower()
            data = b"-"
            while data and not reader.is_done:
                try:
                    data = await response.read()
                except Exception:
                    if not (data := response.buffered()):  # read what arrived before the connection failed
                        raise
                for delta in reader.feed(data) if data else reader.close():
                    yield delta
            if data:
                await drain(response)
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._as_llm_error(error)  # noqa: B904 - its cause is set
        finally:
            if response is not None:
                await response.aclose()
