"""Base of the readers for makers' own protocols: bytes become events, or one document. Pure: no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Protocol

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.bounds import check_size
from pure_agent_loop.llm.values import Delta, JsonFields
from pure_agent_loop.llm.wire import SSEDecoder, parse_json, split_array, web_page
from pure_agent_loop.support.text import shorten

_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError)


class Decoder(Protocol):
    """Decodes a stream's bytes, split anywhere, to the payloads of its events."""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Add bytes; return the payloads of the events they complete."""

    def flush(self) -> Iterable[bytes]:
        """Return the last payloads at the end of the body."""


class ProtocolReader(ABC):
    """Reads deltas from a response: a stream of events, or one JSON document.

    Set `is_document` before the first byte, according to the response's content type; a stream that begins
    like JSON is also read as a document.
    """

    stream_type: ClassVar[str] = "event-stream"  # part of the content type of a stream

    def __init__(self) -> None:
        self.is_document = False
        self.is_done = False  # the response is complete; the rest of the body is ignored
        self._has_begun = False
        self._document = bytearray()
        self._decoder: Decoder = SSEDecoder()

    def feed(self, data: bytes) -> Iterator[Delta]:
        """Add bytes; yield the deltas they complete.

        Raises:
            LLMError: The bytes cannot be read, or report a failed request.
        """
        if not self._has_begun and data.strip():
            self._has_begun = True
            if data.lstrip()[:1] == b"<":
                raise web_page()
            self.is_document = self.is_document or data.lstrip()[:1] in (b"{", b"[")
        if self.is_document:
            check_size(len(self._document) + len(data), "response")
            self._document += data
            return
        yield from self._read(self._decoder.feed(data))

    def close(self) -> Iterator[Delta]:
        """Yield the last deltas at the end of the body. Raises the errors of `feed`."""
        if self.is_document:
            # Some servers send a whole stream as one array.
            *chunks, whole = split_array(bytes(self._document))
            yield from self._read(chunks)
            yield from _guarded(self._whole, whole, "response")
            return
        yield from self._read(self._decoder.flush())
        if not self.is_done:
            yield from self._end_of_stream()

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            if not self.is_done and payload.strip() not in (b"", b"[DONE]"):
                yield from _guarded(self._event, payload, "event")

    @abstractmethod
    def _event(self, event: JsonFields) -> Iterator[Delta]:
        """Read an event of a stream."""

    @abstractmethod
    def _whole(self, document: JsonFields) -> Iterator[Delta]:
        """Read a whole response."""

    @abstractmethod
    def _end_of_stream(self) -> Iterator[Delta]:
        """Complete a response whose stream ended without a final event, or raise `LLMError`."""


def _guarded(read: Callable[[JsonFields], Iterator[Delta]], payload: bytes, what: str) -> Iterator[Delta]:
    """Yield the deltas that a method reads; unexpected data is reported as an incomplete response."""
    try:
        yield from read(parse_json(payload))
    except _UNREADABLE as error:
        text = shorten(payload.decode("utf-8", "replace"), 120)
        raise LLMError(f"The server sent an unreadable {what}: {text}", kind="incomplete") from error


def checked_string(value: object) -> str:
    """Return a string; raise `TypeError` for any other type."""
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def is_error(event: JsonFields) -> bool:
    """Return True for an event that reports an error; False for an empty field, such as ``error: null``."""
    kind, details = event.get("type"), event.get("error")
    return bool(details or (kind and (event.get("message") or event.get("code")))) and kind in ("error", None)
