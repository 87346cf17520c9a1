"""Read image headers, and shrink images with Pillow (extra ``[images]``)."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from typing import NamedTuple

_STEP = 0.9  # each attempt scales both sides by at most this factor
_NO_LENGTH = {0x01, *range(0xD0, 0xD8)}  # JPEG markers that have no length field
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageInfo(NamedTuple):
    """Format and size from an image's header.

    Args:
        kind: ``png``, ``jpeg``, ``gif`` or ``webp``.
    """

    kind: str
    width: int
    height: int


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
        if marker == 0xDA:  # this marker begins the image data
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


READERS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes], tuple[str, int, int]]], ...] = (
    (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    (lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", _webp),
)


def shrunk(data: bytes, pixels: int, *, most_bytes: int, most_side: int) -> tuple[bytes, int, int]:
    """Return a smaller image with the same proportions: JPEG from JPEG, else PNG; the first frame only.

    Also return the original width and height after rotation to the upright position.

    Args:
        data: PNG, JPEG, GIF or WebP.
        pixels: Number of pixels according to the header, checked before decoding.
        most_bytes: Maximum size of the result in bytes.

    Raises:
        ImportError: Pillow is not installed.
        ValueError: The image cannot be decoded, or has more pixels than Pillow decodes without a warning.
    """
    from PIL import Image, ImageOps

    if pixels > (Image.MAX_IMAGE_PIXELS or math.inf):
        raise ValueError("too many pixels")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as picture:
            kind = "JPEG" if picture.format == "JPEG" else "PNG"
            upright = ImageOps.exif_transpose(picture)
            clear = kind == "PNG" and picture.has_transparency_data
            whole = upright.convert("RGBA" if clear else "RGB")
    except (OSError, SyntaxError, Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ValueError(str(error)) from error
    share = min(1.0, most_side / max(whole.size))
    while True:
        width, height = (max(1, int(side * share)) for side in whole.size)
        file = io.BytesIO()
        whole.resize((width, height), Image.Resampling.LANCZOS).save(file, kind)
        if file.tell() <= most_bytes or width == height == 1:
            return file.getvalue(), *whole.size
        share *= min(_STEP, math.sqrt(most_bytes / file.tell()))
