"""One HTTP request over a socket of our own: a deadline for all of it, and a cap on every byte.

`http.client` reads the answer; what it reads from knows when to stop. No proxies, no cookies, no credentials.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pure_agent_loop.toolbox.web.addresses import IPAddress, Target
from pure_agent_loop.toolbox.web.words import say

if TYPE_CHECKING:
    import http.client

USER_AGENT = "pure-agent-loop-fetch"
ACCEPT = "text/html, text/plain, application/json, application/xml, text/*;q=0.9, */*;q=0.1"
HEAD_BYTES = 256_000
_PIECE = 65_536
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class WireError(Exception):
    """A request that brought nothing usable. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said.

    Args:
        status: The number.
        headers: By name in small letters; of several of one name the first.
        body: Without its compression, as far as it was read.
        is_cut: Whether there is more of it.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class WireLimits:
    """How much one request may take.

    Args:
        max_bytes: Of the body, compressed or not.
        read_timeout: Seconds until the server says something.
        deadline: When all of it has to be over, by `time.monotonic`.
    """

    max_bytes: int
    read_timeout: float
    deadline: float

    def left(self) -> float:
        """Seconds for the next operation.

        Raises:
            WireError: There are none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise WireError(say("too_slow"))
        return min(left, self.read_timeout)


def request(
    target: Target, addresses: Sequence[IPAddress], context: ssl.SSLContext, limits: WireLimits
) -> Answer:
    """Ask for a page at one of the addresses, which were checked.

    Args:
        addresses: Where; tried in order.
        context: For https.
        limits: How much it may take.

    Raises:
        WireError: There is no answer that can be used.
    """
    import http.client  # with the packages for e-mail that it needs; not before a page is read

    sock: socket.socket | None = None
    try:
        sock = _connected(addresses, target, limits)
        if target.scheme == "https":
            sock.settimeout(limits.left())
            sock = context.wrap_socket(sock, server_hostname=target.host)
        return _ask(_BoundedSocket(sock, limits), target, limits)
    except ssl.SSLCertVerificationError as error:
        raise WireError(say("certificate", host=target.host, error=error.verify_message)) from error
    except ssl.SSLError as error:
        raise WireError(say("no_tls", host=target.host, error=error.reason or "TLS failed")) from error
    except TimeoutError as error:
        raise WireError(say("too_slow")) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        kind = type(error).__name__
        raise WireError(say("no_answer", host=target.host, error=_error_words(error), kind=kind)) from error
    finally:
        if sock is not None:
            sock.close()


def _error_words(error: Exception) -> str:
    """The error without the server's own words, which are not to be trusted."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _connected(addresses: Sequence[IPAddress], target: Target, limits: WireLimits) -> socket.socket:
    last: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((str(address), target.port), limits.left())
        except OSError as error:  # noqa: PERF203 - each address is tried
            last = error
    assert last is not None
    raise last


class _BoundedSocket:
    """As much of a socket as `http.client` uses."""

    def __init__(self, sock: socket.socket, limits: WireLimits) -> None:
        self._sock = sock
        self._limits = limits

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._limits.left())
        self._sock.sendall(data)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock, self._limits), _PIECE)

    def close(self) -> None:
        """The socket is closed where it was opened."""


class _BoundedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, limits: WireLimits) -> None:
        self._sock = sock
        self._limits = limits
        self._room = HEAD_BYTES + limits.max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._room <= 0:
            raise WireError(say("too_much"))
        self._sock.settimeout(self._limits.left())
        count = self._sock.recv_into(buffer)
        self._room -= count
        return count


def _ask(sock: _BoundedSocket, target: Target, limits: WireLimits) -> Answer:
    import http.client

    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = sock
    connection.auto_open = 0  # never a connection to an address that was not checked
    connection.putrequest("GET", target.path, skip_host=True, skip_accept_encoding=True)
    for name, value in (
        ("Host", target.netloc),
        ("User-Agent", USER_AGENT),
        ("Accept", ACCEPT),
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "close"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    with connection.getresponse() as response:
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            headers.setdefault(name.lower(), value)
        if response.status in REDIRECTS or response.status >= 400 or not is_text(headers):
            return Answer(response.status, headers)
        body, is_cut = _read(response, headers.get("content-encoding", ""), limits.max_bytes)
        return Answer(response.status, headers, body, is_cut)


def media_type(headers: dict[str, str]) -> str:
    """The kind of content a server names, in small letters, without parameters; empty if it names none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


_TEXT_KINDS = ("json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "x-ndjson", "x-sh", "sql")


def is_text(headers: dict[str, str]) -> bool:
    """False if it is certain that it is no text."""
    kind = media_type(headers)
    if not kind or "/" not in kind or kind in ("application/octet-stream", "binary/octet-stream"):
        return True  # looked at later
    main, _, sub = kind.partition("/")
    return main == "text" or (main != "image" and (sub in _TEXT_KINDS or sub.endswith(("+json", "+xml"))))


def _read(response: http.client.HTTPResponse, coding: str, limit: int) -> tuple[bytes, bool]:
    """The body without its compression, up to the limit, and whether there is more."""
    import http.client

    unpack = _unpacker(coding.strip().lower())
    pieces: list[bytes] = []
    size = 0
    try:
        while size <= limit and (data := response.read1(_PIECE)):
            for piece in unpack(data, limit + 1 - size):
                pieces.append(piece)
                size += len(piece)
    except zlib.error as error:
        raise WireError(say("odd_compression")) from error
    except (WireError, OSError, http.client.HTTPException):
        if not size:
            raise
        return b"".join(pieces)[:limit], True
    return b"".join(pieces)[:limit], size > limit or bool(response.length)


def _unpacker(coding: str) -> Any:
    """A function ``(data, limit) -> pieces`` that never gives more than the limit, give or take nothing."""
    if coding in ("", "identity"):
        return lambda data, limit: [data[:limit]]
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise WireError(say("odd_compression"))
    return _Inflater().feed


class _Inflater:
    """gzip, zlib or bare deflate, found by their first bytes; several gzip parts in a row are one."""

    def __init__(self) -> None:
        self._stream: Any = None

    def feed(self, data: bytes, limit: int) -> list[bytes]:
        pieces: list[bytes] = []
        while data and limit > 0:
            if self._stream is None:
                self._stream = zlib.decompressobj(_window(data))
            piece = self._stream.decompress(data, limit)
            limit -= len(piece)
            pieces.append(piece)
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                data = self._stream.unused_data
                if not data.startswith(b"\x1f\x8b"):  # padding behind the end is no part of it
                    break
                self._stream = None
        return pieces


def _window(data: bytes) -> int:
    is_zlib = len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return 47 if data.startswith(b"\x1f") or is_zlib else -15
