"""Convert results of calls, prompts and resources to the protocol's types."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types

from pure_agent_loop.media import File, Image
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.text import as_text

SESSIONS = "pal://sessions/"


def uri_of(session: str) -> str:
    """Return the URI of a session."""
    return f"{SESSIONS}{quote(session, safe='')}"


def session_at(uri: str) -> str:
    """Return the session that a URI names; empty if it does not match ``pal://sessions/{id}``."""
    name = uri.removeprefix(SESSIONS)
    # A session name is one path segment, with its slashes written as %2F: changes are sent under that URI
    # only.
    return "" if any(mark in name for mark in "/?#") else unquote(name)


def failed(text: str) -> Any:
    """Return an error result."""
    return result_of(ToolOutcome(text, is_error=True))


def result_of(outcome: ToolOutcome, session: str = "") -> Any:
    """Return the result of a call.

    Args:
        session: The session of the called agent; empty for none.
    """
    blocks = map(_block, outcome.parts or ())
    content: list[Any] = [types.TextContent(type="text", text=outcome.text), *blocks]
    if session:
        content.append(types.ResourceLink(type="resource_link", uri=uri_of(session), name=session))
    return types.CallToolResult(content=content, is_error=outcome.is_error)


def messages_of(outcome: ToolOutcome) -> list[Any]:
    """Return the outcome of a prompt as user messages: one per text, image and file."""
    items = outcome.value if isinstance(outcome.value, (list, tuple)) else [outcome.value]
    if not any(isinstance(item, (Image, File)) for item in items):
        items = [outcome.text]
    blocks = [
        _block_of(item)
        if isinstance(item, (Image, File))
        else types.TextContent(type="text", text=item if isinstance(item, str) else as_text(item))
        for item in items
    ]
    return [types.PromptMessage(role="user", content=block) for block in blocks]


def contents_of(uri: str, outcome: ToolOutcome) -> Any:
    """Return the content of a resource: a string, a file or an image; anything else as JSON."""
    value = outcome.value
    if isinstance(value, File) and not value.is_text:
        data = base64.b64encode(value.read()).decode("ascii")
        return types.BlobResourceContents(uri=uri, mime_type=value.type, blob=data)
    if isinstance(value, Image):
        media_type, data = _data_of(value.to_part())
        return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=data)
    is_plain = value is None or isinstance(value, str)
    media_type = value.type if isinstance(value, File) else "text/plain" if is_plain else "application/json"
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=outcome.text)


def _block_of(item: Image | File) -> Any:
    if isinstance(item, Image):
        return _block(item.to_part())
    part = item.to_part()
    if part["type"] != "text":
        return _block(part)
    text, name = ToolOutcome(str(part["text"]), value=item), item.name or Path(item.path or "file").name
    return types.EmbeddedResource(type="resource", resource=contents_of(_uri_of(name), text))


def _block(part: dict[str, Any]) -> Any:
    """Convert a message part to a content block."""
    kind = part["type"]
    if kind == "input_audio":
        audio = part[kind]
        return types.AudioContent(type="audio", data=audio["data"], mime_type=f"audio/{audio['format']}")
    media_type, data = _data_of(part)
    if not media_type:  # a URL: passed to the client unchanged
        return types.TextContent(type="text", text=data)
    if kind == "image_url":
        return types.ImageContent(type="image", data=data, mime_type=media_type)
    uri = _uri_of(str(part[kind].get("filename", "file")))
    return types.EmbeddedResource(
        type="resource", resource=types.BlobResourceContents(uri=uri, mime_type=media_type, blob=data)
    )


def _data_of(part: dict[str, Any]) -> tuple[str, str]:
    """Return the media type and the base64 data of a part; for a URL an empty type and the URL."""
    url = str(part[part["type"]].get("url") or part[part["type"]].get("file_data"))
    head, comma, data = url.partition(",")
    return (
        (head.removeprefix("data:").partition(";")[0], data) if head[:5] == "data:" and comma else ("", url)
    )


def _uri_of(name: str) -> str:
    return f"file:///{quote(name)}"
