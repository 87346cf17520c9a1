"""The transport protocol, and the base of transports that leave only special requests to the SDK."""

from __future__ import annotations

import asyncio
import math
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.bounds import MAX_ERROR_BYTES, MAX_PART_BYTES
from pure_agent_loop.llm.failures import (
    RedirectedError,
    RefusedError,
    UnansweredError,
    UnsendableError,
)
from pure_agent_loop.llm.http.bodies import CODINGS, read_whole
from pure_agent_loop.llm.values import JsonFields, Options
from pure_agent_loop.llm.waits import Headers
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.secrets.redaction import shown_url

# The SDK's defaults, so that all transports behave alike.
SECONDS, CONNECT_SECONDS, KEPT_SECONDS = 600.0, 5.0, 5.0
CONNECTIONS, REDIRECTS = 1_000, 20
MOVED = frozenset({301, 302, 303, 307, 308})
LARGE = 1_000_000  # bytes; larger requests are sent in pieces, each with the full timeout
_OPTIONS = frozenset({"timeout", "extra_headers", "extra_query"})  # request options that concern HTTP
_NAME, _TEXT = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), lazy_pattern(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# Headers that libraries set: https://www.rfc-editor.org/rfc/rfc9112#section-6
_LIBRARY_HEADERS = {"content-length", "transfer-encoding", "expect"}


class HttpResponse(Protocol):
    """A successful response whose body has not been read."""

    @property
    def headers(self) -> Headers:
        """Response headers."""

    @property
    def at_end(self) -> bool:
        """True if the body is known to have been read to its end."""

    @property
    def sent(self) -> Mapping[str, str] | None:
        """Headers that were sent; None if they are those from the settings and the options."""

    async def read(self) -> bytes:
        """Wait for the next piece of the body, decompressed; empty at the end."""

    def buffered(self) -> bytes:
        """Return the bytes received before `read` failed; a second call returns none."""

    async def aclose(self) -> None:
        """Release the connection; close it if the body has not been read to its end."""


class Transport(Protocol):
    """The connections of one event loop to one server. Created in any thread, then used only by that loop."""

    async def post(self, body: bytes, options: Options) -> HttpResponse:
        """Send a request.

        Args:
            options: ``extra_headers``, ``extra_query`` and ``timeout`` of the request, among others.

        Raises:
            Exception: An error that `failures.translate_error` handles.
        """

    async def get(self, url: str, seconds: float) -> Any:
        """Get JSON from another URL of the server. May raise any error."""

    async def close(self) -> None:
        """Close the connections; a connection in use closes with its response."""


class HttpTimeouts(NamedTuple):
    """Seconds to wait for the next piece of a response, and for a new connection; None for no limit."""

    reading: float | None = SECONDS
    connecting: float | None = CONNECT_SECONDS


class PlainRequest(NamedTuple):
    """One request. Headers of None mean the transport's headers; `body` is sent by the method POST only."""

    url: str
    body: bytes
    timeouts: HttpTimeouts
    headers: Mapping[str, str] | None = None
    method: str = "POST"


class PlainTransport(ABC):
    """See `Transport`.

    Args:
        base_url: The server's URL.
        key: The server's API key.
        settings: ``timeout`` and ``default_headers``, as in the SDK; ``endpoint`` and ``auth_headers``.
        fallback: Builds the transport for requests with SDK-only options; None to reject them.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        settings: JsonFields,
        fallback: Callable[[], Transport] | None,
    ) -> None:
        self.url = settings.get("endpoint") or f"{base_url.rstrip('/')}/chat/completions"
        self.headers = {
            **settings.get("auth_headers", {"authorization": f"Bearer {key}"}),
            "accept": "application/json",
            "accept-encoding": ", ".join(CODINGS[:2]),
            "content-type": "application/json",
            "user-agent": f"pure-agent-loop/{__version__}",
            **_lowered(settings.get("default_headers") or {}),
        }
        seconds = settings.get("timeout", self)
        self._timeouts = HttpTimeouts() if seconds is self else _timeouts(seconds)
        self._new_fallback = fallback
        self._fallback: Transport | None = None
        self._uses_fallback = False  # True if all requests use the fallback

    @abstractmethod
    async def _send(self, request: PlainRequest) -> tuple[int, HttpResponse]:
        """Send a request; return its status and response, even a redirect. Raises the library's errors."""

    def _needs_fallback(self, _: Exception) -> bool:
        """Return True for an error that the SDK may avert, so that later requests use the fallback."""
        return False

    @abstractmethod
    async def _close(self) -> None:
        """Close the connections."""

    async def post(self, body: bytes, options: Options) -> HttpResponse:
        """See `Transport`."""
        request = None if self._uses_fallback else self._request(body, options)
        if request is None:
            return await self._fallback_transport().post(body, options)
        for _ in range(REDIRECTS):
            try:
                status, answer = await self._send(request)
            except (TimeoutError, asyncio.TimeoutError):
                raise
            except Exception as error:  # noqa: BLE001 - translated and raised below
                if self._needs_fallback(error):
                    self._uses_fallback = self._new_fallback is not None
                if self._uses_fallback and is_unsendable(error):
                    return await self._fallback_transport().post(body, options)
                raise_failed(error)
            if status // 100 == 2:
                return answer
            try:
                location = answer.headers.get("location", "")
                if status not in MOVED or not location:
                    raise await refusal(status, answer)
                request = request._replace(url=moved_to(request.url, location))
            finally:
                await answer.aclose()
        raise redirects_too_often(request.url)

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        request = PlainRequest(url, b"", HttpTimeouts(seconds, seconds), method="GET")
        status, answer = await self._send(request)
        try:
            if status != 200:
                raise await refusal(status, answer)
            return read_json(await read_whole(answer.read, "response", MAX_PART_BYTES))
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """See `Transport`."""
        fallback, self._fallback = self._fallback, None
        await self._close()
        if fallback is not None:
            await fallback.close()

    def _fallback_transport(self) -> Transport:
        if self._fallback is None:
            if self._new_fallback is None:
                raise ConfigError(
                    "PAL_HTTP=aiohttp supports only strings in extra_headers, strings and numbers"
                    " in extra_query, and seconds as timeout. Unset it to use the SDK for other values."
                )
            self._fallback = self._new_fallback()
        return self._fallback

    def _request(self, body: bytes, options: Options) -> PlainRequest | None:
        """Build the request; None if an option needs the SDK."""
        if _OPTIONS.isdisjoint(options):  # the usual case
            return PlainRequest(self.url, body, self._timeouts)
        seconds, headers = options.get("timeout"), options.get("extra_headers") or {}
        query = options.get("extra_query") or {}
        is_plain = (
            (seconds is None or isinstance(seconds, (int, float)))
            and are_plain(headers)
            and all(isinstance(value, (str, int, float)) for value in query.values())
        )
        if not is_plain:
            return None
        timeouts = self._timeouts if seconds is None else _timeouts(seconds)
        if not headers and not query:
            return PlainRequest(self.url, body, timeouts)
        written = {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in query.items()}
        all_headers = {**self.headers, **_lowered(headers)} if headers else None
        try:
            url = f"{self.url}?{urllib.parse.urlencode(written)}" if written else self.url
            return PlainRequest(url, body, timeouts, all_headers)
        except UnicodeEncodeError as error:
            raise_failed(error)


async def refusal(status: int, response: HttpResponse) -> RefusedError:
    """Return the error for a response with an error status. Raises `LLMError` if its body is too long."""
    content = await read_whole(response.read, f"response with status {status}", MAX_ERROR_BYTES)
    return RefusedError(status, content, response.headers)


def moved_to(url: str, location: str) -> str:
    """Return the URL of a redirect to the same host and port, or from port 80 of http to port 443 of https.

    Requests contain keys and a conversation, so they are never sent to another server.

    Raises:
        RedirectedError: The URL is on another server.
    """
    target = urllib.parse.urljoin(url, location)
    try:
        old, new = urllib.parse.urlsplit(url), urllib.parse.urlsplit(target)
        ports = _port_of(old), _port_of(new)
        same_host = old.hostname == new.hostname and new.scheme in (old.scheme, "https")
        upgrades = old.scheme == "http" and new.scheme == "https" and ports == (80, 443)
        same = same_host and (ports[0] == ports[1] or upgrades)
    except ValueError:  # a port that is not a number
        same = False
    if not same:
        raise RedirectedError(
            f"to another server: {shown_url(target)}. Nothing was sent there. Set base_url to it."
        )
    return target


def redirects_too_often(url: str) -> RedirectedError:
    """Return the error for a server that redirects without end."""
    return RedirectedError(
        f"more than {REDIRECTS} times, most recently to {shown_url(url)}: a loop. Correct base_url."
    )


def _port_of(parts: urllib.parse.SplitResult) -> int | None:
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def are_plain(headers: object) -> bool:
    """Return True if all HTTP libraries send these headers unchanged: valid, and none set by a library."""
    return isinstance(headers, Mapping) and all(
        isinstance(name, str)
        and isinstance(text, str)
        and _NAME.fullmatch(name)
        and _TEXT.fullmatch(text)
        and name.lower() not in _LIBRARY_HEADERS
        for name, text in headers.items()
    )


def check_seconds(timeout: object) -> None:
    """Reject a timeout of 0 or less. Raises `ConfigError`."""
    if isinstance(timeout, (int, float)) and not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} must be above 0. Pass seconds, or leave it out.")


def _timeouts(seconds: float | None) -> HttpTimeouts:
    check_seconds(seconds)
    seconds = None if seconds == math.inf else seconds
    return HttpTimeouts(seconds, seconds)


def raise_failed(error: Exception) -> NoReturn:
    """Raise `UnsendableError` or `UnansweredError` for a library's error."""
    if is_unsendable(error):
        raise UnsendableError(type(error).__name__) from None
    raise UnansweredError from error


def is_unsendable(error: Exception) -> bool:
    """Return True if a library rejected a request before sending it."""
    # The error for a bad certificate is a subclass of both.
    return isinstance(error, ValueError) and not isinstance(error, OSError)


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
