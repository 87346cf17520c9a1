"""What plain requests have in common, whichever library carries them. Options of the SDK go beside them."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.http import Answer, Transport
from pure_agent_loop.llm.http.errors import RefusedError, UnansweredError, UnsendableError
from pure_agent_loop.support.lazy import lazy_pattern

# As the SDK has them, so that it makes no difference which is at work.
SECONDS, CONNECT_SECONDS, KEPT_SECONDS = 600.0, 5.0, 5.0
CONNECTIONS, REDIRECTS = 1_000, 20
LARGE = 1_000_000  # bytes of a request that is sent piece by piece, each with the whole patience
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_OPTIONS = frozenset({"timeout", "extra_headers", "extra_query"})  # of those of a request, what is of HTTP
_NAME, _TEXT = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), lazy_pattern(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# What a library does itself, each in its way: https://www.rfc-editor.org/rfc/rfc9112#section-6
_OF_SENDING = {"content-length", "transfer-encoding", "expect"}


class Patience(NamedTuple):
    """Seconds to wait, None for no end: between two pieces of an answer, and for a new connection."""

    reading: float | None = SECONDS
    connecting: float | None = CONNECT_SECONDS


class PlainRequest(NamedTuple):
    """One request; the address of most is that of the endpoint, and their headers are those of all."""

    body: bytes
    patience: Patience
    query: str = ""
    headers: Mapping[str, str] | None = None


class PlainTransport(ABC):
    """See `Transport`.

    Args:
        base_url: The address of the server.
        key: Its API key.
        settings: ``timeout`` and ``default_headers``, as the SDK takes them.
        beside: Makes what requests with options of the SDK go through; None to refuse them.
    """

    follows = True  # redirects; else they go beside, too

    def __init__(
        self,
        base_url: str,
        key: str,
        settings: Mapping[str, Any],
        beside: Callable[[], Transport] | None,
    ) -> None:
        self.url = f"{base_url.rstrip('/')}/chat/completions"
        self.headers = {
            "authorization": f"Bearer {key}",
            "accept": "application/json",
            "accept-encoding": "gzip, deflate",
            "content-type": "application/json",
            "user-agent": f"pure-agent-loop/{__version__}",
            **_lowered(settings.get("default_headers") or {}),
        }
        given = settings.get("timeout", self)
        self._patience = Patience() if given is self else _patience(given)
        self._new_beside = beside
        self._beside: Transport | None = None
        self._goes_beside = False  # with every request

    @abstractmethod
    async def _send(self, request: PlainRequest) -> tuple[int, Answer]:
        """The status and the answer, whatever it is. Raises what its library does."""

    @abstractmethod
    async def _read(self, answer: Answer) -> bytes:
        """The whole body of an answer."""

    def _is_beyond(self, _: Exception) -> bool:
        """Whether this library cannot do what the SDK's perhaps can; then that is asked from now on."""
        return False

    @abstractmethod
    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""

    @abstractmethod
    async def _close(self) -> None:
        """Close the connections."""

    async def post(self, body: bytes, options: Mapping[str, Any]) -> Answer:
        """See `Transport`."""
        request = None if self._goes_beside else self._request(body, options)
        if request is None:
            return await self._other().post(body, options)
        try:
            status, answer = await self._send(request)
        except (TimeoutError, asyncio.TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - raised below as what it means
            if self._is_beyond(error):
                self._goes_beside = self._new_beside is not None
            if self._goes_beside and is_unsendable(error):
                return await self._other().post(body, options)
            raise_failed(error)
        if status // 100 == 2:
            return answer
        try:
            if status // 100 != 3 or self.follows:
                raise RefusedError(status, await self._read(answer), answer.headers)
        finally:
            await answer.aclose()
        return await self._other().post(body, options)

    async def close(self) -> None:
        """See `Transport`."""
        beside, self._beside = self._beside, None
        await self._close()
        if beside is not None:
            await beside.close()

    def _other(self) -> Transport:
        if self._beside is None:
            if self._new_beside is None:
                raise ConfigError(
                    "PURE_AGENT_LOOP_HTTP=aiohttp can only send texts as extra_headers, texts and numbers as "
                    "extra_query, and a number of seconds as timeout. Unset it to use the SDK for others."
                )
            self._beside = self._new_beside()
        return self._beside

    def _request(self, body: bytes, options: Mapping[str, Any]) -> PlainRequest | None:
        """The request; None if only the SDK knows what an option means."""
        if _OPTIONS.isdisjoint(options):  # nearly always
            return PlainRequest(body, self._patience)
        seconds, headers = options.get("timeout"), options.get("extra_headers") or {}
        query = options.get("extra_query") or {}
        is_plain = (
            (seconds is None or isinstance(seconds, (int, float)))
            and are_plain(headers)
            and all(isinstance(each, (str, int, float)) for each in query.values())
        )
        if not is_plain:
            return None
        patience = self._patience if seconds is None else _patience(seconds)
        if not headers and not query:
            return PlainRequest(body, patience)
        written = {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in query.items()}
        more = {**self.headers, **_lowered(headers)} if headers else None
        try:
            return PlainRequest(body, patience, urllib.parse.urlencode(written), more)
        except UnicodeEncodeError as error:
            raise_failed(error)


def are_plain(headers: object) -> bool:
    """Whether header fields are such as every library sends alike: texts that HTTP has a form for."""
    return isinstance(headers, Mapping) and all(
        isinstance(name, str)
        and isinstance(text, str)
        and _NAME.fullmatch(name)
        and _TEXT.fullmatch(text)
        and name.lower() not in _OF_SENDING
        for name, text in headers.items()
    )


def check_seconds(timeout: object) -> None:
    """Refuse a `timeout` that leaves no time. Raises `ConfigError`."""
    if isinstance(timeout, (int, float)) and not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} leaves no time. Pass seconds above 0, or leave it out.")


def _patience(seconds: float | None) -> Patience:
    check_seconds(seconds)
    seconds = None if seconds == math.inf else seconds
    return Patience(seconds, seconds)


def raise_failed(error: Exception) -> NoReturn:
    """Say of what a library has raised what it means: the request cannot be sent, or has no answer."""
    if is_unsendable(error):
        raise UnsendableError(type(error).__name__) from None
    raise UnansweredError from error


def is_unsendable(error: Exception) -> bool:
    """Whether a library has refused to send a request."""
    return isinstance(error, ValueError) and not isinstance(error, OSError)  # as a bad certificate is


def has_proxy() -> bool:
    """Whether the environment or the system names a proxy. Who may pass it by, the SDK knows."""
    if sys.platform in ("win32", "darwin"):
        from urllib.request import getproxies  # elsewhere only the environment says it, and this loads a lot

        return not getproxies().keys().isdisjoint(("http", "https", "all"))
    return any(value and name.lower() in _PROXIES for name, value in os.environ.items())


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
