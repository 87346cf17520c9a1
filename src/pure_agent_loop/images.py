"""Images for a model: checked for type, size and wholeness before they can enter a history.

A server refuses a request with a bad image, and would refuse every later request of that history too.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.kernel.words import say

MAX_BYTES = 5_000_000
MAX_SIDE = 8_000
_SHOWN_NAME = 100


class ImageInfo(NamedTuple):
    """What an image says of itself.

    Args:
        kind: ``png``, ``jpeg``, ``gif`` or ``webp``.
        width: In pixels.
        height: In pixels.
    """

    kind: str
    width: int
    height: int


class ImageError(PureAgentLoopError, ValueError):
    """An image cannot be sent. The message names it and says what to do."""


def image_part(data: bytes, *, name: str) -> dict[str, Any]:
    """An image as a part of a message.

    Args:
        data: The bytes of a PNG, JPEG, GIF or WebP file.
        name: What to call it in errors, such as its path.

    Raises:
        ImageError: It is none of these, is cut off, or is too large.
    """
    kind, _, _ = inspect_image(data, name=name)
    text = base64.b64encode(data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{text}"}}


def inspect_image(data: bytes, *, name: str) -> ImageInfo:
    """Find out what an image is.

    Args:
        data: Its bytes.
        name: What to call it in errors.

    Raises:
        ImageError: It is none, is cut off, or is too large.
    """
    shown = name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..."
    if len(data) > MAX_BYTES:
        raise ImageError(say("image_too_large", name=shown, size=len(data), limit=MAX_BYTES))
    reader = next((read for begins, read in _READERS if begins(data)), None)
    if reader is None:
        raise ImageError(say("no_image", name=shown))
    try:
        found = ImageInfo(*reader(data))
    except (struct.error, IndexError, ValueError):
        raise ImageError(say("image_damaged", name=shown)) from None
    if not (0 < found.width <= MAX_SIDE and 0 < found.height <= MAX_SIDE):
        size = {"width": found.width, "height": found.height}
        raise ImageError(say("image_sides", name=shown, limit=MAX_SIDE, **size))
    return found


def _png(data: bytes) -> tuple[str, int, int]:
    length, name, width, height = struct.unpack_from(">I4sII", data, 8)
    if name != b"IHDR" or length != 13:
        raise ValueError("no header")
    at = 8
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        at += 12 + length
        if at > len(data):
            raise ValueError("cut off")
        if name == b"IEND":
            return "png", width, height


_NO_LENGTH = {0x01, *range(0xD0, 0xD8)}  # markers that stand alone
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(data: bytes) -> tuple[str, int, int]:
    at, size = 2, (0, 0)
    while True:
        if data[at] != 0xFF:
            raise ValueError("no marker")
        while data[at] == 0xFF:
            at += 1
        marker, at = data[at], at + 1
        if marker in _NO_LENGTH:
            continue
        if marker == 0xD9:
            raise ValueError("no picture")
        (length,) = struct.unpack_from(">H", data, at)
        if length < 2:
            raise ValueError("no length")
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = (width, height)
        at += length
        if marker == 0xDA:  # the picture itself follows
            break
    if data.rfind(b"\xff\xd9") < at:
        raise ValueError("cut off")
    return "jpeg", *size


def _gif(data: bytes) -> tuple[str, int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    if not data.rstrip(b"\0").endswith(b";"):
        raise ValueError("cut off")
    return "gif", width, height


def _webp(data: bytes) -> tuple[str, int, int]:
    (size,) = struct.unpack_from("<I", data, 4)
    if size + 8 > len(data):
        raise ValueError("cut off")
    kind = data[12:16]
    if kind == b"VP8X":
        return "webp", 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return "webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return "webp", width & 0x3FFF, height & 0x3FFF
    raise ValueError("no picture")


_READERS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes], tuple[str, int, int]]], ...] = (
    (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    (lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", _webp),
)
