"""What came of a call, of a prompt and of a resource: from our values to the types of the protocol."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp_types as types

from pure_agent_loop.media import File, Image
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.text import as_text

SESSIONS = "pal://sessions/"


def failed(text: str) -> Any:
    """A result that says what went wrong."""
    return result_of(ToolOutcome(text, is_error=True))


def result_of(outcome: ToolOutcome, session: str = "") -> Any:
    """The result of a call.

    Args:
        outcome: What came of it.
        session: The session of the agent that did it; empty for none.
    """
    blocks = map(_block, outcome.parts or ())
    content: list[Any] = [types.TextContent(type="text", text=outcome.text), *blocks]
    if session:
        content.append(types.ResourceLink(type="resource_link", uri=f"{SESSIONS}{session}", name=session))
    return types.CallToolResult(content=content, is_error=outcome.is_error)


def messages_of(outcome: ToolOutcome) -> list[Any]:
    """What a prompt gave, as messages of the user: one for each text, image and file."""
    items = outcome.value if isinstance(outcome.value, (list, tuple)) else [outcome.value]
    if not any(isinstance(each, (Image, File)) for each in items):
        items = [outcome.text]
    blocks = [
        _block_of(each)
        if isinstance(each, (Image, File))
        else types.TextContent(type="text", text=each if isinstance(each, str) else as_text(each))
        for each in items
    ]
    return [types.PromptMessage(role="user", content=each) for each in blocks]


def contents_of(uri: str, outcome: ToolOutcome) -> Any:
    """What a resource gave: a text, a file or an image; anything else is its JSON."""
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
    """A part of a message as a block of content."""
    kind = part["type"]
    if kind == "input_audio":
        sound = part[kind]
        return types.AudioContent(type="audio", data=sound["data"], mime_type=f"audio/{sound['format']}")
    media_type, data = _data_of(part)
    if not media_type:  # an address: the client gets it as such
        return types.TextContent(type="text", text=data)
    if kind == "image_url":
        return types.ImageContent(type="image", data=data, mime_type=media_type)
    uri = _uri_of(str(part[kind].get("filename", "file")))
    return types.EmbeddedResource(
        type="resource", resource=types.BlobResourceContents(uri=uri, mime_type=media_type, blob=data)
    )


def _data_of(part: dict[str, Any]) -> tuple[str, str]:
    """The media type and the base64 of a part; of an address no type, and the address."""
    url = str(part[part["type"]].get("url") or part[part["type"]].get("file_data"))
    head, comma, data = url.partition(",")
    return (
        (head.removeprefix("data:").partition(";")[0], data) if head[:5] == "data:" and comma else ("", url)
    )


def _uri_of(name: str) -> str:
    return f"file:///{quote(name)}"
