"""Server-sent events: framing over any cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.llm.wire import SSEDecoder

from .streams import cut


def payloads(data: bytes, sizes: list[int] | None = None) -> list[bytes]:
    decoder = SSEDecoder()
    found = [payload for piece in cut(data, sizes or []) for payload in decoder.feed(piece)]
    return [*found, *decoder.flush()]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"]),
        (b"data\n\n", [b""]),
        (b": comment\n\ndata: a\n: comment\n\n:\n\n", [b"a"]),
        (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"event: ping\n\ndata: a\n\n", [b"a"]),
        (b"dataset: x\n\ndata: a\n\n", [b"a"]),
        (b" data: x\n\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"data: a\n\ndata: b\n", [b"a", b"b"]),
        (b"data: a: b:c\n\n", [b"a: b:c"]),
        ("data: né 😀\n\n".encode(), ["né 😀".encode()]),
        (b'error: {"code": 500}\n\n', [b'{"error": {"code": 500}}']),
        (b"", []),
    ],
)
def test_framing(data: bytes, expected: list[bytes]):
    assert payloads(data) == expected
    assert payloads(data, [1] * len(data)) == expected


ANY_LINES = st.lists(
    st.sampled_from(
        [b"data: x", b"data:y ", b"data: \xf0\x9f\x98\x80", b": c", b"id: 1", b"", b"\xef\xbb\xbf"]
    )
)


@given(ANY_LINES, st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"])), st.lists(st.integers(0, 9)))
def test_neither_the_cut_nor_the_line_ends_matter(lines: list[bytes], ends: list[bytes], sizes: list[int]):
    plain = b"".join(line + b"\n" for line in lines)
    other = b"".join(line + (ends[i % len(ends)] if ends else b"\n") for i, line in enumerate(lines))
    # CR and LF of two lines would be read as one line end, so only the line ends are mixed that stay apart.
    if b"\r" in ends and any(b"\r\n" in other[i : i + 2] for i in range(len(other))):
        other = plain.replace(b"\n", b"\r\n")
    assert payloads(other, sizes) == payloads(plain)


def test_an_event_is_yielded_as_soon_as_it_is_complete():
    decoder = SSEDecoder()
    assert list(decoder.feed(b"data: a\r\n\r")) == [b"a"]
    assert list(decoder.feed(b"\ndata: b\n")) == []
    assert list(decoder.feed(b"\n")) == [b"b"]


def test_a_long_line_in_many_pieces_is_put_together():
    text = b"x" * 1_000_000
    assert payloads(b"data: " + text + b"\n\n", [1000] * 1000) == [text]
