"""The model port: what a client must do to drive the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import AsyncGeneratorType
from typing import Any, Protocol

from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.abilities import able


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


class Streams(Protocol):
    """A client that shows its answer as it is written."""

    def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """See `BaseLLMClient.chat_stream`."""
        ...


class Closes(Protocol):
    """A client, or a stream, that holds something."""

    async def aclose(self) -> None:
        """Give it back."""
        ...


def profile_of(client: object) -> Profile | None:
    """What is known of a client's server; None if it does not say."""
    found = getattr(client, "profile", None)
    return found if isinstance(found, Profile) else None


class GivesLikelihoods(Protocol):
    """A client that knows whether its server says how likely its tokens are."""

    async def gives_likelihoods(self) -> bool:
        """True if it does, also for tokens whose form is prescribed."""
        ...


class FindsWindow(Protocol):
    """A client that can ask its server for the model's window."""

    async def find_context_window(self) -> int | None:
        """Ask; `context_window` says it from then on."""
        ...


class ShowsRequest(Protocol):
    """A client that can say what it would send."""

    def request_body(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any] | None:
        """The body of a request; None if it cannot be said."""
        ...


def model_of(client: object) -> str:
    """The name of a client's model; empty if it has none."""
    return str(getattr(client, "model", None) or "")


def takes_meta(client: object) -> bool:
    """Whether a client gets messages with their thinking; see `BaseLLMClient`."""
    return bool(getattr(client, "takes_meta", False))


def window_known_to(client: object) -> int | None:
    """Tokens of the model's window, as far as a client knows without asking."""
    window = getattr(client, "context_window", None)
    return window if type(window) is int and window > 0 else None


async def close_client(client: object) -> None:
    """Have a client give back what it holds, if it can."""
    closing = able(client, Closes)
    if closing is not None:
        await closing.aclose()


def stream_of(
    client: ChatModel,
    messages: list[dict[str, Any]],
    tools: Sequence[dict[str, Any]] | None,
    options: dict[str, Any],
) -> AsyncGenerator[Delta, None]:
    """Stream from any client, also from one that only has `chat`. Closing it closes the client's stream."""
    wanted = list(tools) if tools else None
    streaming = able(client, Streams)
    if streaming is None:
        return _in_one_piece(client, messages, wanted, options)
    deltas = streaming.chat_stream(messages, wanted, **options)
    return deltas if isinstance(deltas, AsyncGeneratorType) else _closed_after(deltas)


async def _in_one_piece(
    client: ChatModel,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    options: dict[str, Any],
) -> AsyncGenerator[Delta, None]:
    response = await client.chat(messages, tools, **options)
    yield response.to_delta()


async def _closed_after(deltas: AsyncIterator[Delta]) -> AsyncGenerator[Delta, None]:
    try:
        async for delta in deltas:
            yield delta
    finally:
        await close_client(deltas)
