"""Bounded command output, as a terminal shows it: head, tail, and the number of bytes cut in between."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable

from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.screen import WrittenScreen, written_text

RAW_TIMES = 4  # raw bytes kept per byte of the tail; several, because carriage returns may overwrite text


class Captured:
    """A bounded buffer. The head is kept as a terminal would show it, the rest as raw bytes.

    Args:
        limit: Bytes of the text: a third from the start, the rest from the end.
        echo: Called with all bytes as they arrive.
    """

    def __init__(self, limit: int, echo: Callable[[bytes], object] | None = None) -> None:
        self._echo = echo
        self._head_room = limit // 3
        self._tail_room = max(1, limit - self._head_room)
        self._raw_room = RAW_TIMES * self._tail_room
        self._head = bytearray()
        self._tail = bytearray()
        self._decoder, self._screen = getincrementaldecoder("utf-8")("replace"), WrittenScreen()
        self._after = 0  # bytes after the head
        self.cut = 0
        """Number of bytes left out, once `text` was called."""

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        if self._echo is not None:
            self._echo(data)
        if len(self._head) < self._head_room:
            self._head += self._screen.feed(self._decoder.decode(data)).encode()
            return
        self._after += len(data)
        self._tail += data[-self._raw_room :]
        if len(self._tail) > 2 * self._raw_room:
            del self._tail[: -self._raw_room]

    def text(self) -> str:
        """Return the captured output. Bytes that are not UTF-8, and NUL, become U+FFFD."""
        lost = max(0, self._after - self._raw_room)
        raw = bytes(self._tail[-self._raw_room :])
        if lost:
            self._head += self._screen.close().encode()
            tail = written_text(_whole(raw).decode("utf-8", "replace"))
        else:
            tail = self._screen.feed(self._decoder.decode(raw, final=True)) + self._screen.close()
        head, data = bytes(self._head), tail.encode()
        extra = len(head) + len(data) - self._head_room - self._tail_room
        if extra > 0:
            whole = head + data
            head, data = whole[: self._head_room], whole[-self._tail_room :]
        self.cut = lost + max(0, extra)
        if not self.cut:
            return _decoded(head + data)
        cut = model_text("bytes_left_out", count=self.cut)
        return (
            head.decode("utf-8", "replace").removesuffix("\ufffd").replace("\0", "\ufffd")
            + cut
            + _decoded(_whole(data))
        )


def _whole(data: bytes) -> bytes:
    """Drop the bytes of an incomplete first UTF-8 character."""
    return data[next((number for number, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0) :]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
