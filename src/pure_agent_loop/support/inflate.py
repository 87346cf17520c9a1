"""Decompress HTTP bodies in pieces of bounded size. Pure: no I/O."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

_GZIP = b"\x1f\x8b"


def unpacker(coding: str) -> Callable[[bytes, int], bytes]:
    """Return a function like `Inflater.feed` for a ``Content-Encoding``.

    Raises:
        ValueError: Bodies with this encoding cannot be read.
    """
    if coding in ("", "identity"):
        return lambda data, limit: data[:limit]
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(coding)
    return Inflater().feed


class Inflater:
    """Decompresses gzip, zlib or raw deflate, detected by the first bytes; gzip parts are joined."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._left = b""  # compressed bytes that are left for the next piece
        self._is_full = False  # True if the last piece was cut at its limit
        self._has_part = self._is_over = False

    def feed(self, data: bytes, limit: int) -> bytes:
        """Add bytes; return the next piece, of at most `limit` bytes. Call it without bytes to get the
        remaining pieces.

        Returns:
            The piece; empty if more bytes are needed.

        Raises:
            zlib.error: The bytes are not in a supported format.
        """
        data, piece = self._left + data, b""
        while not (piece or self._is_over) and (self._is_full or data):
            if self._stream is None:
                if len(data) < len(_GZIP):
                    break
                # Other bytes after a gzip part are padding.
                self._is_over = self._has_part and not data.startswith(_GZIP)
                self._stream, self._has_part = zlib.decompressobj(_window(data)), True
                continue
            piece = self._stream.decompress(data, limit)
            self._is_full, data = len(piece) == limit, self._stream.unconsumed_tail
            if self._stream.eof:
                data, self._stream, self._is_full = self._stream.unused_data, None, False
        self._left = b"" if self._is_over else data
        return piece


def _window(data: bytes) -> int:
    is_zlib = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return 47 if data.startswith(_GZIP[:1]) or is_zlib else -15
