"""Server-sent events: bytes to the payloads of events. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Server-sent events from bytes that may be cut anywhere; lines may end in LF, CRLF or CR.

    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only ``data`` fields matter
    here; comments, ids and event names are dropped.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the pieces of a line that is not complete
        self._data: list[bytes] = []
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in bytes; yield the payload of each event they complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if data.endswith(b"\r"):
            self._after_cr = True
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._rest.append(data)
        if b"\n" not in data:
            return
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        for line in lines:
            if line:
                self._add_line(line)
            elif self._data:
                yield self._take()

    def flush(self) -> Iterator[bytes]:
        """Yield a last event that was not closed by an empty line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._add_line(rest)
        if self._data:
            yield self._take()

    def _add_line(self, line: bytes) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"error" and value:  # older llama.cpp servers name the field after the event
            self._data.append(b'{"error":' + value + b"}")

    def _take(self) -> bytes:
        lines, self._data = self._data, []
        return lines[0] if len(lines) == 1 else b"\n".join(lines)
