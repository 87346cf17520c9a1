"""Any object with ``chat_stream`` as a model: it may yield text, deltas, or chunks of the protocol."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import (
    BaseLLMClient,
    ChatModel,
    Streams,
    close_client,
    model_of,
    takes_meta,
    window_known_to,
)
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, get
from pure_agent_loop.llm.wire import parse_chunk
from pure_agent_loop.support.abilities import able


def as_model(provider: Any, model: str | None = None) -> ChatModel:
    """A client for the loop.

    Args:
        provider: A client of this package, or an object with an async ``chat(messages, tools, **options)``,
            or with a ``chat_stream`` of the same arguments that is an async iterator.
        model: A model's name, sent as the option ``model`` with each request.

    Raises:
        ConfigError: It has neither.
    """
    if isinstance(provider, BaseLLMClient) and model is None:
        return provider
    if able(provider, Streams):
        return StreamingProvider(provider, model)
    if able(provider, ChatModel):
        return _OneAnswer(provider, model)
    raise ConfigError(
        f"provider must have a method chat_stream(messages, tools, **options) or chat(...); "
        f"{type(provider).__name__} has neither."
    )


class StreamingProvider(BaseLLMClient):
    """Drives the loop with an object that streams in its own way.

    Args:
        model: A model's name, sent as the option ``model`` with each request; None to send none.
    """

    def __init__(self, provider: Any, model: str | None = None) -> None:
        self._provider = provider
        self._options = {} if model is None else {"model": model}
        self.model = model or model_of(provider) or type(provider).__name__
        self.takes_meta = takes_meta(provider)
        self.context_window = window_known_to(provider)

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """The streamed answer, whole."""
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """The deltas of what the provider yields; one that never says why it ended has ended well."""
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
        """Let the provider give back what it holds."""
        await close_client(self._provider)


class _OneAnswer(StreamingProvider):
    """The same for an object that only has ``chat``."""

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
    """One thing that a provider yielded.

    Args:
        item: Text, a `Delta`, an `LLMResponse`, a chunk of the protocol, or its delta.

    Raises:
        LLMError: It is something else.
    """
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
        "content": get(item, "text") if content is None else content,
        "tool_calls": get(item, "tool_calls"),
        "reasoning_content": get(item, "reasoning_content"),
    }
    reason, usage = get(item, "finish_reason"), get(item, "usage")
    if reason is None and usage is None and not any(each is not None for each in delta.values()):
        raise LLMError(
            f"chat_stream() yielded {item!r:.80}. Yield text, Delta(...), or chunks of the chat protocol.",
            kind="bad_request",
        )
    return parse_chunk({"choices": [{"delta": delta, "finish_reason": reason}], "usage": usage})
