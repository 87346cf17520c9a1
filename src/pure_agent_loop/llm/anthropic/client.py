"""Client for servers with Anthropic's Messages protocol, over plain HTTP."""

from __future__ import annotations

import importlib
import os
import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.addresses import checked_url, is_loopback
from pure_agent_loop.llm.anthropic.families import ClaudeFamily, family_for
from pure_agent_loop.llm.anthropic.request import MessagesRequest, RequestWriter
from pure_agent_loop.llm.anthropic.stream import MessagesReader
from pure_agent_loop.llm.base import StreamingClient
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.llm.openai_client import JSON_PACKAGES, LOCAL_SECONDS, checked_key, encode_body
from pure_agent_loop.llm.profiles import Profile, check_thinking_level
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.support.portal import close_at_exit
from pure_agent_loop.support.secrets.redaction import Redactor, client_secrets, shown_url

if TYPE_CHECKING:
    from pure_agent_loop.llm.http import Transport

DEFAULT_URL = "https://api.anthropic.com"
MAX_CONTINUATIONS = 10  # of one response that the server paused
# Closed models: no text of theirs is read as a control token, and typed answers are constrained.
_PROFILE = Profile("Anthropic Messages", control_tokens=(), output_mode="native")


class AnthropicClient(StreamingClient):
    """A Claude model, or another model behind the Messages protocol.

    Thinking, citations and results of server tools stay in the history, and go back to the same model only.
    What is the same in each request is marked for the prompt cache.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``ANTHROPIC_API_KEY``, which is sent only to Anthropic or to
            ``ANTHROPIC_BASE_URL``. Not needed for servers on this machine.
        base_url: The server's URL; default ``ANTHROPIC_BASE_URL``, else Anthropic. ``/v1/messages`` is added.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``; None for the model's default.
        family: What the model accepts; if None, chosen by its name.
        caches: Whether to place cache marks.
        prepared: Whether to load everything for requests now; else call `prepare` before the first request.
        timeout: Seconds to wait for the next piece of a response; None for the default.
        default_headers: Headers of every request.

    Raises:
        ConfigError: An argument is invalid, or the model has no such thinking level, or there is no key. With
            ``prepared=False``, the first request raises for a missing key.
    """

    takes_meta = True
    profile = _PROFILE

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        family: ClaudeFamily | None = None,
        caches: bool = True,
        prepared: bool = True,
        timeout: float | None = None,
        default_headers: Mapping[str, str] | None = None,
    ) -> None:
        if thinking_level is not None:
            check_thinking_level(thinking_level)
        self.model = str(model)
        self.thinking_level = thinking_level
        self.family = family or family_for(self.model)
        self.family.thinking_fields(thinking_level)
        self.base_url = checked_url(str(base_url or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_URL))
        self.origin = f"{shown_url(self.base_url.rstrip('/'))} {model}"
        self._caches = caches
        self._takes_variable = base_url is None or is_anthropic(self.base_url)
        self._settings: dict[str, Any] = {
            "base_url": self.base_url,
            "max_retries": 0,
            "endpoint": _endpoint(self.base_url),
            "default_headers": dict(default_headers or {}),
        }
        if timeout is not None or is_loopback(self.base_url):
            self._settings["timeout"] = LOCAL_SECONDS if timeout is None else timeout
        self._take_key(api_key)
        self._left_out: set[str] = set()  # digests of responses whose thinking was left out, with a notice
        self._connections = Connections(partial(self._transport_to, ""))
        if prepared:
            self.prepare()
        close_at_exit(self)

    @property
    def has_key(self) -> bool:
        """True if there is a key. Without one, the first request reads the environment again."""
        return bool(self._settings["api_key"])

    def prepare(self) -> None:
        """Load modules and build a transport for the first request. Thread-safe; raises `ConfigError`."""
        self._connections.prepare()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; one in use closes after its response."""
        await self._connections.aclose()

    def _take_key(self, api_key: str | None) -> None:
        key = checked_key(api_key) or (
            checked_key(os.environ.get("ANTHROPIC_API_KEY")) if self._takes_variable else ""
        )
        key = key or ("not-needed" if is_loopback(self.base_url) else "")
        self._settings["api_key"] = key
        self._settings["auth_headers"] = {"x-api-key": key, "anthropic-version": self.family.version}
        self.secrets = client_secrets(self._settings)
        self._redactor = Redactor(self.secrets, env={}, shapes=False)

    def _transport_to(self, path: str) -> Transport:
        """Build a transport to the endpoint, or to a path below it."""
        for name in JSON_PACKAGES:  # slow imports, so not inside a request
            importlib.import_module(name)
        from pure_agent_loop.llm.http.choice import transport_for

        if not self.has_key:
            self._take_key(None)
        if not self.has_key:
            raise ConfigError(
                f"No API key for {shown_url(self.base_url)}. Pass api_key=..., or set ANTHROPIC_API_KEY, "
                "which is sent only to Anthropic or to ANTHROPIC_BASE_URL."
            )
        return transport_for({**self._settings, "endpoint": self._settings["endpoint"] + path})

    def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response. See `BaseLLMClient.chat_stream`.

        Args:
            messages: The history in the chat-completions shape.
            tools: Tool schemas in that shape, or server tools of the Messages protocol.
            kwargs: Options of chat completions or of the Messages protocol; ``betas`` for its beta header.

        Raises:
            ConfigError: An option has no counterpart, or the model rejects it. Nothing was sent.
            LLMError: The request failed.
        """
        return self._ask(messages, tools, kwargs, stream=kwargs.get("stream") is not False)

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Return the whole response. Same arguments and errors as `chat_stream`."""
        async with aclosing(self._ask(messages, tools, kwargs, stream=False)) as deltas:
            return await assembled(deltas)

    def request_body(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any]:
        """Build the body of a request; see `ShowsRequest`."""
        return self._write(messages, tools, options, stream=stream).body

    async def count_tokens(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> int:
        """Return the number of input tokens of a request, counted by the server.

        Raises:
            LLMError: The server has no such endpoint, or the request failed.
        """
        body = self._write(messages, tools, kwargs, stream=False).body
        for name in _NOT_COUNTED:
            body.pop(name, None)
        counter = Connections(partial(self._transport_to, "/count_tokens"))
        try:
            response = await (await counter.transport()).post(encode_body(body), {})
            try:
                data = b""
                while piece := await response.read():
                    data += piece
            finally:
                await response.aclose()
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._translated(error)  # noqa: B904 - its cause is set
        finally:
            await counter.aclose()
        from pure_agent_loop.llm.wire import parse_json

        return int(parse_json(data)["input_tokens"])

    def _write(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        *,
        stream: bool,
    ) -> MessagesRequest:
        writer = RequestWriter(self.model, self.family, self.thinking_level, self.origin, self._caches)
        return writer.write(messages, tools, options, stream)

    async def _ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: dict[str, Any],
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response; continue one that the server paused."""
        request = self._write(messages, tools, options, stream=stream)
        for notice in self._notices(request):
            yield Delta(notice=notice)
        limit_is_ours = request.body["max_tokens"] == self.family.max_output
        blocks: list[dict[str, Any]] = []
        spent: TokenUsage | None = None
        calls = 0
        for _ in range(MAX_CONTINUATIONS):
            reader = MessagesReader(request.prefix, calls)
            async with aclosing(self._exchange(request, reader, options)) as deltas:
                async for delta in deltas:
                    yield delta
            blocks += reader.blocks
            calls = reader.calls
            if reader.stop_reason != "pause_turn":
                break
            spent = _sum(spent, reader.usage)
            paused = {"role": "assistant", "content": reader.blocks}
            request = replace(request, body={**request.body, "messages": [*request.body["messages"], paused]})
        else:
            raise LLMError(
                f"The server paused its response {MAX_CONTINUATIONS} times without an end.", kind="incomplete"
            )
        last = reader.last(blocks)
        if limit_is_ours and last.finish_reason == "length":
            last = last._replace(finish_reason=OUTPUT_LIMIT)
        yield last._replace(usage=_sum(spent, last.usage))

    async def _exchange(
        self, request: MessagesRequest, reader: MessagesReader, options: Mapping[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        """Send one request, and stream what the reader makes of the response."""
        response = None
        try:
            transport = await self._connections.transport()
            response = await transport.post(encode_body(request.body), _with_betas(options, request.betas))
            reader.is_document = "event-stream" not in response.headers.get("content-type", "").lower()
            while not reader.is_done:
                data = await response.read()
                for delta in reader.feed(data) if data else reader.close():
                    yield delta
                if not data:
                    break
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._translated(error)  # noqa: B904 - its cause is set
        finally:
            if response is not None:
                await response.aclose()

    def _notices(self, request: MessagesRequest) -> list[str]:
        """Return a notice for thinking that is left out for the first time."""
        new = set(request.left_out) - self._left_out
        self._left_out |= new
        if not new:
            return []
        notice = (
            f"The thinking of {len(new)} earlier responses is left out: this model accepts it only after the "
            "same system prompt, tools and messages, and these have changed."
        )
        return [notice]

    def _translated(self, error: Exception) -> Exception:
        """Convert an error of a request to `LLMError`, and redact secrets that a server repeated."""
        self._redactor.clean_error(error)
        if isinstance(error, LLMError):
            return error
        from pure_agent_loop.llm.http.errors import translate_error

        translated = translate_error(error, shown_url(self.base_url), self.model)
        if translated is not error:
            self._redactor.clean_error(translated)
            translated.__cause__ = error
        return translated


_NOT_COUNTED = (
    "max_tokens",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "metadata",
    "service_tier",
)


def _sum(first: TokenUsage | None, second: TokenUsage | None) -> TokenUsage | None:
    if first is None or second is None:
        return first or second
    return first + second


def _with_betas(options: Mapping[str, Any], betas: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the options of the transport, with the header for betas."""
    if not betas:
        return options
    headers = dict(options.get("extra_headers") or {})
    name = next((known for known in headers if known.lower() == "anthropic-beta"), "anthropic-beta")
    own = [value.strip() for value in headers.get(name, "").split(",") if value.strip()]
    return {**options, "extra_headers": {**headers, name: ",".join(dict.fromkeys([*own, *betas]))}}


def _endpoint(base_url: str) -> str:
    """Return the URL for messages; ``/v1`` may be part of the base URL or not."""
    base = base_url.rstrip("/")
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def is_anthropic(url: str) -> bool:
    """Return True for a URL of Anthropic."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")
