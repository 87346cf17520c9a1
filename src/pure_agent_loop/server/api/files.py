"""Images and files that came out of tools: listed, and sent as what can only be looked at or saved."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from pure_agent_loop.llm.messages import is_media
from pure_agent_loop.server.api.models import Answer, Count
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.api.sessions import session_in
from pure_agent_loop.server.entries import Sight
from pure_agent_loop.server.problems import not_found
from pure_agent_loop.sessions.stores.records import Record

# By their first bytes, whatever they are called; a browser runs nothing of these. The rest is only saved.
_KNOWN = (
    (b"\x89PNG\r\n", "image/png", "png"), (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF8", "image/gif", "gif"), (b"%PDF-", "application/pdf", "pdf"),
    (b"ID3", "audio/mpeg", "mp3"), (b"\xff\xfb", "audio/mpeg", "mp3"),
)  # fmt: skip
_RIFF = {b"WEBP": ("image/webp", "webp"), b"WAVE": ("audio/wav", "wav")}
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox"}


class ToolFile(Answer):
    """An image or a file that a tool gave: `number` is its place."""

    number: Count
    call_id: str
    tool: str
    media_type: str
    name: str
    bytes: Count


class ToolFiles(Answer):
    """Images and files that tools gave."""

    files: list[ToolFile]


@dataclass(frozen=True)
class _Found:
    call_id: str
    tool: str
    part: Mapping[str, Any]


def files_of(records: Sequence[Record], sight: Sight) -> list[_Found]:
    """What is no text in the results of a session, as far as somebody may see it, in the order of the calls.

    A hook may have kept back what a tool gave: only what the model got is in it.
    """
    tools: dict[str, str] = {}
    given: dict[str, list[dict[str, Any]]] = {}
    sent: list[dict[str, Any]] = []
    for record in records:
        data, value = record.data, record.data.get("value")
        if record.type == "outcome" and isinstance(value, dict) and value.get("parts"):
            given[str(data["key"]).partition(":tool:")[2]] = value["parts"]
        for message in data.get("messages", ()) if record.type in ("messages", "boundary") else ():
            tools |= {each["id"]: each["function"]["name"] for each in message.get("tool_calls") or ()}
            if is_media(message):
                sent += message["content"]
    return [
        _Found(call_id, tools.get(call_id, ""), part)
        for call_id, parts in given.items()
        for part in parts
        if part in sent and _data(part) and sight.shows(tools.get(call_id, ""))
    ]


def _data(part: Mapping[str, Any]) -> str:
    """What a part holds, in base64; empty for an address."""
    inner = part.get(str(part.get("type")))
    about = inner if isinstance(inner, Mapping) else {}
    text = str(about.get("url") or about.get("file_data") or about.get("data") or "")
    head, _, data = text.rpartition(",")
    return data if not head or head.startswith("data:") else ""


def _kind(data: bytes) -> tuple[str, str]:
    if data.startswith(b"RIFF") and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    for begin, kind, ending in _KNOWN:
        if data.startswith(begin):
            return kind, ending
    return "application/octet-stream", "bin"


def _about(number: int, found: _Found) -> ToolFile:
    text = _data(found.part)
    kind, ending = _kind(_decoded(text[:64]))
    named = found.part.get("file")
    name = str(named.get("filename") or "") if isinstance(named, Mapping) else ""
    return ToolFile(
        number=number,
        call_id=found.call_id,
        tool=found.tool,
        media_type=kind,
        name=name if name.endswith(f".{ending}") else f"{found.tool or 'file'}-{number}.{ending}",
        bytes=len(text) * 3 // 4 - text[-2:].count("="),
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


async def _found(asked: Asked) -> list[_Found]:
    session, hub = session_in(asked), asked.service.hub
    sight = asked.service.settings.sight_of(asked.person)
    try:
        loaded = await asyncio.to_thread(hub.sessions.load, session)
    except LookupError:
        if hub.of_session(session):
            return []  # it has only just begun
        raise
    return await asyncio.to_thread(files_of, loaded.records, sight)


async def _list(asked: Asked) -> ToolFiles:
    return ToolFiles(files=[_about(*each) for each in enumerate(await _found(asked), 1)])


async def _get(asked: Asked) -> Response:
    found, number = await _found(asked), asked.path["number"]
    if not number.isdecimal() or len(number) > 6 or not 0 < int(number) <= len(found):
        raise not_found("file")
    one = found[int(number) - 1]
    about = _about(int(number), one)
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", about.name)
    # Saved and never shown as a page, whoever asks for it and however: images and sounds show all the same.
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(about.name, safe='')}"
    headers = {**_HEADERS, "Content-Disposition": disposition}
    return Response(_decoded(_data(one.part)), 200, headers, about.media_type)


OPERATIONS = [
    Operation("GET", "/api/sessions/{session}/files", "session_files", "Images and files out of tools.",
              _list, ToolFiles, problems=(404,)),
    Operation("GET", "/api/sessions/{session}/files/{number}", "session_file", "One of them.", _get,
              media=("application/octet-stream", *(kind for _, kind, _ in _KNOWN),
                     *(kind for kind, _ in _RIFF.values())), problems=(404,)),
]  # fmt: skip
