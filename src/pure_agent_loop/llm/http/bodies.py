"""Read response bodies: decompress in small pieces, up to a size limit."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.bounds import check_size
from pure_agent_loop.llm.waits import Headers
from pure_agent_loop.support.inflate import unpacker

CODINGS = ("gzip", "deflate", "identity")  # encodings to request, because they can be decompressed in pieces
_PIECE_BYTES = 65_536


class PackedBody:
    """A compressed body, decompressed in pieces.

    HTTP libraries decompress a whole network read at once, and the result can be a thousand times larger.

    Args:
        coding: ``Content-Encoding`` of the response.
        read: Waits for the next compressed bytes; empty at the end.
    """

    def __init__(self, coding: str, read: Callable[[], Awaitable[bytes]]) -> None:
        self._coding, self._read = coding, read
        self._unpack: Callable[[bytes, int], bytes] | None = None

    async def read(self) -> bytes:
        """See `HttpResponse`.

        Raises:
            LLMError: The encoding is not one of `CODINGS`.
            OSError: The body is damaged.
        """
        data = b""
        while not (piece := self.unpack(data)):
            if not (data := await self._read()):
                break
        return piece

    def unpack(self, data: bytes) -> bytes:
        """Add compressed bytes; return the next piece. Raises the errors of `read`."""
        try:
            self._unpack = self._unpack or unpacker(self._coding)
            return self._unpack(data, _PIECE_BYTES)
        except ValueError:
            text = f"The server compressed its response as {self._coding!r}. Only gzip and deflate are read."
            raise LLMError(text, kind="bad_request") from None
        except zlib.error as error:
            raise OSError(f"the body is not valid {self._coding}") from error


def packed_body(headers: Headers, read: Callable[[], Awaitable[bytes]]) -> PackedBody | None:
    """Return a `PackedBody` if a response's headers declare it compressed, else None."""
    coding = headers.get("content-encoding", "").strip().lower()
    return None if coding in ("", "identity") else PackedBody(coding, read)


async def read_whole(read: Callable[[], Awaitable[bytes]], what: str, limit: int) -> bytes:
    """Read a response to its end.

    Args:
        read: Waits for the next bytes; empty at the end.
        what: Name of the response, for errors.
        limit: Maximum bytes.

    Raises:
        LLMError: The body is longer than `limit`.
    """
    data = bytearray()
    while piece := await read():
        check_size(len(data) + len(piece), what, limit)
        data += piece
    return bytes(data)
