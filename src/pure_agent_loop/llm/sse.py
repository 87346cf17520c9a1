"""Server-sent events: bytes to the payloads of events. Pure: no I/O."""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Server-sent events from bytes that may be cut anywhere; lines may end in LF, CRLF or CR.

    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only ``data`` fields matter
    here; comments, ids and event names are dropped.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the pieces of an event that is not complete
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[bytes]:
        """Take in bytes; the payload of each event they complete."""
        payloads: list[bytes] = []
        for event in self._events(data):
            payload = event[6:]
            # Nearly always. Of bytes, `in` costs several times what `find` does.
            if event[:6] == b"data: " and payload.find(b"\n") < 0:
                self._at_start = False
                payloads.append(payload)
            else:
                payloads += self._payload(event)
        return payloads

    def _events(self, data: bytes) -> list[bytes]:
        """The events that are complete by now, with LF between their lines."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if data.find(b"\r") >= 0:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not data:
            return []
        if self._rest:
            if (self._rest[-1][-1:] + data).find(b"\n\n") < 0:
                self._rest.append(data)
                return []
            data = b"".join([*self._rest, data])
        *events, rest = data.split(b"\n\n")
        self._rest = [rest] if rest else []
        return events

    def flush(self) -> list[bytes]:
        """A last event that was not closed by an empty line."""
        rest, self._rest = b"".join(self._rest), []
        return self._payload(rest)

    def _payload(self, event: bytes) -> list[bytes]:
        """The payload of an event, if it has one."""
        found: list[bytes] = []
        for line in filter(None, event.split(b"\n")):
            field, _, value = (line.removeprefix(BOM) if self._at_start else line).partition(b":")
            self._at_start = False
            if field == b"data":
                found.append(value.removeprefix(b" "))
            elif field == b"error" and value:  # older llama.cpp servers name the field after the event
                found.append(b'{"error":' + value + b"}")
        return [b"\n".join(found)] if found else []
