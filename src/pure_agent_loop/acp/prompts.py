"""Convert the content blocks of a prompt to a task and its media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pure_agent_loop.acp.wire import invalid, nested, text
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.media import media_parts
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import clean_text, safe_str

MAX_TEXT = 100_000  # maximum characters of an embedded file; tools can read the rest


def read_prompt(blocks: Sequence[Mapping[str, Any]], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the task and its media.

    Args:
        folder: The session's folder. Files in this folder are named by relative path.

    Raises:
        RpcError: A block is invalid, or the prompt is empty.
    """
    texts: list[str] = []
    urls: list[str] = []
    for number, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "text":
            texts.append(text(block, "text"))
        elif kind == "resource_link":
            path = display_path(text(block, "uri"), folder)
            texts.append(model_text("link", name=text(block, "name"), place=path))
        elif kind == "resource":
            content, url = _resource(block, number, folder)
            texts.append(content)
            urls += [url] if url else []
        elif kind == "image":
            urls.append(_data_url(text(block, "mimeType"), text(block, "data")))
        else:
            raise invalid(f"prompt[{number}]: blocks of the type {kind!r:.80} are not supported.")
    try:
        media = media_parts(urls)
    except PureAgentLoopError as error:
        raise invalid(safe_str(error)) from error
    task = clean_text("\n\n".join(filter(None, texts)))
    if not task.strip() and not media:
        raise invalid("prompt must contain text or an image.")
    return task, media


def _resource(block: Mapping[str, Any], number: int, folder: Path) -> tuple[str, str]:
    """Return the text of an embedded file, and the data URL if the file is media."""
    inner = block.get("resource")
    if not isinstance(inner, dict):
        raise invalid(f"prompt[{number}].resource must be an object.")
    path, kind = display_path(text(inner, "uri"), folder), str(inner.get("mimeType") or "")
    if isinstance(inner.get("text"), str):
        content: str = inner["text"]
        if len(content) > MAX_TEXT:
            content = f"{content[:MAX_TEXT]}\n{model_text('left_out', count=len(content) - MAX_TEXT)}"
        return model_text("resource", place=path, text=content), ""
    blob = text(inner, "blob")
    if kind.startswith("image/") or kind == "application/pdf":
        return model_text("attached", place=path), _data_url(kind, blob)
    return model_text("not_readable", place=path, kind=kind or "?"), ""


def display_path(uri: str, folder: Path) -> str:
    """Return a file's path, relative if inside the folder. Other URIs are returned unchanged."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}{lines}"


def _data_url(kind: str, base64: str) -> str:
    return f"data:{kind};base64,{base64}"


def split_command(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Split a prompt into a slash command (without the slash) and its arguments; both may be empty."""
    first = nested({"first": blocks[0]}, "first", "text") if blocks else None
    if not isinstance(first, str) or not first.startswith("/"):
        return "", ""
    name, _, arguments = first[1:].strip().partition(" ")
    return name, arguments.strip()
