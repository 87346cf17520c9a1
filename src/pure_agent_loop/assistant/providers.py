"""Adapt any object with ``chat_stream`` or ``chat`` to a model client."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import (
    BaseLLMClient,
    ChatModel,
    StreamingClient,
    Streams,
    close_client,
    model_of,
    origin_of,
    takes_meta,
    window_known_to,
)
from pure_agent_loop.llm.extra import MESSAGE_FIELDS, extra_of
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, get
from pure_agent_loop.support.abilities import as_protocol


def as_model(provider: Any, model: str | None = None) -> ChatModel:
    """Return a model client for a provider.

    Args:
        provider: A client of this package, or an object with an async method ``chat(messages, tools,
            **options)``, or with a method ``chat_stream`` that takes the same arguments and returns an async
            iterator.
        model: Model name, sent as the option ``model`` with each request.

    Raises:
        ConfigError: The provider has neither method.
    """
    if isinstance(provider, BaseLLMClient) and model is None:
        return provider
    if as_protocol(provider, Streams):
        return StreamingProvider(provider, model)
    if as_protocol(provider, ChatModel):
        return _NonStreamingProvider(provider, model)
    raise ConfigError(
        f"provider must have a method chat_stream(messages, tools, **options) or chat(...); "
        f"{type(provider).__name__} has neither."
    )


class StreamingProvider(StreamingClient):
    """Model client for an object with ``chat_stream``, which may yield text, deltas or protocol chunks.

    Args:
        model: Model name, sent as the option ``model`` with each request; None to send none.
    """

    def __init__(self, provider: Any, model: str | None = None) -> None:
        self._provider = provider
        self._options = {} if model is None else {"model": model}
        self.model = model or model_of(provider) or type(provider).__name__
        self.takes_meta = takes_meta(provider)
        self.origin = f"{origin_of(provider)} {model or ''}".rstrip()
        self.context_window = window_known_to(provider)

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Yield the provider's deltas; a stream without a finish reason counts as complete."""
        items = self._provider.chat_stream(messages, tools, **{**kwargs, **self._options})
        if inspect.isawaitable(items):
            items = await items
        ended = called = False
        try:
            async for item in items:
                delta = as_delta(item)
                ended, called = ended or bool(delta.finish_reason), called or bool(delta.tool_calls)
                yield delta
        finally:
            await close_client(items)
        if not ended:
            yield Delta(finish_reason="tool_calls" if called else "stop")

    async def aclose(self) -> None:
        """Close the provider."""
        await close_client(self._provider)


class _NonStreamingProvider(StreamingProvider):
    """Model client for an object with only ``chat``."""

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        response: LLMResponse = await self._provider.chat(messages, tools, **{**kwargs, **self._options})
        return response

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        yield (await self.chat(messages, tools, **kwargs)).to_delta()


def as_delta(item: Any) -> Delta:
    """Convert an item yielded by a provider.

    Args:
        item: Text, a `Delta`, an `LLMResponse`, a protocol chunk, or a chunk's delta.

    Raises:
        LLMError: The item is none of these.
    """
    from pure_agent_loop.llm.completions import parse_chunk  # imported lazily: only custom clients need it

    if isinstance(item, Delta):
        return item
    if item is None or isinstance(item, str):
        return Delta(text=item or "")
    if isinstance(item, LLMResponse):
        return item.to_delta()
    if get(item, "choices") is not None:
        return parse_chunk(item)
    content = get(item, "content")
    delta = {
        **(extra_of(item, MESSAGE_FIELDS | {"text", "finish_reason", "usage"}) or {}),
        "content": get(item, "text") if content is None else content,
        "tool_calls": get(item, "tool_calls"),
        "reasoning_content": get(item, "reasoning_content"),
    }
    reason, usage = get(item, "finish_reason"), get(item, "usage")
    if reason is None and usage is None and not any(value is not None for value in delta.values()):
        raise LLMError(
            f"chat_stream() yielded {item!r:.80}. Yield text, Delta(...), or chunks of the chat protocol.",
            kind="bad_request",
        )
    return parse_chunk({"choices": [{"delta": delta, "finish_reason": reason}], "usage": usage})
