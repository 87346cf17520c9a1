"""What a person has sent with a prompt, as a task and its media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pure_agent_loop.acp.params import below, text, wrong
from pure_agent_loop.acp.words import say
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.media import media_parts
from pure_agent_loop.support.text import clean_text, safe_str

_PDF = "application/pdf"
MOST_TEXT = 100_000  # characters of a file that the editor puts in; tools can read the rest


def read_prompt(blocks: Sequence[Mapping[str, Any]], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """The task, and the media that come with it.

    Args:
        blocks: Content blocks of the protocol.
        folder: Where the session is; what lies in it is named by its path there.

    Raises:
        RpcError: A block cannot be read, or there is nothing in them.
    """
    texts: list[str] = []
    urls: list[str] = []
    for number, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "text":
            texts.append(text(block, "text"))
        elif kind == "resource_link":
            place = named(text(block, "uri"), folder)
            texts.append(say("link", name=text(block, "name"), place=place))
        elif kind == "resource":
            words, url = _resource(block, number, folder)
            texts.append(words)
            urls += [url] if url else []
        elif kind == "image":
            urls.append(_data(text(block, "mimeType"), text(block, "data")))
        else:
            raise wrong(f"prompt[{number}]: a block of the type {kind!r:.80} cannot be read here.")
    try:
        media = media_parts(urls)
    except PureAgentLoopError as error:
        raise wrong(safe_str(error)) from error
    task = clean_text("\n\n".join(filter(None, texts)))
    if not task.strip() and not media:
        raise wrong("prompt must hold a text or an image.")
    return task, media


def _resource(block: Mapping[str, Any], number: int, folder: Path) -> tuple[str, str]:
    """A file that the editor has put in: its words, and the address of what is no text."""
    inner = block.get("resource")
    if not isinstance(inner, dict):
        raise wrong(f"prompt[{number}].resource must be an object.")
    place, kind = named(text(inner, "uri"), folder), str(inner.get("mimeType") or "")
    if isinstance(inner.get("text"), str):
        words: str = inner["text"]
        if len(words) > MOST_TEXT:
            words = f"{words[:MOST_TEXT]}\n{say('left_out', count=len(words) - MOST_TEXT)}"
        return say("resource", place=place, text=words), ""
    blob = text(inner, "blob")
    if kind.startswith("image/") or kind == _PDF:
        return say("attached", place=place), _data(kind, blob)
    return say("not_readable", place=place, kind=kind or "?"), ""


def named(uri: str, folder: Path) -> str:
    """A file of the folder by its path in it; anything else as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}{lines}"


def _data(kind: str, base64: str) -> str:
    return f"data:{kind};base64,{base64}"


def first_word(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The command that a prompt begins with, without its slash, and what stands behind it; empty for none."""
    first = below({"first": blocks[0]}, "first", "text") if blocks else None
    if not isinstance(first, str) or not first.startswith("/"):
        return "", ""
    name, _, words = first[1:].strip().partition(" ")
    return name, words.strip()
