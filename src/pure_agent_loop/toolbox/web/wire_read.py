"""One HTTP request over a plain socket, with a deadline and a limit on every read.

`http.client` parses the response from a bounded reader. No proxies, cookies or credentials are used.
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

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.web.addresses import IPAddress, ParsedUrl

if TYPE_CHECKING:
    import http.client

USER_AGENT = "pure-agent-loop-fetch"
ACCEPT = "text/html, text/plain, application/json, application/xml, text/*;q=0.9, */*;q=0.1"
HEAD_BYTES = 256_000
_PIECE = 65_536
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT_KINDS = ("json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "x-ndjson", "x-sh", "sql")


class WireError(Exception):
    """A request got no usable response. The message is for the model."""


@dataclass(frozen=True, slots=True)
class HttpPage:
    """The response of a server.

    Args:
        headers: Values by lower-case name; if a name occurs several times, the first value.
        body: The uncompressed body, up to the limit.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of one request.

    Args:
        max_bytes: Bytes of the body, compressed or not.
        deadline: End of the whole request, by `time.monotonic`.
    """

    max_bytes: int
    read_timeout: float
    deadline: float

    def seconds_left(self) -> float:
        """Return the seconds left until the deadline.

        Raises:
            WireError: The deadline has passed.
        """
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise WireError(model_text("too_slow"))
        return min(seconds, self.read_timeout)


def request(
    target: ParsedUrl, addresses: Sequence[IPAddress], context: ssl.SSLContext, limits: WireLimits
) -> HttpPage:
    """Request a page at one of the checked addresses.

    Args:
        addresses: The addresses, tried in order.

    Raises:
        WireError: There is no usable response.
    """
    import http.client  # imported lazily, because it loads the e-mail packages

    sock: socket.socket | None = None
    try:
        sock = _connect(addresses, target, limits)
        if target.scheme == "https":
            sock.settimeout(limits.seconds_left())
            sock = context.wrap_socket(sock, server_hostname=target.host)
        return _ask(_BoundedSocket(sock, limits), target, limits)
    except ssl.SSLCertVerificationError as error:
        raise WireError(model_text("certificate", host=target.host, error=error.verify_message)) from error
    except ssl.SSLError as error:
        raise WireError(model_text("no_tls", host=target.host, error=error.reason or "TLS failed")) from error
    except TimeoutError as error:
        raise WireError(model_text("too_slow")) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        kind = type(error).__name__
        raise WireError(
            model_text("no_answer", host=target.host, error=_describe_error(error), kind=kind)
        ) from error
    finally:
        if sock is not None:
            sock.close()


def _describe_error(error: Exception) -> str:
    """Describe an error without text from the server, which is untrusted."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _connect(addresses: Sequence[IPAddress], target: ParsedUrl, limits: WireLimits) -> socket.socket:
    last: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((str(address), target.port), limits.seconds_left())
        except OSError as error:  # noqa: PERF203 - each address is tried
            last = error
    assert last is not None
    raise last


class _BoundedSocket:
    """The part of the socket interface that `http.client` uses."""

    def __init__(self, sock: socket.socket, limits: WireLimits) -> None:
        self._sock = sock
        self._limits = limits

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._limits.seconds_left())
        self._sock.sendall(data)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock, self._limits), _PIECE)

    def close(self) -> None:
        """Do nothing: `request` closes the socket."""


class _BoundedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, limits: WireLimits) -> None:
        self._sock = sock
        self._limits = limits
        self._room = HEAD_BYTES + limits.max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._room <= 0:
            raise WireError(model_text("too_much"))
        self._sock.settimeout(self._limits.seconds_left())
        count = self._sock.recv_into(buffer)
        self._room -= count
        return count


def _ask(sock: _BoundedSocket, target: ParsedUrl, limits: WireLimits) -> HttpPage:
    import http.client

    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = sock
    connection.auto_open = 0  # never reconnect to an unchecked address
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
            return HttpPage(response.status, headers)
        body, is_cut = _read(response, headers.get("content-encoding", ""), limits.max_bytes)
        return HttpPage(response.status, headers, body, is_cut)


def media_type(headers: dict[str, str]) -> str:
    """Return the media type in lower case, without parameters; empty if missing."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_text(headers: dict[str, str]) -> bool:
    """Return False if the content is certainly not text."""
    kind = media_type(headers)
    if not kind or "/" not in kind or kind in ("application/octet-stream", "binary/octet-stream"):
        return True  # unknown or missing type: the content decides
    main, _, sub = kind.partition("/")
    return main == "text" or (main != "image" and (sub in _TEXT_KINDS or sub.endswith(("+json", "+xml"))))


def _read(response: http.client.HTTPResponse, coding: str, limit: int) -> tuple[bytes, bool]:
    """Return the uncompressed body up to the limit, and whether it was cut."""
    import http.client

    from pure_agent_loop.support.inflate import unpacker

    try:
        unpack = unpacker(coding.strip().lower())
    except ValueError as error:
        raise WireError(model_text("odd_compression")) from error
    pieces: list[bytes] = []
    size = 0
    try:
        while size <= limit and (data := response.read1(_PIECE)):
            while size <= limit and (piece := unpack(data, limit + 1 - size)):
                pieces.append(piece)
                size, data = size + len(piece), b""
    except zlib.error as error:
        raise WireError(model_text("odd_compression")) from error
    except (WireError, OSError, http.client.HTTPException):
        if not size:
            raise
        return b"".join(pieces)[:limit], True
    return b"".join(pieces)[:limit], size > limit or bool(response.length)
