"""Client for servers with OpenAI's Responses protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.profiles import Profile, profile_for
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.llm.responses.request import ENCRYPTED, ResponsesWriter
from pure_agent_loop.llm.responses.stream import ResponsesReader
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.text import shorten

_PROFILE = Profile("OpenAI Responses", control_tokens=(), output_mode="native")


class ResponsesClient(ProtocolClient):
    """A model behind OpenAI's Responses protocol.

    The server stores nothing (``store=False``): reasoning comes back encrypted, stays in the history, and is
    sent with each step to the same model only.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``OPENAI_API_KEY``, which is sent only to OpenAI or to
            ``OPENAI_BASE_URL``. Not needed for servers on this machine.
        base_url: The server's URL; default ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``; None for the model's default.
        settings: ``prepared``, ``timeout`` and ``default_headers`` of `ProtocolClient`.

    Raises:
        ConfigError: An argument is invalid, or there is no key. With ``prepared=False``, the first request
            raises for a missing key.
    """

    profile = _PROFILE
    default_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    key_variable = "OPENAI_API_KEY"
    own_host = "openai.com"
    path = "/responses"

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(model, api_key, base_url, thinking_level, **settings)
        self._encrypts = True
        self.context_window = profile_for(self.default_url, self.model).window

    def _endpoint(self) -> str:
        return f"{self.base_url.rstrip('/')}{self.path}"

    def request_body(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any]:
        """Build the body of a request; see `ShowsRequest`."""
        writer = ResponsesWriter(self.model, self.thinking_level, self.origin, self._encrypts)
        return writer.write(messages, tools, options, stream)

    async def _ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: dict[str, Any],
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response; repeat it for a model that cannot encrypt its reasoning."""
        while True:
            body = self.request_body(messages, tools, options, stream)
            try:
                async with aclosing(self._exchange(body, ResponsesReader(), options)) as deltas:
                    async for delta in deltas:
                        yield delta
            except LLMError as error:
                if not self._cannot_encrypt(body, error):
                    raise
                self._encrypts = False
                details = shorten(error.said, 200)
                notice = f"From now on no reasoning is kept: the server cannot encrypt it ({details})."
            else:
                return
            yield Delta(notice=notice)

    def _cannot_encrypt(self, body: Mapping[str, Any], error: LLMError) -> bool:
        """Return True for a refusal of encrypted reasoning."""
        is_refusal = error.kind == "bad_request" and "encrypted" in error.said.lower()
        return is_refusal and self._encrypts and ENCRYPTED in body.get("include", ())
