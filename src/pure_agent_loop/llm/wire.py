"""Server-sent events, and the JSON in them, for any protocol. Pure: no I/O.

Unreadable data raises `LLMError` and is never skipped: no part of a response may be lost.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from typing import Any

from jiter import from_json

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.arguments import keep_doubles
from pure_agent_loop.llm.bounds import MAX_PART_BYTES, check_size
from pure_agent_loop.llm.values import JsonFields
from pure_agent_loop.support.parsing import JsonDecoder
from pure_agent_loop.support.text import safe_str, shorten

BOM = b"\xef\xbb\xbf"
_OBJECT_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*\{')


class SSEDecoder:
    """Decodes server-sent events from bytes split anywhere; lines end in LF, CRLF or CR.

    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only ``data`` fields are kept;
    comments, ids and event names are dropped.
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # bytes of an incomplete event
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the payloads of the events they complete."""
        # The usual case is one whole event. On bytes, `in` is several times slower than `find`.
        if data[:6] == b"data: " and data[-2:] == b"\n\n" and not (self._rest or self._after_cr):
            only = data[6:-2]
            if only.find(b"\n") < 0 and only.find(b"\r") < 0:
                self._at_start = False
                return [only]
        payloads: list[bytes] = []
        for event in self._events(data):
            payload = event[6:]
            if event[:6] == b"data: " and payload.find(b"\n") < 0:
                self._at_start = False
                payloads.append(payload)
            else:
                payloads += self._payload(event)
        return payloads

    def _events(self, data: bytes) -> list[bytes]:
        """Return the events that are complete, with LF line endings."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if data.find(b"\r") >= 0:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._rest:
            if (self._rest[-1:] + data).find(b"\n\n") < 0:
                check_size(len(self._rest) + len(data), "event")
                self._rest += data
                return []
            data = bytes(self._rest) + data
        *events, rest = data.split(b"\n\n")
        if len(data) > MAX_PART_BYTES:
            check_size(max(map(len, [*events, rest])), "event")
        self._rest = bytearray(rest)
        return events

    def flush(self) -> list[bytes]:
        """Return the payload of the last event, if no empty line ended it."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self._payload(rest)

    def _payload(self, event: bytes) -> list[bytes]:
        """Return the payload of an event, if it has one."""
        lines: list[bytes] = []
        for line in filter(None, map(bytes.rstrip, io.BytesIO(event), itertools.repeat(b"\n"))):
            field, _, value = (line.removeprefix(BOM) if self._at_start else line).partition(b":")
            self._at_start = False
            if field == b"data":
                lines.append(value.removeprefix(b" "))
            elif field == b"error" and value:  # older llama.cpp servers use `error` as a field name
                lines.append(b'{"error":' + value + b"}")
        return [b"\n".join(lines)] if lines else []


def parse_json(payload: bytes) -> JsonFields:
    """Parse one payload.

    Raises:
        LLMError: The payload is not a JSON object (``incomplete``, so the request is retried).
    """
    value = _parse(payload)
    if type(value) is dict:
        return value
    if isinstance(value, list) and len(value) == 1:  # Google wraps errors in a list
        value = value[0]
    if not isinstance(value, dict):
        raise unreadable("JSON that is not an object", payload)
    return value


def split_array(payload: bytes) -> list[bytes]:
    """Return the items of a JSON array as payloads; return an empty array or any other payload unchanged.

    Raises:
        LLMError: The array is not valid JSON.
    """
    items = _parse(payload) if payload.lstrip()[:1] == b"[" else None
    return [json.dumps(item).encode() for item in items] if items else [payload]


def _parse(payload: bytes) -> Any:
    at = payload.find(b'"arguments"')
    may_double = at >= 0 and _OBJECT_ARGUMENTS.search(payload, at)
    if not may_double:  # the fast parser keeps only the last of duplicate keys
        try:
            return from_json(payload)
        except ValueError:  # the fast parser also rejects lone surrogates and raw control characters
            pass
    text = payload.removeprefix(BOM).decode("utf-8", "replace")
    try:
        return json.loads(text, cls=JsonDecoder, strict=False, object_pairs_hook=keep_doubles)
    except ValueError as error:
        raise unreadable("invalid JSON", payload) from error


def web_page() -> LLMError:
    """Return the error for a web page in place of a response, such as a login page."""
    return LLMError(
        "The server returned a web page instead of an API response. Check base_url; it usually ends in /v1.",
        kind="bad_request",
    )


def unreadable(what: str, data: object) -> LLMError:
    """Return the error for data that cannot be read."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else safe_str(data)
    return LLMError(f"The server sent {what}: {shorten(text, 120)}", kind="incomplete")
