"""Auxiliary requests for one response, and their total usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage

# Disables thinking in templates that have it: the next token has to be the answer. Others ignore the field.
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_PASSED_OPTIONS = ("extra_headers", "extra_query", "timeout")


class AuxiliaryRequests:
    """Sends auxiliary requests for one response.

    Args:
        options: The caller's request options; only headers, query and timeout are passed on.
    """

    def __init__(self, client: ChatModel, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = {name: options[name] for name in _PASSED_OPTIONS if name in options}
        self.usage: TokenUsage | None = None
        self.sent = 0

    async def ask(self, messages: Sequence[Message], schema: Mapping[str, Any], **fields: Any) -> LLMResponse:
        """Send a request constrained by a JSON Schema, at temperature 0.

        Raises:
            LLMError: The request failed.
        """
        self.sent += 1
        response_format = {"type": "json_schema", "json_schema": {"name": "choice", "schema": dict(schema)}}
        response = await self._client.chat(
            list(messages),
            None,
            **self._options,
            temperature=0,
            response_format=response_format,
            extra_body=_NO_THINKING,
            **fields,
        )
        self.count(response.usage)
        return response

    def count(self, usage: TokenUsage | None) -> None:
        """Add the usage of a request."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
