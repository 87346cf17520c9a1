"""Transports over the SDK's HTTP library, used directly (the SDK is slow to import) or through the SDK.

The library's own pool scans all its connections for each request. Here each connection has a separate pool,
and free connections are kept on a stack, which is fast with many concurrent requests.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.addresses import has_proxy, proxy_variables
from pure_agent_loop.llm.bounds import MAX_ERROR_BYTES, MAX_PART_BYTES
from pure_agent_loop.llm.http.bodies import CODINGS, packed_body, read_whole
from pure_agent_loop.llm.http.plain import (
    CONNECTIONS,
    KEPT_SECONDS,
    LARGE,
    MOVED,
    REDIRECTS,
    HttpResponse,
    HttpTimeouts,
    PlainRequest,
    PlainTransport,
    check_seconds,
    moved_to,
    raise_failed,
    redirects_too_often,
)
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options

try:
    import httpx2 as library
except ImportError:  # the SDK before version 3 uses httpx
    import httpx as library  # type: ignore[import-not-found, no-redef, unused-ignore] # one of both

if TYPE_CHECKING:
    from openai import AsyncOpenAI


__all__ = ["DirectTransport", "HttpxResponse", "SdkTransport", "StackedTransport", "library", "tls_for"]

CHUNK_BYTES = 65_536
_ONE = library.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT_SECONDS)
_BODY_PARAMETERS: dict[type, str] = {}


def tls_for(scheme: str) -> ssl.SSLContext:
    """Return the TLS context of the SDK's HTTP library.

    For any scheme but https, return a context that has no certificates and rejects every server: loading the
    system's certificates would take a sixth of the first task's time.
    """
    if scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = library.create_ssl_context()
    if folder := os.environ.get("SSL_CERT_DIR"):  # the library ignores it if SSL_CERT_FILE is set
        context.load_verify_locations(capath=folder)
    return context


class StackedTransport(library.AsyncBaseTransport):
    """Sends each request over a free connection, the most recently used first.

    Args:
        tls: See `tls_for`.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._free: deque[tuple[float, library.AsyncHTTPTransport]] = (
            deque()
        )  # (time released, connection), newest last
        self._broken: list[library.AsyncHTTPTransport] = []
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._is_closed = False

    async def handle_async_request(self, request: library.Request) -> library.Response:
        """See the base class."""
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._free and self._free[0][0] < oldest:
            await self._free.popleft()[1].aclose()
        while self._broken:
            await self._broken.pop().aclose()
        await self._wait_for_slot(request)
        sender = self._free.pop()[1] if self._free else library.AsyncHTTPTransport(self._tls, limits=_ONE)
        release = partial(self._release, sender)
        try:
            response = await sender.handle_async_request(request)
        except BaseException:
            if (unused := release(is_broken=True)) is not None:
                await unused.aclose()
            raise
        assert isinstance(response.stream, library.AsyncByteStream)
        response.stream = _Body(response.stream, release)
        return response

    async def _wait_for_slot(self, request: library.Request) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # returns at once, because a slot is free
            return
        import anyio

        seconds = request.extensions.get("timeout", {}).get("pool")
        try:
            with anyio.fail_after(seconds):  # acquire in this task, so that a cancellation loses no slot
                await self._slots.acquire()
        except TimeoutError as error:
            raise library.PoolTimeout("All connections are in use.") from error

    def _release(
        self, sender: library.AsyncHTTPTransport, *, is_broken: bool
    ) -> library.AsyncHTTPTransport | None:
        self._slots.release()
        if self._is_closed:
            return sender
        if is_broken or _has_more(sender):  # may hold unread bytes: do not reuse
            self._broken.append(sender)
        else:
            self._free.append((asyncio.get_running_loop().time(), sender))
        return None

    async def aclose(self) -> None:
        """See the base class. A connection in use closes when it is released."""
        self._is_closed = True
        while self._free:
            await self._free.pop()[1].aclose()
        while self._broken:
            await self._broken.pop().aclose()


def _has_more(sender: library.AsyncHTTPTransport) -> bool:
    """Return True if bytes follow a response: they would be read as the response to the next request.

    The library has no public API for this; if its internals differ, the result is False.
    """
    for connection in getattr(getattr(sender, "_pool", None), "connections", ()):
        state = getattr(getattr(connection, "_connection", None), "_h11_state", None)
        if state is not None and state.trailing_data[0]:
            return True
    return False


