"""Convert results of calls, resources and prompts from the protocol's types."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.mcp.lenient import left_out
from pure_agent_loop.media import File, Image
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, clean_text


def value_of(result: Any) -> Any:
    """Return the value that an equivalent Python tool would return.

    Args:
        result: The result of ``tools/call``.

    Raises:
        ToolExecutionError: The tool reports a failure.
    """
    items = [item for block in result.content for item in items_of(block)]
    structured, notes = result.structured_content, left_out(result)
    if result.is_error:
        texts = [*(item for item in items if isinstance(item, str)), *notes]
        texts += [] if items or structured is None else [as_text(structured)]
        raise ToolExecutionError("\n".join(texts) or model_text("mcp_no_text"))
    if items or structured is None:
        return joined([*items, *notes])
    return joined([as_text(structured), *notes]) if notes else structured


def joined(items: list[Any]) -> Any:
    """Join texts into one; return a list if there are images or files among them."""
    if not items:
        return model_text("mcp_no_text")
    return "\n".join(items) if all(isinstance(item, str) for item in items) else items


def items_of(content: Any) -> Iterable[Any]:
    """Yield a content block as text, images and files."""
    kind = content.type
    if kind == "text":
        return [clean_text(content.text)]
    if kind in ("image", "audio"):
        return [_medium(content.data, content.mime_type, kind)]
    if kind == "resource":
        return [resource_of(content.resource)]
    description = f": {one_line(content.description or content.title or content.name)}"
    return [model_text("mcp_link", uri=one_line(content.uri), about=description)]


def resource_of(resource: Any) -> Any:
    """Return the content of a resource."""
    uri = one_line(resource.uri)
    blob = getattr(resource, "blob", None)
    if blob is None:
        return model_text("mcp_resource", uri=uri, text=clean_text(resource.text))
    return _medium(blob, resource.mime_type or "application/octet-stream", uri)


def _medium(data: str, media_type: str, name: str) -> Any:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return model_text("mcp_no_base64", kind=one_line(media_type))
    if media_type.startswith("image/"):
        return Image(data=decoded)
    return File(data=decoded, media_type=media_type or "application/octet-stream", name=one_line(name, 60))
