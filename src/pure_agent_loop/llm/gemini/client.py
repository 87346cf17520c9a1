"""Client for Google's Gemini API."""

from __future__ import annotations

import hashlib
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.gemini.request import OPTIONS, GeminiModel, GeminiWriter
from pure_agent_loop.llm.gemini.stream import GeminiReader
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.llm.learning import RequestAttempt
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.llm.values import Delta, JsonObject
from pure_agent_loop.support.language import model_text

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import Transport

_PROFILE = Profile("Gemini", thinking={}, control_tokens=())
MAX_MALFORMED = 100  # maximum number of malformed responses to remember until their requests are repeated


class GeminiClient(ProtocolClient):
    """A Gemini model that uses Google's own protocol.

    Thought signatures stay in the history, each with its part, and are sent back to the same model only.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``GEMINI_API_KEY``, else ``GOOGLE_API_KEY``; both are sent only to
            Google or to ``GEMINI_BASE_URL``. Not needed for servers on this machine.
        base_url: The server's URL; default ``GEMINI_BASE_URL``, else Google. ``/v1beta`` is added.
        thinking_level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.
        settings: ``prepared``, ``timeout`` and ``default_headers`` of `ProtocolClient`.

    Raises:
        ConfigError: An argument is invalid, or the model does not have the thinking level. A missing key is
            reported by the first request.
    """

    default_url = "https://generativelanguage.googleapis.com"
    url_variable = "GEMINI_BASE_URL"
    key_variable = "GEMINI_API_KEY"
    other_key_variables = ("GOOGLE_API_KEY",)
    own_host = "googleapis.com"
    _option_names = OPTIONS
    path = "/models/"
    _window_field = "inputTokenLimit"

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(model, api_key, base_url, thinking_level, **settings)
        kind = GeminiModel(self.model)
        kind.thinking_config(thinking_level)
        # Typed answers are constrained output, or calls before Gemini 3: those models do not allow
        # constrained output together with tools.
        self.profile = replace(_PROFILE, output_mode="native" if kind.is_3 else "tool")
        self._whole = Connections(self._whole_transport, self._current_key)
        # Why a response was malformed, by the digest of its request's contents.
        self._malformed: dict[str, str] = {}

    def _body(self, attempt: RequestAttempt) -> JsonObject:
        writer = GeminiWriter(self.model, self.thinking_level, self.origin, self._histories)
        tools = with_server_tools(attempt.tools, attempt.options)
        return self._accepted_fields(attempt, writer.write(attempt.messages, tools, attempt.options))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; those in use are closed after their responses."""
        await super().aclose()
        await self._whole.aclose()

    def _endpoint(self) -> str:
        base = self.base_url.rstrip("/")
        version = "" if base.endswith(("/v1", "/v1beta", "/v1alpha")) else "/v1beta"
        return f"{base}{version}{self.path}{urllib.parse.quote(self.model.removeprefix('models/'))}"

    def _model_address(self) -> str:
        return str(self._settings["endpoint"])

    def _auth_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def _new_transport(self) -> Transport:
        return self._transport_to(":streamGenerateContent")

    def _whole_transport(self) -> Transport:
        return self._transport_to(":generateContent")

    async def _send(self, attempt: RequestAttempt) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response.

        After a malformed response, the next request with the same contents tells the model about the mistake.
        """
        body, stream, options = self._body(attempt), attempt.stream, attempt.options
        contents: list[JsonObject] = body["contents"]
        why = self._malformed.pop(_digest(contents), "") if self._malformed else ""
        if why:
            words = {"text": model_text("malformed_response", why=why)}
            body["contents"] = [*contents[:-1], {**contents[-1], "parts": [*contents[-1]["parts"], words]}]
        connections = self._connections if stream else self._whole
        if stream:
            options = {**options, "extra_query": {"alt": "sse", **(options.get("extra_query") or {})}}
        reader = GeminiReader()
        try:
            async with aclosing(self._exchange(body, reader, options, connections)) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            if reader.malformed:
                if len(self._malformed) >= MAX_MALFORMED:
                    del self._malformed[next(iter(self._malformed))]
                self._malformed[_digest(contents)] = reader.malformed


def _digest(contents: Any) -> str:
    return hashlib.sha256(encode_body(contents)).hexdigest()
