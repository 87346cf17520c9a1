"""Bounded output of a command: the head, the tail, and the number of bytes cut between them."""

from __future__ import annotations

from collections.abc import Callable

from pure_agent_loop.support.language import model_text


class Captured:
    """A bounded buffer. The buffer holds about `limit` bytes, and twice as many while it is cut.

    Args:
        limit: Bytes to keep: a third from the start, the rest from the end.
        echo: Called with all bytes as they arrive.
    """

    def __init__(self, limit: int, echo: Callable[[bytes], object] | None = None) -> None:
        self._echo = echo
        self._head_room = limit // 3
        self._tail_room = max(1, limit - self._head_room)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    @property
    def cut(self) -> int:
        """Number of bytes left out."""
        return max(0, self.total - self._head_room - self._tail_room)

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        if self._echo is not None:
            self._echo(data)
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_room :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room]

    def text(self) -> str:
        """Return the captured output. Bytes that are not UTF-8, and NUL, become U+FFFD."""
        if not self.cut:
            return _decoded(bytes(self._head + self._tail))
        tail = bytes(self._tail[-self._tail_room :])
        head = bytes(self._head).decode("utf-8", "replace").removesuffix("\ufffd")
        # The tail may begin within a character.
        rest = next((number for number, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        cut = model_text("bytes_left_out", count=self.cut)
        return head.replace("\0", "\ufffd") + cut + _decoded(tail[rest:])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
