"""Base of the clients that send requests to a server: key, connections, and errors without secrets."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.failures import current_redactor
from pure_agent_loop.support.portal import close_at_exit
from pure_agent_loop.support.secrets.redaction import (
    Redactor,
    client_secrets,
    named_secrets,
    secret_fields,
    secrets_of,
    shown_url,
)
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import Transport
    from pure_agent_loop.llm.message_types import JsonObject, Message, Options, Tools

PROBE_SECONDS = 2.0
LOCAL_SECONDS = 3600.0  # a CPU may need many minutes to read a long prompt, and a retry would start over
_SENT_LATER = "a key that the first request shows"  # so that runs redact from their first response
_JSON_PACKAGES = ("jiter", "pydantic_core")


class HttpClient(BaseLLMClient):
    """A model on a server. A subclass sets `model` and `base_url`, and calls `_connect` when it is built."""

    takes_meta = True
    takes_server_tools = True
    thinks_in_text = True
    model: str
    base_url: str
    _announced_to: Redactor | None = None  # the run that has this client's secrets

    def _connect(self, *, prepared: bool) -> None:
        """Set up the connections; if `prepared`, at once, so that it does not use up a request's timeout."""
        self._connections = Connections(self._new_transport)
        if prepared:
            self.prepare()
        close_at_exit(self)

    def _take_settings(self, settings: JsonObject) -> None:
        """Use settings for transports. Their secrets are redacted in errors."""
        self._settings = settings
        secrets = client_secrets(settings)
        if callable(settings.get("api_key")) or settings.get("http_client") is not None:
            secrets["sent later"] = _SENT_LATER
        self._take_secrets(secrets)

    def _take_secrets(self, secrets: dict[str, str]) -> None:
        """Redact secrets in errors, and in the run that uses this client now."""
        if secrets != getattr(self, "secrets", None):
            self.secrets, self._redactor = secrets, Redactor(secrets, env={}, shapes=False)
        if (redactor := current_redactor()) is not None:
            redactor.learn_clients(secrets_of(self))

    def _announce(self, options: Options) -> None:
        """Redact the secrets of a request in the run that sends it, however the run came by this client."""
        if (redactor := current_redactor()) is not self._announced_to and redactor is not None:
            redactor.learn_clients(secrets_of(self))
            self._announced_to = redactor
        if "extra_headers" in options or "extra_query" in options:
            self._learn_sent(options.get("extra_headers"))
            self._learn_sent(options.get("extra_query"))

    def _learn_sent(self, fields: Any) -> None:
        """Redact the secrets in fields that a request carried, such as headers with a key from a function."""
        found = {value: name for name, value in [*self.secrets.items(), *secret_fields(fields).items()]}
        if len(found) > len(set(self.secrets.values())):
            self._take_secrets(named_secrets((name, value) for value, name in found.items()))

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
        """Close the connections of the running event loop; one in use closes after its response."""
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
            self._learn_sent(answered.headers)
        return redacted_error(error, self._redactor, shown_url(self.base_url), self.model)


def load_json_packages() -> None:
    """Import the packages that read and write JSON before a request, because the import is slow."""
    for name in _JSON_PACKAGES:
        importlib.import_module(name)


def encode_body(body: JsonObject) -> bytes:
    """Encode a request as JSON, even with lone surrogates in its messages."""
    import pydantic_core as core

    try:
        return core.to_json(body, inf_nan_mode="null")
    except (core.PydanticSerializationError, UnicodeEncodeError, ValueError):
        return core.to_json(to_jsonable(body))  # a lone surrogate, or an object without a JSON form


def checked_key(key: object) -> Any:
    """Return the key, stripped of white space. Errors never show the key."""
    if not isinstance(key, str):
        return key  # the SDK also accepts a function
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError("api_key contains invalid characters. Check for extra text pasted with the key.")
    return key
