"""Server-sent events: bytes to the payloads of events. Pure: no I/O."""

from __future__ import annotations

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

    def feed(self, data: bytes) -> list[bytes]:
        """Take in bytes; the payload of each event they complete."""
        payloads: list[bytes] = []
        for line in self._lines(data):
            if line[:6] == b"data: ":  # nearly always
                self._at_start = False
                self._data.append(line[6:])
            elif line:
                self._add_line(line)
            elif self._data:
                first, *more = self._data  # more than one line is rare
                payloads.append(b"\n".join(self._data) if more else first)
                self._data = []
        return payloads

    def _lines(self, data: bytes) -> list[bytes]:
        """The lines that are complete by now."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            self._rest.append(data)
            return []
        *lines, rest = data.split(b"\n")
        if self._rest:
            lines[0] = b"".join([*self._rest, lines[0]])
        self._rest = [rest] if rest else []
        return lines

    def flush(self) -> list[bytes]:
        """A last event that was not closed by an empty line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._add_line(rest)
        return [b"\n".join(self._data)] if self._data else []

    def _add_line(self, line: bytes) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"error" and value:  # older llama.cpp servers name the field after the event
            self._data.append(b'{"error":' + value + b"}")
