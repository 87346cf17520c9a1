"""Media that come with a task: each becomes a checked part of the user's message, before the run begins."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.images import MAX_BYTES, ImageError, image_part, inspect_image

MediaItem: TypeAlias = "str | os.PathLike[str] | bytes | Mapping[str, Any]"
Content: TypeAlias = "str | list[dict[str, Any]]"


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


def user_content(task: str, parts: Iterable[dict[str, Any]]) -> Content:
    """What a user's message says: the text, with the media behind it."""
    more = list(parts)
    return [*([{"type": "text", "text": task}] if task else []), *more] if more else task


def _part(item: MediaItem, number: int) -> dict[str, Any]:
    name = f"media[{number}]"
    if isinstance(item, Mapping):
        return _given(item, name)
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


def _given(item: Mapping[str, Any], name: str) -> dict[str, Any]:
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
