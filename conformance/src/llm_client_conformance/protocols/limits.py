"""Limits of real servers: a request beyond them gets the real error text, but is not a client's fault.

Sources of the error texts: anthropics/claude-code#17513 (sizes), #24541 (numbers of images), the Messages
API's schema check of tools, and OpenAI's errors for ids (`string_above_max_length`).
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MAX_MEDIA, _MANY, _MANY_PIXELS, _PIXELS, _MAX_ID = 100, 20, 2_000, 8_000, 64
_PNG = b"\x89PNG\r\n\x1a\n"


def messages_refusal(body: Mapping[str, Any]) -> str:
    """Return the Messages API's error text for a request beyond the limits; empty if within them."""
    for number, tool in enumerate(body.get("tools") or ()):
        if not all(map(_PROPERTY.fullmatch, _property_names(tool.get("input_schema")))):
            return (
                f"tools.{number}.custom.input_schema.properties: Property keys should match pattern "
                "'^[a-zA-Z0-9_.-]{1,64}$'"
            )
    sources = [source for source in _dicts(body.get("messages"), "source") if source.get("type") == "base64"]
    if len(sources) > _MAX_MEDIA:
        return f"too many images and documents: {len(sources)} + 0 > {_MAX_MEDIA}"
    most, what = (_MANY_PIXELS, " for many-image requests") if len(sources) > _MANY else (_PIXELS, "")
    if any(max(_size_of(source)) > most for source in sources):
        return f"At least one of the image dimensions exceed max allowed size{what}: {most} pixels"
    return ""


def responses_refusal(body: Mapping[str, Any]) -> str:
    """Return the Responses API's error text for a request beyond the limits; empty if within them."""
    for number, item in enumerate(body.get("input") or ()):
        if (length := len(str(item.get("call_id") or ""))) > _MAX_ID:
            return (
                f"Invalid 'input[{number}].call_id': string too long. Expected a string with maximum length "
                f"{_MAX_ID}, but got a string with length {length} instead."
            )
    return ""


def _property_names(schema: Any) -> Iterator[str]:
    for properties in _dicts(schema, "properties"):
        yield from properties


def _dicts(value: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects under a key, at any depth."""
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if key == name and isinstance(inner, Mapping):
            yield inner
        yield from _dicts(inner, name)
    for inner in value if isinstance(value, list) else ():
        yield from _dicts(inner, name)


def _size_of(source: Mapping[str, Any]) -> tuple[int, int]:
    """Return width and height of a PNG; (0, 0) for other data."""
    try:
        head = base64.b64decode(source["data"][:32])
    except ValueError:
        return 0, 0
    return struct.unpack(">II", head[16:24]) if head.startswith(_PNG) else (0, 0)
