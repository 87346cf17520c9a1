"""Pictures as parts of messages, judged by their content: what a server is sent is a picture it can take.

A name or a header can say anything, so the format comes from the first bytes and the dimensions from the
picture's own header. Whether the rest can be decoded is left to the server.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.text import clean_text

MAX_BYTES = 5_000_000
MAX_PIXELS = 8_000  # of each side
SHOWN_NAME_CHARS = 200


class ImageError(PureAgentLoopError):
    """Something that cannot be sent as a picture. The message names it and the way out."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What a picture says of itself.

    Args:
        format: ``PNG``, ``JPEG``, ``GIF`` or ``WebP``.
        width: In pixels.
        height: In pixels.
    """

    format: str
    width: int
    height: int

    @property
    def media_type(self) -> str:
        """Such as ``image/png``."""
        return f"image/{self.format.lower()}"


def image_part(data: bytes, *, name: str = "image") -> dict[str, Any]:
    """A picture as an entry of a message's ``content``.

    Args:
        data: The file.
        name: What to call it in an error.

    Raises:
        ImageError: It is no picture that servers take, or too large.
    """
    image = inspect_image(data, name=name)
    text = base64.b64encode(data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{text}"}}


def inspect_image(data: bytes, *, name: str = "image") -> ImageInfo:
    """Find out what a picture is.

    Args:
        data: The file.
        name: What to call it in an error.

    Raises:
        ImageError: It is no picture that servers take, or too large.
    """
    shown = clean_text(repr(name[:SHOWN_NAME_CHARS]))
    if len(data) > MAX_BYTES:
        raise ImageError(f"{shown} is larger than {MAX_BYTES:,} bytes. Make it smaller first.")
    found = next((kind for start, kind in _KINDS.items() if data.startswith(start)), None)
    if found is None or (found[0] == "WebP" and data[8:12] != b"WEBP"):
        raise ImageError(f"{shown} is not a PNG, JPEG, GIF or WebP picture. Convert it first.")
    kind, measure = found
    try:
        width, height = measure(data)
    except (struct.error, IndexError, ValueError):
        raise ImageError(f"{shown} begins like a {kind} picture, but its header is damaged.") from None
    if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
        raise ImageError(
            f"{shown} has {width} x {height} pixels; each side must have 1 to {MAX_PIXELS:,}. Scale it first."
        )
    return ImageInfo(kind, width, height)


def _png(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    if data[4:6] not in (b"7a", b"9a"):
        raise ValueError
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})  # tables that share the numbers of frame headers
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        elif marker in _ALONE:
            at += 2
        elif marker in (0xD9, 0xDA):  # the picture ends, or begins, without a frame header
            raise ValueError
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            if length < 2:
                raise ValueError
            at += 2 + length


def _webp(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return 1 + int.from_bytes(_exactly(data, 24, 3), "little"), 1 + int.from_bytes(
            _exactly(data, 27, 3), "little"
        )
    if chunk == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError


def _exactly(data: bytes, at: int, count: int) -> bytes:
    if len(data) < at + count:
        raise ValueError
    return data[at : at + count]


_KINDS: dict[bytes, tuple[str, Callable[[bytes], tuple[int, int]]]] = {
    b"\x89PNG\r\n\x1a\n": ("PNG", _png),
    b"\xff\xd8\xff": ("JPEG", _jpeg),
    b"GIF8": ("GIF", _gif),
    b"RIFF": ("WebP", _webp),
}