class HttpxResponse:
    """See `HttpResponse`.

    Args:
        response: A response whose body has not been read.
    """

    at_end = False  # unknown
    sent: Mapping[str, str] | None = None

    def __init__(self, response: library.Response) -> None:
        self.response, self.headers = response, response.headers
        stream, is_read = (
            response.stream,
            response.is_stream_consumed,
        )  # True if a user's HTTP client has already read the body
        # Reading the stream directly saves two generators per piece.
        pieces = aiter(stream) if isinstance(stream, _Body) else response.aiter_raw()
        pieces = response.aiter_bytes() if is_read else pieces
        assert isinstance(pieces, AsyncGeneratorType)  # for aclose()
        self._pieces = pieces
        packed = None if is_read else packed_body(response.headers, self._read_raw)
        self.read = self._read_raw if packed is None else packed.read
        """See `HttpResponse`."""

    async def _read_raw(self) -> bytes:
        return await anext(self._pieces, b"")

    def buffered(self) -> bytes:
        """See `HttpResponse`. Return nothing, because the library returns all bytes before it fails."""
        return b""

    async def aclose(self) -> None:
        """See `HttpResponse`."""
        await self._pieces.aclose()
        await self.response.aclose()


class _Release(Protocol):
    def __call__(self, *, is_broken: bool) -> library.AsyncHTTPTransport | None:
        """Release a connection; return it if the caller has to close it."""


class _Body(library.AsyncByteStream):
    """A body that releases its connection when it is first closed."""

    def __init__(self, stream: library.AsyncByteStream, release: _Release) -> None:
        self._stream = stream
        self._release: _Release | None = release

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """See the base class."""
        release, self._release = self._release, None
        is_broken = True
        try:
            await self._stream.aclose()
            is_broken = False
        finally:
            if release is not None and (unused := release(is_broken=is_broken)) is not None:
                await unused.aclose()


# -- without the SDK -------------------------------------------------------------------------------------


class DirectTransport(PlainTransport):
    """See `PlainTransport`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        try:
            self._address = library.URL(self.url)
        except library.InvalidURL as error:
            raise ConfigError(f"base_url is invalid: {error}") from error
        self._fields = library.Headers(self.headers)
        self._has_tls = self._address.scheme == "https"
        self._sender = StackedTransport(tls_for(self._address.scheme))

    async def _send(self, request: PlainRequest) -> tuple[int, HttpResponse]:
        fields, body = self._fields if request.headers is None else request.headers, request.body
        if not self._has_tls and request.url.startswith("https:"):  # a redirect
            self._has_tls = True
            await self._close()
            self._sender = StackedTransport(tls_for("https"))
        content: bytes | AsyncIterator[bytes] = body
        if len(body) >= LARGE:
            fields, content = {**fields, "content-length": str(len(body))}, _pieces(body)
        sent = library.Request(
            request.method,
            self._address if request.url is self.url else library.URL(request.url),
            headers=fields,
            content=content,
            extensions={"timeout": _timeout(request.timeouts)},
        )
        response = await self._answered(sent)
        return response.status_code, HttpxResponse(response)

    async def _answered(self, request: library.Request) -> library.Response:
        try:
            return await self._sender.handle_async_request(request)
        except library.TimeoutException as error:
            raise TimeoutError(str(error)) from error
        except library.LocalProtocolError as error:
            raise ValueError from error

    async def _close(self) -> None:
        await self._sender.aclose()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield pieces of a body: the library's write timeout applies to each piece."""
    for start in range(0, len(body), CHUNK_BYTES):
        yield body[start : start + CHUNK_BYTES]


def _timeout(timeouts: HttpTimeouts) -> dict[str, float | None]:
    reading, connecting = timeouts
    return {"connect": connecting, "read": reading, "write": reading, "pool": reading}


# -- with the SDK, by its low-level ``post`` with an encoded body ----------------------------------------


