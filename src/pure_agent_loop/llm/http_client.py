"""Base of the clients that send requests to a server: key, connections, and errors without secrets."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.llm.key_file import KeyFile
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, JsonObject, Message, Options, Tools
from pure_agent_loop.support.failures import current_redactor
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.portal import close_at_exit
from pure_agent_loop.support.secrets.redaction import (
    Redactor,
    client_secrets,
    named_secrets,
    secret_fields,
    shown_url,
)
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.variables import origin_of

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import HttpResponse, Transport

PROBE_SECONDS = 2.0
LOCAL_SECONDS = 3600.0  # a CPU may need many minutes to read a long prompt, and a retry would start over
# Stands for a secret that is not known yet, so that runs redact even their first response.
_SENT_LATER = "a key that the first request shows"


class HttpClient(BaseLLMClient):
    """A model on a server. A subclass sets `model` and `base_url`, and calls `_connect` when constructed."""

    takes_meta = True
    takes_server_tools = True
    thinks_in_text = True
    model: str
    base_url: str
    _announced_to: Redactor | None = None  # redactor of the run that already has this client's secrets
    _key_file: KeyFile | None = None
    _secrets: dict[str, str] | None = None

    def _connect(self, *, prepared: bool) -> None:
        """Set up the connections; if `prepared`, build a transport now, outside of any request's timeout.

        Without a key, the transport is built for the first request, so that modules can create clients before
        a key is set.
        """
        self._connections = Connections(self._new_transport, self._current_key)
        if prepared and self.has_key:
            self.prepare()
        close_at_exit(self)

    def _take_settings(self, settings: JsonObject) -> None:
        """Use settings for transports. Their secrets are redacted in errors."""
        self._settings = settings
        secrets = client_secrets(settings)
        key, http_client = settings["api_key"], settings.get("http_client")
        if not key or callable(key) or http_client is not None:
            secrets["sent later"] = _SENT_LATER
        self._take_secrets(secrets)

    def _take_secrets(self, secrets: dict[str, str]) -> None:
        """Register secrets for redaction in errors, and in the run that is using this client."""
        if secrets != self._secrets:
            self._secrets, self._redactor = secrets, Redactor(secrets, env={}, shapes=False)
        if (redactor := current_redactor()) is not None:
            redactor.learn_clients({value: name for name, value in secrets.items()})

    def _announce(self, options: Options) -> None:
        """Register a request's secrets for redaction in the run that sends it.

        That run may not have created this client.

        Args:
            options: The request's options. Headers that were sent may also be passed as ``extra_headers``:
                they may hold a key that a function returned.
        """
        if (redactor := current_redactor()) is not self._announced_to and redactor is not None:
            redactor.learn_clients({value: name for name, value in self.secrets.items()})
            self._announced_to = redactor
        if "extra_headers" in options or "extra_query" in options:
            extra = [secret_fields(options.get(name)) for name in ("extra_headers", "extra_query")]
            sent = (self.secrets, *extra)
            found = {value: name for secrets in sent for name, value in secrets.items()}
            if len(found) > len(set(self.secrets.values())):
                self._take_secrets(named_secrets((name, value) for value, name in found.items()))

    async def _post(self, body: bytes, options: Options, connections: Connections) -> HttpResponse:
        """Send a request, and return its response before the body is read."""
        transport = await connections.transport()
        self._announce(options)
        response = await transport.post(body, options)
        if response.sent is not None:
            self._announce({"extra_headers": response.sent})
        return response

    @abstractmethod
    def _take_key(self, api_key: str | None) -> None:
        """Use a key for new transports; if it is None, use the key from the environment."""

    def _current_key(self) -> object:
        """Return the key; read its file again if that has changed, or the environment if there is no key."""
        if self._key_file is not None and (key := self._key_file.read()) != self._settings["api_key"]:
            self._take_key(key)
        elif not self._settings["api_key"] and not self.has_key:
            self._take_key(None)
        return self._settings["api_key"]

    @property
    def secrets(self) -> dict[str, str]:
        """Secrets of the next request by name, including its key."""
        self._current_key()
        return self._secrets or {}

    @property
    def has_key(self) -> bool:
        """True if there is a key; otherwise the first request reads the environment again."""
        return bool(self._settings["api_key"])

    def prepare(self) -> None:
        """Load modules and build a transport for the first request. Thread-safe; raises `ConfigError`."""
        self._connections.prepare()

    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """Return the whole response. Same arguments and errors as `chat_stream`."""
        async with aclosing(self._ask(messages, tools, kwargs, stream=False)) as deltas:
            return await assembled(deltas, splits_thinking=self.thinks_in_text)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a connection in use closes after its response."""
        await self._connections.aclose()

    @abstractmethod
    def _ask(
        self, messages: list[Message], tools: Tools | None, options: JsonObject, stream: bool
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response."""

    @abstractmethod
    def _new_transport(self) -> Transport:
        """Build a transport for requests."""

    def _as_llm_error(self, error: Exception) -> Exception:
        """Convert a request error to `LLMError`, and redact secrets that a server repeated."""
        from pure_agent_loop.llm.failures import redacted_error

        answered = getattr(getattr(error, "response", None), "request", None)
        if answered is not None:
            self._announce({"extra_headers": answered.headers})
        url = shown_url(self.base_url)
        failure = redacted_error(error, self._redactor, url, self.model)
        if isinstance(failure, LLMError):
            failure.about = {"url": url, "model": self.model, "key": self._key_origin()}
        return failure

    def _key_origin(self) -> str:
        """Return the variable or file that the key is from; empty if unknown."""
        if self._key_file is not None:
            return str(self._key_file.path)
        key = self._settings["api_key"]
        name, path = origin_of(key) if isinstance(key, str) and key else ("", "")
        if path:
            return notice("failures.key_file", name=name, path=path)
        return notice("failures.key_variable", name=name) if name else ""


def load_json_packages() -> None:
    """Import the JSON packages ahead of a request, because the import is slow."""
    for name in ("jiter", "pydantic_core"):
        importlib.import_module(name)


def encode_body(body: JsonObject) -> bytes:
    """Encode a request as JSON, even with lone surrogates in its messages."""
    import pydantic_core as core

    try:
        return core.to_json(body, inf_nan_mode="null")
    except (core.PydanticSerializationError, UnicodeEncodeError, ValueError):
        return core.to_json(to_jsonable(body))  # for lone surrogates, and objects without a JSON form


def checked_key(key: object) -> Any:
    """Return the key, stripped of white space. Errors never show the key."""
    if not isinstance(key, str):
        return key  # the SDK also accepts a function
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError("api_key contains invalid characters. Check for extra text pasted with the key.")
    return key
