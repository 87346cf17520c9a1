"""The requests of our own that stand behind one answer, and what they cost together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage

# Templates with a thinking mode must not think where the next token is what we ask about; others ignore it.
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_CALLERS = ("extra_headers", "extra_query", "timeout")


class Asking:
    """Asks a client on behalf of one answer to the loop.

    Args:
        client: The model.
        options: The caller's fields; of these, only headers, query and time limit are passed on.
    """

    def __init__(self, client: ChatModel, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = {name: options[name] for name in _CALLERS if name in options}
        self.usage: TokenUsage | None = None
        self.requests = 0

    async def ask(self, messages: Sequence[Message], schema: Mapping[str, Any], **fields: Any) -> LLMResponse:
        """What the model says under a JSON Schema, at temperature 0.

        Raises:
            LLMError: The request failed.
        """
        self.requests += 1
        wanted = {"type": "json_schema", "json_schema": {"name": "choice", "schema": dict(schema)}}
        said = await self._client.chat(
            list(messages),
            None,
            **self._options,
            temperature=0,
            response_format=wanted,
            extra_body=_NO_THINKING,
            **fields,
        )
        self.count(said.usage)
        return said

    def count(self, usage: TokenUsage | None) -> None:
        """Add what a request took."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
