"""Media that come with a task: each becomes a checked part of the user's message, before the run begins."""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.prompts.words import say

MediaItem: TypeAlias = "str | os.PathLike[str] | bytes | Mapping[str, Any]"


def media_parts(media: Iterable[MediaItem] | None) -> list[dict[str, Any]]:
    """Media as parts of a message, in order.

    Args:
        media: Paths of image files (read with the rights of this program), bytes, ``data:`` URLs, or ready
            parts: ``{"type": "image_url", "image_url": {"url": "https://..."}}`` lets the server fetch it.

    Raises:
        ConfigError: It is no list of these.
        ImageError: One of them is no image that can be sent.
    """
    if media is None:
        return []
    if isinstance(media, (str, bytes, os.PathLike, Mapping)) or not hasattr(media, "__iter__"):
        raise ConfigError(f"media must be a list of paths, bytes, data URLs or parts; it is {media!r:.80}.")
    return [_part(item, number) for number, item in enumerate(media)]


def _part(item: MediaItem, number: int) -> dict[str, Any]:
    name = f"media[{number}]"
    if isinstance(item, Mapping):
        return _ready_part(item, name)
    if isinstance(item, (bytes, bytearray)):
        return image_part(bytes(item), name=name)
    if isinstance(item, str) and item[:5].lower() == "data:":
        return image_part(_decoded(item, name), name=name)
    if isinstance(item, str) and item[:8].lower().startswith(("http://", "https://")):
        raise ImageError(
            f"{name} is an address on the network, which is not fetched. To let the server fetch it, give "
            '{"type": "image_url", "image_url": {"url": "https://..."}}.'
        )
    if isinstance(item, (str, os.PathLike)):
        return image_part(_read(Path(item)), name=str(item))
    raise ConfigError(f"{name} must be a path, bytes, a data URL or a part; it is {item!r:.80}.")


def _ready_part(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    image = item.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else None
    if item.get("type") != "image_url" or not isinstance(image, Mapping) or not isinstance(url, str):
        raise ConfigError(f'{name} must be {{"type": "image_url", "image_url": {{"url": "..."}}}}.')
    if url[:5].lower() == "data:":
        inspect_image(_decoded(url, name), name=name)
    elif not url.startswith("https://"):
        raise ImageError(f"{name}: only https:// and data: addresses can be sent.")
    detail = {"detail": image["detail"]} if isinstance(image.get("detail"), str) else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _decoded(url: str, name: str) -> bytes:
    head, _, text = url.partition(",")
    if not head.lower().endswith(";base64") or len(text) > MAX_BYTES * 2:
        raise ImageError(
            f"{name}: the data URL must be data:image/...;base64,... of at most {MAX_BYTES:,} bytes."
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError(f"{name}: what follows ';base64,' is no base64.") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)  # one byte more shows that it is too large
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ImageError(f"{path} cannot be read: {reason}.") from error


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
