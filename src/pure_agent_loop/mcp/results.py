"""What came of a call, a resource or a prompt: from the types of the protocol to ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.mcp.words import say
from pure_agent_loop.media import File, Image
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, clean_text


def value_of(result: Any) -> Any:
    """What a tool of ours would have returned.

    Args:
        result: Of ``tools/call``.

    Raises:
        ToolExecutionError: The tool says that it failed.
    """
    items = [item for each in result.content for item in items_of(each)]
    if result.is_error:
        texts = [each for each in items if isinstance(each, str)]
        raise ToolExecutionError("\n".join(texts) or as_text(result.structured_content))
    if not items and result.structured_content is not None:
        return result.structured_content
    return joined(items)


def joined(items: list[Any]) -> Any:
    """Texts as one; a list where there are images and files between them."""
    if not items:
        return say("mcp_no_text")
    return "\n".join(items) if all(isinstance(each, str) for each in items) else items


def items_of(content: Any) -> Iterable[Any]:
    """A block of content as text, images and files."""
    kind = content.type
    if kind == "text":
        return [clean_text(content.text)]
    if kind in ("image", "audio"):
        return [_medium(content.data, content.mime_type, kind)]
    if kind == "resource":
        return [resource_of(content.resource)]
    about = f": {one_line(content.description or content.title or content.name)}"
    return [say("mcp_link", uri=one_line(content.uri), about=about)]


def resource_of(resource: Any) -> Any:
    """What a resource holds."""
    uri = one_line(resource.uri)
    blob = getattr(resource, "blob", None)
    if blob is None:
        return say("mcp_resource", uri=uri, text=clean_text(resource.text))
    return _medium(blob, resource.mime_type or "application/octet-stream", uri)


def _medium(data: str, media_type: str, name: str) -> Any:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return say("mcp_no_base64", kind=one_line(media_type))
    if media_type.startswith("image/"):
        return Image(data=decoded)
    return File(data=decoded, media_type=media_type or "application/octet-stream", name=one_line(name, 60))
