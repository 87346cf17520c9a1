"""The interface of model clients, which the loop calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import AsyncGeneratorType
from typing import Any, Protocol

from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, JsonObject, Message, Options, Tools
from pure_agent_loop.support.abilities import as_protocol


class BaseLLMClient(ABC):
    """A chat model. Subclass it and implement `chat`; add `chat_stream` to show text as it is written.

    Set `context_window` to the size of the model's window in tokens, if known: the history is kept below it.
    Set `takes_meta` to True to get messages with the key ``meta``, which holds their reasoning; never send
    ``meta`` to a server. A client for several models sets `origin` to a different string per model: fields
    that a server adds to its responses are sent back only while `origin` is the same. Set `takes_timeouts` to
    True to get a run's timeouts as the option ``timeouts`` and apply them yourself. They are the maximum
    seconds until a response begins, and between two of its pieces; None means no limit. Set
    `takes_server_tools` to True to get the option ``server_tools`` with those of the agent's tools that the
    server runs, in the shape of its protocol.
    """

    takes_meta: bool = False
    takes_server_tools: bool = False
    context_window: int | None = None

    @abstractmethod
    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """Answer a conversation.

        Args:
            messages: The history in the chat-completions shape, system message first.
            tools: Tool schemas in the chat-completions shape, or None.
            kwargs: Request options such as ``temperature``; ignore unknown ones.

        Raises:
            LLMError: The request failed; `kind` decides whether it is retried.
        """

    async def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the response to a conversation. Same arguments and errors as `chat`.

        One delta must carry a `finish_reason`: a response without one counts as cut off. The default
        yields the response of `chat` as one delta.
        """
        yield (await self.chat(messages, tools, **kwargs)).to_delta()

    async def aclose(self) -> None:  # noqa: B027 - a client without resources need not implement it
        """Close connections and processes. The default does nothing."""


class StreamingClient(BaseLLMClient):
    """A chat model that streams. Subclass it and implement `chat_stream`; its `chat` collects the stream."""

    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """Return the whole response. See `BaseLLMClient.chat`."""
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    @abstractmethod
    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the response to a conversation. See `BaseLLMClient.chat_stream`."""


class ChatModel(Protocol):
    """Minimal client: any object with an async `chat`, subclass or not."""

    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """See `BaseLLMClient.chat`."""


class Streams(Protocol):
    """A client that can stream its response."""

    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """See `BaseLLMClient.chat_stream`."""


class Closes(Protocol):
    """A client, or a stream, that holds resources."""

    async def aclose(self) -> None:
        """Release the resources."""


def profile_of(client: object) -> Profile | None:
    """Return a client's profile; None if it has none."""
    profile = getattr(client, "profile", None)
    return profile if isinstance(profile, Profile) else None


class TracksToolFailures(Protocol):
    """A client that is notified of bugs in tools, such as a test client."""

    def tool_failed(self, name: str, error: BaseException) -> None:
        """Receive an unexpected exception raised by a tool's function."""


class GivesLikelihoods(Protocol):
    """A client that can tell whether its server returns token likelihoods."""

    async def gives_likelihoods(self) -> bool:
        """Return True if the server returns token likelihoods, even with constrained output."""


class BecomesReady(Protocol):
    """A client that chooses its model at the first request."""

    async def become_ready(self) -> Sequence[str]:
        """Choose a model once, and return the notices about the choice."""


class Prepares(Protocol):
    """A client that loads what requests need, such as its key, before the first one."""

    def prepare(self) -> None:
        """Load what requests need, once. Thread-safe; raises `ConfigError`."""


class FindsWindow(Protocol):
    """A client that can query its server for the context window."""

    async def find_context_window(self) -> int | None:
        """Query the server; afterwards `context_window` holds the result."""


class CountsTokens(Protocol):
    """A client whose server counts the tokens in a request."""

    async def count_tokens(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> int:
        """Return the number of input tokens. Arguments and errors are those of `BaseLLMClient.chat`."""


class GroupsModels(Protocol):
    """A client that combines `clients` for several models, such as `Fallback`."""

    def with_each(self, wrap: Callable[[ChatModel], ChatModel]) -> ChatModel:
        """Return the same group with each client wrapped."""


class ShowsRequest(Protocol):
    """A client that can build a request without sending it."""

    def request_body(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        stream: bool,
    ) -> JsonObject | None:
        """Return the body of a request; None if it cannot be built."""


def model_of(client: object) -> str:
    """Return the name of a client's model; empty if it has none."""
    return str(getattr(client, "model", None) or "")


def origin_of(client: object) -> str:
    """Return the name of a client's server and model. Fields that they add are sent back to no others."""
    origin = getattr(client, "origin", None)
    if isinstance(origin, str) and origin:
        return origin
    return f"{type(client).__module__}.{type(client).__qualname__} {model_of(client)}"


def is_on_this_machine(client: object) -> bool:
    """Return True if the `base_url` of the client, or of a client in a group, points to this machine."""
    inner = getattr(client, "inner", client)
    clients = getattr(inner, "clients", None)
    return (
        any(map(is_on_this_machine, clients)) if clients else is_loopback(str(getattr(inner, "base_url", "")))
    )


def takes_server_tools(client: object) -> bool:
    """Return True if a client, or each client of a group, takes the option ``server_tools``."""
    clients = getattr(client, "clients", None)
    return all(map(takes_server_tools, clients)) if clients else getattr(client, "takes_server_tools", False)


def with_server_tools(tools: Tools | None, options: Options) -> list[JsonObject] | None:
    """Return the tools of a request, followed by the tools in the option ``server_tools``."""
    more = options.get("server_tools")
    return [*(tools or ()), *more] if more else tools


def takes_meta(client: object) -> bool:
    """Return True if a client takes messages with `meta`; see `BaseLLMClient`."""
    return bool(getattr(client, "takes_meta", False))


def thinks_in_text(client: object) -> bool:
    """Return True if ``<think>`` tags in a client's text hold reasoning; False if a separate field does."""
    return bool(getattr(client, "thinks_in_text", True))


def window_known_to(client: object) -> int | None:
    """Return the context window in tokens if it is known without a query to the client's server."""
    window = getattr(client, "context_window", None)
    return window if type(window) is int and window > 0 else None


async def close_client(client: object) -> None:
    """Close a client if it has `aclose`."""
    closing = as_protocol(client, Closes)
    if closing is not None:
        await closing.aclose()


def stream_of(
    client: ChatModel,
    messages: list[Message],
    tools: Sequence[JsonObject] | None,
    options: JsonObject,
) -> AsyncGenerator[Delta, None]:
    """Stream from any client, even if it only has `chat`. Closing this stream closes the client's stream."""
    schemas = list(tools) if tools else None
    chat_stream = getattr(client, "chat_stream", None)
    if not callable(chat_stream):
        return _single_delta(client, messages, schemas, options)
    deltas: AsyncIterator[Delta] = chat_stream(messages, schemas, **options)
    return deltas if isinstance(deltas, AsyncGeneratorType) else _with_close(deltas)


async def _single_delta(
    client: ChatModel,
    messages: list[Message],
    tools: Tools | None,
    options: JsonObject,
) -> AsyncGenerator[Delta, None]:
    yield (await client.chat(messages, tools, **options)).to_delta()


async def _with_close(deltas: AsyncIterator[Delta]) -> AsyncGenerator[Delta, None]:
    try:
        async for delta in deltas:
            yield delta
    finally:
        await close_client(deltas)
