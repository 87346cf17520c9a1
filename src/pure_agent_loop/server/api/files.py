"""Operations on a session's images and files: list them, and download them safely in a browser."""

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
from pure_agent_loop.server.api.models import ApiModel, SentFile
from pure_agent_loop.server.api.operation import ApiRequest, Operation, session_in
from pure_agent_loop.server.entries import Visibility
from pure_agent_loop.server.problems import not_found
from pure_agent_loop.sessions.stores.records import Record

# Types are detected by the first bytes, never by the name. Browsers execute none of these types, and all
# other content is served as binary data.
_KNOWN = (
    (b"\x89PNG\r\n", "image/png", "png"), (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF8", "image/gif", "gif"), (b"%PDF-", "application/pdf", "pdf"),
    (b"ID3", "audio/mpeg", "mp3"), (b"\xff\xfb", "audio/mpeg", "mp3"),
)  # fmt: skip
_RIFF = {b"WEBP": ("image/webp", "webp"), b"WAVE": ("audio/wav", "wav")}
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox"}


class ToolFile(SentFile):
    """An image or a file. `call_id` and `tool` name the call that returned it; empty if a person sent it."""

    call_id: str
    tool: str


class ToolFiles(ApiModel):
    """Images and files that tools returned, and that people sent."""

    files: list[ToolFile]


@dataclass(frozen=True)
class _FilePart:
    call_id: str
    tool: str
    part: Mapping[str, Any]


def files_of(records: Sequence[Record], visibility: Visibility) -> list[_FilePart]:
    """Return a session's visible files, from tool results and from people's messages, in recorded order.

    Files that a hook removed are left out, because the model never received them.
    """
    tools: dict[str, str] = {}
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}  # key: (call id, 0); for a message, ("", number)
    sent: list[dict[str, Any]] = []
    for record in records:
        data, value = record.data, record.data.get("value")
        if record.type == "outcome" and isinstance(value, dict) and value.get("parts"):
            found[str(data["key"]).partition(":tool:")[2], 0] = value["parts"]
        for message in data.get("messages", ()) if record.type in ("messages", "boundary") else ():
            tools |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
            if message["role"] == "user" and isinstance(message["content"], list):
                sent += message["content"]
                if not is_media(message) and message["content"] not in found.values():
                    found["", len(found)] = message["content"]
    return [
        _FilePart(call_id, tools.get(call_id, ""), part)
        for (call_id, _), parts in found.items()
        for part in parts
        if part in sent and _data(part) and (not call_id or visibility.shows(tools.get(call_id, "")))
    ]


def sent_files(parts: Sequence[Mapping[str, Any]], files: Sequence[_FilePart]) -> list[SentFile]:
    """Return the files that a person sent with a message, with their numbers in the list of files."""
    numbers = [next((n for n, file in enumerate(files, 1) if file.part == part), 0) for part in parts]
    found = [_model(number, files[number - 1]) for number in numbers if number]
    return [SentFile.of(file) for file in found]


def _data(part: Mapping[str, Any]) -> str:
    """Return the base64 data of a part; empty for a URL."""
    inner = part.get(str(part.get("type")))
    fields = inner if isinstance(inner, Mapping) else {}
    text = str(fields.get("url") or fields.get("file_data") or fields.get("data") or "")
    head, _, data = text.rpartition(",")
    return data if not head or head.startswith("data:") else ""


def _kind(data: bytes) -> tuple[str, str]:
    if data.startswith(b"RIFF") and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    kinds = ((kind, suffix) for prefix, kind, suffix in _KNOWN if data.startswith(prefix))
    return next(kinds, ("application/octet-stream", "bin"))


def _model(number: int, file: _FilePart) -> ToolFile:
    text = _data(file.part)
    kind, suffix = _kind(_decoded(text[:64]))
    fields = file.part.get("file")
    name = str(fields.get("filename") or "") if isinstance(fields, Mapping) else ""
    return ToolFile(
        number=number,
        call_id=file.call_id,
        tool=file.tool,
        media_type=kind,
        name=name if name.endswith(f".{suffix}") else f"{file.tool or 'file'}-{number}.{suffix}",
        bytes=len(text) * 3 // 4 - text[-2:].count("="),
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


async def _files(request: ApiRequest) -> list[_FilePart]:
    session, hub = session_in(request), request.service.hub
    visibility = request.service.settings.visibility_of(request.person)
    try:
        loaded = await asyncio.to_thread(hub.sessions.store.read, session)
    except LookupError:
        if hub.of_session(session):
            return []  # the run has started, but its session has not been stored yet
        raise
    return await asyncio.to_thread(files_of, loaded.records, visibility)


async def _list(request: ApiRequest) -> ToolFiles:
    files = await _files(request)
    return ToolFiles(files=[_model(number, file) for number, file in enumerate(files, 1)])


async def _get(request: ApiRequest) -> Response:
    files, number = await _files(request), request.path["number"]
    if not number.isdecimal() or len(number) > 6 or not 0 < int(number) <= len(files):
        raise not_found("file")
    file = files[int(number) - 1]
    model = _model(int(number), file)
    ascii_name = re.sub(r"[^A-Za-z0-9._-]", "_", model.name)
    # Always an attachment, so that it never opens as a page; <img> and <audio> ignore the header.
    disposition = f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(model.name, safe='')}"
    headers = {**_HEADERS, "Content-Disposition": disposition}
    return Response(_decoded(_data(file.part)), 200, headers, model.media_type)


OPERATIONS = [
    Operation("GET", "/api/sessions/{session}/files", "session_files", "List files that tools returned.",
              _list, ToolFiles, problems=(404,)),
    Operation("GET", "/api/sessions/{session}/files/{number}", "session_file", "Download a file.", _get,
              media=("application/octet-stream", *(kind for _, kind, _ in _KNOWN),
                     *(kind for kind, _ in _RIFF.values())), problems=(404,)),
]  # fmt: skip