class SdkTransport:
    """See `Transport`.

    Args:
        settings: Arguments of ``openai.AsyncOpenAI``, and further settings of `transport_for`.

    Raises:
        ConfigError: The SDK rejects the settings.
    """

    def __init__(self, settings: JsonFields) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, OpenAIError

        own: JsonObject
        settings = dict(settings)
        self._path = settings.pop("endpoint", "/chat/completions")
        auth = settings.pop("auth_headers", None)
        self._omitted: JsonObject = {}
        if auth is not None:
            settings["default_headers"] = {**auth, **(settings.get("default_headers") or {})}
            self._omitted = {} if "authorization" in auth else {"Authorization": Omit()}
        try:
            if settings.get("http_client") is None:
                # Allow TLS even for http, because a redirect may lead to https. With a proxy, the library
                # builds the transport. Build the HTTP client first: with a bad proxy, the SDK client would
                # stay half built, and would fail when garbage-collected.
                proxied = has_proxy(settings["base_url"])
                own = {} if proxied else {"transport": StackedTransport(tls_for("https"))}
                settings["http_client"] = DefaultAsyncHttpxClient(**own)
            if hasattr(settings["http_client"], "send"):
                settings["http_client"] = _BoundedClient(settings["http_client"])
            client = AsyncOpenAI(**settings)
            client._platform = "Unknown"  # preset, because the SDK would run `uname` from the PATH
        except (OpenAIError, TypeError, ValueError, ImportError, library.InvalidURL) as error:
            proxies = proxy_variables() if has_proxy(settings["base_url"]) else ""
            hint = f". It reads its proxy from {proxies}: correct that, or unset it." if proxies else ""
            raise ConfigError(f"The OpenAI client cannot be built: {error}{hint}") from error
        self._client: Any = client  # Any: the body parameter differs between SDK versions
        self._body = _body_parameter(client)

    async def post(self, body: bytes, options: Options) -> HttpResponse:
        """See `Transport`."""
        from openai import APIStatusError, AsyncStream, OpenAIError

        fields = _request_options(options)
        if self._omitted:
            fields["headers"] = {**self._omitted, **fields.get("headers", {})}
        fields["follow_redirects"], path = False, self._path
        for _ in range(REDIRECTS):
            try:
                with _bounds_unwrapped():
                    opened = await self._client.post(
                        path,
                        **{self._body: body},
                        cast_to=object,
                        options=fields,
                        stream=True,
                        stream_cls=AsyncStream[object],
                    )
                break
            except APIStatusError as error:
                location = error.response.headers.get("location", "")
                if error.status_code not in MOVED or not location:
                    raise
                path = moved_to(str(error.response.url), location)
            except (LLMError, OpenAIError, TimeoutError, asyncio.TimeoutError):
                raise
            except Exception as error:  # noqa: BLE001 - translated and raised
                raise_failed(error)
        else:
            raise redirects_too_often(path)
        response = HttpxResponse(opened.response)
        # Report the headers: a key function or the user's HTTP client may have set some of them.
        response.sent = opened.response.request.headers
        return response

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        options = {"timeout": seconds, "headers": self._omitted, "follow_redirects": False}
        with _bounds_unwrapped():
            return await self._client.get(url, cast_to=object, options=options)

    async def close(self) -> None:
        """See `Transport`."""
        await self._client.close()


@contextmanager
def _bounds_unwrapped() -> Iterator[None]:
    """Unwrap size-limit errors raised inside the block: the SDK wraps its HTTP client's exceptions."""
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, LLMError):
            raise error.__cause__ from None
        raise


class _Bounded:
    """An SDK HTTP client that reads error bodies and documents only up to a size limit.

    The SDK alone sets no limit. The size of an event stream is limited by its reader.
    """

    def __init__(self, client: Any) -> None:
        self._own = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request as the wrapped client does. Also raises the errors of `read_whole`."""
        offered = request.headers.get("accept-encoding", "").split(",")
        readable = [coding for coding in map(str.strip, offered) if coding.partition(";")[0] in CODINGS]
        request.headers["accept-encoding"] = ", ".join(readable) or CODINGS[-1]
        response = await self._own.send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        status, answer = response.status_code, HttpxResponse(response)
        what, limit = "response", MAX_PART_BYTES
        if not response.is_success:
            what, limit = f"response with status {status}", MAX_ERROR_BYTES
        try:
            content = await read_whole(answer.read, what, limit)
        finally:
            await answer.aclose()
        headers = [field for field in response.headers.multi_items() if field[0] != "content-encoding"]
        return type(response)(status, headers=headers, content=content, request=response.request)


# `__class__` is that of the wrapped client, because the SDK checks it.
_BoundedClient: Any = type("_BoundedClient", (_Bounded,), {"__class__": property(lambda own: type(own._own))})


def _request_options(options: Options) -> Any:
    check_seconds(options.get("timeout"))
    names = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}
    return {new: options[old] for old, new in names.items() if options.get(old) is not None}


def _body_parameter(client: AsyncOpenAI) -> str:
    """Return the name of the SDK's parameter for body bytes: ``content``, in older versions ``body``."""
    kind = type(client)
    if kind not in _BODY_PARAMETERS:
        parameters = inspect.signature(kind.post).parameters
        _BODY_PARAMETERS[kind] = "content" if "content" in parameters else "body"
    return _BODY_PARAMETERS[kind]
