"""The model port: what a client must do to drive the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Protocol

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta


class BaseLLMClient(ABC):
    """A chat model. Subclass it and write `chat`; add `chat_stream` to show text as it is written.

    Set `context_window` to the tokens of the model's window if you know them: the history is kept below.
    Set `takes_meta` to True to get messages with their key ``meta``, which holds the thinking behind them; it
    must not reach a server.
    """

    takes_meta: bool = False
    context_window: int | None = None

    @abstractmethod
    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Answer a conversation.

        Args:
            messages: The history in the chat-completions shape, system message first.
            tools: Tool schemas in the same protocol's shape, or None.
            kwargs: Request options such as ``temperature``; ignore those you do not know.

        Raises:
            LLMError: The request failed; its `kind` decides whether it is repeated.
        """

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Answer a conversation piece by piece. Takes and raises what `chat` does.

        The last delta, or an earlier one, must carry a `finish_reason`: an answer without one counts
        as cut off. The default yields the answer of `chat` as one delta.
        """
        response = await self.chat(messages, tools, **kwargs)
        yield response.to_delta()

    async def aclose(self) -> None:  # noqa: B027 - a client without resources need not write one
        """Give back connections and processes. The default has none."""


class ChatModel(Protocol):
    """The least a client has to be: an object with an async `chat`, subclass or not."""

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """See `BaseLLMClient.chat`."""
        ...


async def stream_of(
    client: ChatModel,
    messages: list[dict[str, Any]],
    tools: Sequence[dict[str, Any]] | None,
    options: dict[str, Any],
) -> AsyncGenerator[Delta, None]:
    """Stream from any client, also from one that only has `chat`. Closing it closes the client's stream."""
    wanted = list(tools) if tools else None
    chat_stream = getattr(client, "chat_stream", None)
    if chat_stream is None:
        response = await client.chat(messages, wanted, **options)
        yield response.to_delta()
        return
    deltas = chat_stream(messages, wanted, **options)
    try:
        async for delta in deltas:
            yield delta
    finally:
        if hasattr(deltas, "aclose"):
            await deltas.aclose()
