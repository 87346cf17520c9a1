"""Images, PDF and audio, from a task or a tool, as checked parts of a message."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.images import READERS, ImageInfo, shrunk
from pure_agent_loop.support.language import model_text, notice

MediaItem: TypeAlias = "str | os.PathLike[str] | bytes | Mapping[str, Any] | Image | File"
# Types of message parts, by kind of media.
MEDIA_KINDS = {"image": "image_url", "file": "file", "audio": "input_audio"}
MAX_BYTES = 5_000_000
MAX_FILE_BYTES = 20_000_000
MAX_SIDE = 8_000
_SHOWN_NAME = 100
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_FILES: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda data: data.startswith(b"%PDF-"), "pdf"),
    (lambda data: data.startswith(b"RIFF") and data[8:12] == b"WAVE", "wav"),
    (lambda data: data.startswith((b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")), "mp3"),
)


# Functions that recognise a file by its first bytes, each with the media type.
_TYPES = (
    *zip(
        (begins for begins, _ in READERS), ("image/png", "image/jpeg", "image/gif", "image/webp"), strict=True
    ),
    *zip((begins for begins, _ in _FILES), ("application/pdf", "audio/wav", "audio/mp3"), strict=True),
)
# The field that contains the data, by type of message part.
_DATA_FIELDS = {"image_url": "url", "file": "file_data", "input_audio": "data"}


def media_parts(media: Iterable[MediaItem] | None) -> list[dict[str, Any]]:
    """Convert media to parts of a message, in order.

    Args:
        media: Images (PNG, JPEG, GIF, WebP), PDF or audio (WAV, MP3): `Image`, `File`, paths (read with this
            program's permissions), bytes, ``data:`` URLs, or ready-made parts, such as
            ``{"type": "image_url", "image_url": {"url": "https://..."}}``, which the server fetches.

    Raises:
        ConfigError: `media` is not a list of these.
        ImageError: An item cannot be sent.
    """
    if media is None:
        return []
    if isinstance(media, (str, bytes, os.PathLike, Mapping, Image, File)) or not hasattr(media, "__iter__"):
        raise ConfigError(f"media must be a list of paths, bytes, data URLs or parts; it is {media!r:.80}.")
    fitted = [_fitted(item, number) for number, item in enumerate(media)]
    notes = (
        [entry.part, {"type": "text", "text": entry.words}] if entry.words else [entry.part]
        for entry in fitted
    )
    return [part for parts in notes for part in parts]


def _fitted(item: MediaItem, number: int) -> Fitted:
    name = f"media[{number}]"
    if isinstance(item, Mapping):
        return Fitted(_ready_part(item, name))
    if isinstance(item, (Image, File)):
        return item.fitted(name)
    if isinstance(item, (bytes, bytearray)):
        return fitted_medium(bytes(item), name=name)
    if isinstance(item, str) and item[:5].lower() == "data:":
        return fitted_medium(_decoded(item, name), name=name)
    if isinstance(item, str) and item[:8].lower().startswith(("http://", "https://")):
        raise ImageError(
            f"{name} is a URL, which is not fetched here. To let the server fetch it, pass "
            '{"type": "image_url", "image_url": {"url": "https://..."}}.'
        )
    if isinstance(item, (str, os.PathLike)):
        return fitted_medium(_read(Path(item)), name=str(item))
    raise ConfigError(f"{name} must be a path, bytes, a data URL or a part; it is {item!r:.80}.")


def by_bytes(part: Any) -> Any:
    """Correct a message part whose kind or media type does not match its bytes.

    Text parts, parts with unrecognized bytes, and parts with the correct type are returned unchanged.
    """
    kind = part.get("type") if isinstance(part, Mapping) else None
    inner = part.get(kind) if kind in _DATA_FIELDS else None
    text = inner.get(_DATA_FIELDS[str(kind)]) if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(text, str):
        return part
    head, _, data = text.rpartition(",")
    declared = f"audio/{inner.get('format')}" if kind == "input_audio" else head[5:].partition(";")[0].lower()
    is_data = kind == "input_audio" or (head[:5].lower() == "data:" and head.lower().endswith(";base64"))
    found = _type_of(data) if is_data and not declared.startswith("text/") else declared
    if found in ("", declared):
        return part
    new_kind = {"image": "image_url", "audio": "input_audio"}.get(found.partition("/")[0], "file")
    same = dict(inner) if new_kind == kind else {"filename": "document.pdf"} if new_kind == "file" else {}
    if new_kind == "input_audio":
        same |= {"data": data, "format": found[6:]}
    else:
        same[_DATA_FIELDS[new_kind]] = f"data:{found};base64,{data}"
    rest = {name: value for name, value in part.items() if name not in ("type", kind)}
    return {**rest, "type": new_kind, new_kind: same}


def made_media(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the images and audio that a model generated, as message parts.

    Args:
        fields: An assistant message of a history, or the extra fields that the server added to a response.
    """
    urls = [
        f"data:{inline.get('mimeType') or ''};base64,{inline.get('data') or ''}"
        for part in fields.get("gemini_parts") or ()
        if isinstance(inline := part.get("inlineData"), Mapping) and not part.get("thought")
    ]
    items = fields.get("response_items") or ()
    made = [item for item in items if item.get("type") == "image_generation_call" and item.get("result")]
    urls += [f"data:image/{item.get('output_format') or 'png'};base64,{item['result']}" for item in made]
    images = fields.get("images")  # field that gateways add to chat completions
    parts = [part for part in images if isinstance(part, Mapping)] if isinstance(images, list) else []
    parts += [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [by_bytes(dict(part)) for part in parts]


def _type_of(data: str) -> str:
    """Detect the media type of base64 data from its first bytes; empty if unknown."""
    try:
        start = base64.b64decode("".join(data[:64].split())[:32])
    except (binascii.Error, ValueError):
        return ""
    return next((media_type for begins, media_type in _TYPES if begins(start)), "")


def _ready_part(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    item = by_bytes(item)
    if item.get("type") == "text" and isinstance(item.get("text"), str):  # the form of a text file
        return {"type": "text", "text": item["text"]}
    if item.get("type") in ("file", "input_audio"):
        return _ready_file(item, name)
    image = item.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else None
    if item.get("type") != "image_url" or not isinstance(image, Mapping) or not isinstance(url, str):
        raise ConfigError(f'{name} must be {{"type": "image_url", "image_url": {{"url": "..."}}}}.')
    if url[:5].lower() == "data:":
        inspect_image(_decoded(url, name), name=name)
    elif not url.startswith("https://"):
        raise ImageError(f"{name}: only https:// and data: URLs can be sent.")
    detail = {"detail": image["detail"]} if isinstance(image.get("detail"), str) else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _ready_file(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = item.get(item["type"])
    data = (
        inner.get("file_data" if item["type"] == "file" else "data") if isinstance(inner, Mapping) else None
    )
    if not isinstance(inner, Mapping) or not isinstance(data, str):
        raise ConfigError(f"{name}: a part of type {item['type']!r} needs inline data. Pass a File instead.")
    shown = str(inner.get("filename") or name)
    decoded = _decoded(data if data[:5].lower() == "data:" else f";base64,{data}", shown)
    checked = fitted_medium(decoded, name=shown).part
    if checked["type"] != item["type"]:
        raise ImageError(f"{name}: the data is not valid for type {item['type']!r}.")
    return checked


def _decoded(url: str, name: str) -> bytes:
    head, _, text = url.partition(",")
    if not head.lower().endswith(";base64") or len(text) > MAX_FILE_BYTES * 2:
        raise ImageError(
            f"{name}: the data URL must be data:image/...;base64,... of at most {MAX_BYTES:,} bytes."
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError(f"{name}: the text after ';base64,' is not valid base64.") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)  # one extra byte reveals a file that is too large
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ImageError(notice("library.cannot_be_read", path=path, error=reason)) from error


class ImageError(PureAgentLoopError, ValueError):
    """Image or other file cannot be sent. The message names the file and the fix."""


class _TooLargeError(ImageError):
    """Image is too large but can be scaled down."""


class Fitted(NamedTuple):
    """Media item that can be sent.

    Args:
        words: Description of the conversion, for the model; empty if none.
    """

    part: dict[str, Any]
    words: str = ""


class _Source(NamedTuple):
    """Source of an `Image` or a `File`: exactly one field is set."""

    data: bytes | None
    path: str | os.PathLike[str] | None
    url: str | None = None

    def check(self, what: str) -> None:
        """Reject a missing source, several sources, and wrong types.

        Raises:
            ConfigError: The source is invalid.
        """
        names = [name for name, value in zip(self._fields, self, strict=True) if value is not None]
        if len(names) != 1:
            raise ConfigError(f"{what} needs one of data=, path=, url=; it has {', '.join(names) or 'none'}.")
        kinds: tuple[Any, ...] = ((bytes, bytearray), (str, os.PathLike), str)
        for name, value, kind in zip(self._fields, self, kinds, strict=True):
            kind_words = "bytes (use path=... for a file)" if name == "data" else "text"
            require(value is None or isinstance(value, kind), f"{what}: {name}", value, kind_words)
        if self.url is not None and not self.url.startswith("https://"):
            raise ConfigError(f"{what}: url must begin with https://; it is {self.url!r:.80}.")


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """Image for a model: a tool result, or an item of ``media=``. Set exactly one argument.

    Args:
        data: Bytes of a PNG, JPEG, GIF or WebP file.
        path: Path of such a file, read when the image becomes a message part.
        url: ``https://`` URL that the model's server fetches.

    Raises:
        ConfigError: No argument is set, or several are.
    """

    data: bytes | None = None
    path: str | os.PathLike[str] | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        _Source(self.data, self.path, self.url).check("Image")

    def __repr__(self) -> str:
        return f"Image({_source_words(self.data, self.path or self.url)})"

    def to_part(self, name: str = "image") -> dict[str, Any]:
        """Return the image as a part of a message; a large one is scaled down if Pillow is installed.

        Args:
            name: Name in errors if the image has no path.

        Raises:
            ImageError: The image cannot be read or sent.
        """
        return self.fitted(name).part

    def fitted(self, name: str = "image") -> Fitted:
        """Return the part, as `to_part` does, and a description of the conversion."""
        if self.url is not None:
            return Fitted({"type": "image_url", "image_url": {"url": self.url}})
        if self.path is not None:
            return fitted_image(_read(Path(self.path)), name=str(self.path))
        return fitted_image(bytes(self.data or b""), name=name)


@dataclass(frozen=True, slots=True, repr=False)
class File:
    """PDF, audio or text file for a model: a tool result, or an item of ``media=``.

    Args:
        data: Bytes of the file.
        path: Path of a file to use instead of data; read when the file becomes a message part.
        media_type: Media type, such as ``application/pdf``; from the path's extension if empty.
        name: Name shown to the model; the path's name if empty.

    Raises:
        ConfigError: Neither data nor path is set, or both are.
    """

    data: bytes | None = None
    path: str | os.PathLike[str] | None = None
    media_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _Source(self.data, self.path).check("File")
        words: tuple[object, ...] = (self.media_type, self.name)
        if not all(isinstance(word, str) for word in words):
            raise ConfigError(f"File: media_type and name must be text; they are {words!r:.80}.")
        if self.path is None and not self.media_type:
            raise ConfigError("File(data=...) needs media_type=..., such as 'application/pdf'.")

    def __repr__(self) -> str:
        return f"File({_source_words(self.data, self.path)}, {self.type!r})"

    @property
    def type(self) -> str:
        """Media type, in lower case and without parameters."""
        media_type = self.media_type or mimetypes.guess_type(str(self.path))[0] or "application/octet-stream"
        return media_type.partition(";")[0].strip().lower()

    @property
    def is_text(self) -> bool:
        """True if the media type is textual."""
        return (
            self.type.startswith("text/") or self.type in _TEXT_TYPES or self.type.endswith(("+json", "+xml"))
        )

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            ImageError: The file cannot be read.
        """
        return bytes(self.data) if self.data is not None else _read(Path(self.path or ""))

    def to_part(self, name: str = "file") -> dict[str, Any]:
        """Return the file as a part of a message; a text file as a text part.

        Args:
            name: Name if the file has none.

        Raises:
            ImageError: The file cannot be read or sent.
        """
        return self.fitted(name).part

    def fitted(self, name: str = "file") -> Fitted:
        """Return the part, as `to_part` does, and a description of the conversion."""
        shown = self.name or (Path(self.path).name if self.path is not None else name)
        data = self.read()
        if self.is_text:
            if len(data) > MAX_FILE_BYTES:
                raise ImageError(
                    model_text("file_too_large", name=shown, size=len(data), limit=MAX_FILE_BYTES)
                )
            return Fitted({"type": "text", "text": data.decode("utf-8", "replace")})
        return fitted_medium(data, name=shown)


def _source_words(data: bytes | None, place: object) -> str:
    return repr(str(place)) if data is None else f"{len(data):,} bytes"


def fitted_medium(data: bytes, *, name: str) -> Fitted:
    """Return an image, PDF or audio file as a part of a message; its bytes determine the type.

    Raises:
        ImageError: The type is unknown, or the file is truncated or too large.
    """
    form = next((form for begins, form in _FILES if begins(data)), None)
    if form is None:
        return fitted_image(data, name=name)
    if len(data) > MAX_FILE_BYTES:
        raise ImageError(
            model_text("file_too_large", name=name[:_SHOWN_NAME], size=len(data), limit=MAX_FILE_BYTES)
        )
    text = base64.b64encode(data).decode("ascii")
    if form != "pdf":
        return Fitted({"type": "input_audio", "input_audio": {"data": text, "format": form}})
    filename = Path(name).name if name.lower().endswith(".pdf") else "document.pdf"
    file = {"filename": filename, "file_data": f"data:application/pdf;base64,{text}"}
    return Fitted({"type": "file", "file": file})


def part_words(part: Mapping[str, Any], *, measured: bool = False) -> str:
    """Describe a part of a message for a model: its kind and size.

    Args:
        part: Part of a message, possibly untrusted.
        measured: True adds the size of a checked image in pixels.
    """
    kind = str(part.get("type"))
    inner = part.get(kind)
    details = inner if isinstance(inner, Mapping) else {}
    text = str(details.get("url") or details.get("file_data") or details.get("data") or "")
    if text.startswith("https://"):
        return model_text("media_at", kind="image", url=text[:200])
    head, _, data = text.rpartition(",")
    label = f"audio/{details.get('format')}" if kind == "input_audio" else head[5:].partition(";")[0] or kind
    name = f"{details['filename']}, " if details.get("filename") else ""
    size = ""
    if measured and kind == "image_url":
        info = inspect_image(base64.b64decode(data), name="image")
        size = f"{info.width} x {info.height}, "
    return model_text(
        "media_is", name=name, kind=label, size=size, bytes=len(data) * 3 // 4 - data[-2:].count("=")
    )


def image_part(data: bytes, *, name: str) -> dict[str, Any]:
    """Return an image as a part of a message; a large one is scaled down if Pillow is installed.

    Args:
        data: Bytes of a PNG, JPEG, GIF or WebP file.
        name: Name in errors, such as the path.

    Raises:
        ImageError: The data is not an image, is truncated, or is too large.
    """
    return fitted_image(data, name=name).part


def fitted_image(data: bytes, *, name: str) -> Fitted:
    """Return the message part, as `image_part` does, and a description of the conversion."""
    words = ""
    try:
        kind = inspect_image(data, name=name).kind
    except _TooLargeError as error:
        data, words = _smaller(data, error, name)
        kind = inspect_image(data, name=name).kind
    text = base64.b64encode(data).decode("ascii")
    return Fitted({"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{text}"}}, words)


def _smaller(data: bytes, error: ImageError, name: str) -> tuple[bytes, str]:
    if len(data) > MAX_FILE_BYTES:
        raise error
    original = image_info(data, name=name)
    try:
        smaller, width, height = shrunk(
            data, original.width * original.height, most_bytes=MAX_BYTES, most_side=MAX_SIDE
        )
    except ImportError:
        raise ImageError(f"{error} {model_text('image_extra')}") from None
    except ValueError:
        raise error from None
    return smaller, model_text("image_shrunk", width=width, height=height, size=len(data))


def inspect_image(data: bytes, *, name: str) -> ImageInfo:
    """Return the format and size of an image, and reject one that servers would reject.

    Raises:
        ImageError: The data is not an image, is truncated, or is too large.
    """
    shown = _shown(name)
    if len(data) > MAX_BYTES:
        raise _TooLargeError(model_text("image_too_large", name=shown, size=len(data), limit=MAX_BYTES))
    info = image_info(data, name=name)
    if max(info.width, info.height) <= MAX_SIDE:
        return info
    size = {"width": info.width, "height": info.height}
    raise _TooLargeError(model_text("image_sides", name=shown, limit=MAX_SIDE, **size))


def image_info(data: bytes, *, name: str) -> ImageInfo:
    """Read the header of an image of any size; arguments and errors as for `inspect_image`."""
    reader = next((read for begins, read in READERS if begins(data)), None)
    if reader is None:
        raise ImageError(model_text("no_image", name=_shown(name)))
    try:
        info = ImageInfo(*reader(data))
        if info.width and info.height:
            return info
    except (struct.error, IndexError, ValueError):
        pass
    raise ImageError(model_text("image_damaged", name=_shown(name)))


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..."
