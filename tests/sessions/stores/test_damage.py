"""100,000 damaged transcripts: nothing is raised or made up, and nothing whole before the damage is lost.

The transcripts are small and in memory; the seeds are fixed.
"""

from __future__ import annotations

import io
import random

import pytest

from pure_agent_loop.sessions.stores.records import Record, parse

DATA = [
    {},
    {"text": "hello"},
    {"text": "\u2028\n\0 é 𝔘", "n": [1, 2.5, None, True]},
    {"id": "00000001", "data": {"crc": "00000000"}, "text": '{"id":"00000002","parent":null'},
    {"call": {"name": "read", "args": {"path": "a\\b"}}},
]
CASES = 12_500


def transcript(length: int, mark: str = "") -> list[Record]:
    return [
        Record(
            f"{n:08d}", f"{n - 1:08d}" if n > 1 else None, 1e9 + n / 8, "step", {**DATA[n % 5], "by": mark}
        )
        for n in range(1, length + 1)
    ]


def as_bytes(records: list[Record]) -> bytes:
    return b"".join(record.to_line() for record in records)


def first_difference(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def check(whole: list[list[Record]], good: bytes, bad: bytes) -> None:
    """`whole` are the records that were written, by each writer; `good` the file as it should be."""
    found = parse(io.BytesIO(bad))
    assert found.size == len(bad)
    _check_before_the_damage(found.records, whole[0], good, bad)
    # Nothing is made up. (Only the parent may have changed, where it was lost.)
    written = {(r.id, r.time, r.type, repr(r.data)) for records in whole for r in records}
    assert {(r.id, r.time, r.type, repr(r.data)) for r in found.records} <= written
    _check_tree(found.records)
    assert found.last_number >= max((int(record.id) for record in found.records), default=0)
    # What is cut off and ended is a file that can be appended to.
    mended = bad[: found.end] + (b"\n" if found.needs_newline else b"")
    again = parse(io.BytesIO(mended + Record("99999999", None, 1.0, "next", {}).to_line()))
    assert [*found.records, Record("99999999", None, 1.0, "next", {})] == again.records
    # Reported if and only if it is damaged. (One cut off between two lines looks whole.)
    lines = [line for line in io.BytesIO(bad) if line.strip() or not line.endswith(b"\n")]
    is_whole = b"".join(lines) == as_bytes(whole[0][: len(lines)])
    assert bool(found.problems) is not is_whole, (found.problems, bad)


def _check_before_the_damage(found: list[Record], whole: list[Record], good: bytes, bad: bytes) -> None:
    untouched = good[: first_difference(good, bad)].count(b"\n")
    assert found[:untouched] == whole[:untouched]


def _check_tree(records: list[Record]) -> None:
    seen: set[str] = set()
    for record in records:
        assert record.id not in seen
        assert record.parent is None or record.parent in seen
        seen.add(record.id)


def flip(chance: random.Random, data: bytes, bits: int) -> bytes:
    changed = bytearray(data)
    for place in chance.sample(range(len(data) * 8), bits):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def flipped(chance: random.Random, data: bytes) -> bytes:
    return flip(chance, data, chance.choice([1, 1, 1, 2, 5, 40]))


def glued(chance: random.Random, data: bytes) -> bytes:
    """A line is torn, and the next begins in the middle of it."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 1, 10, 100, 300]))
    newlines = [at for at in range(len(data)) if data[at] == 10]
    if newlines and chance.random() < 0.3:  # only the newline between two records is lost
        start = chance.choice(newlines)
        end = start + 1
    return data[:start] + data[end:]


def nulled(chance: random.Random, data: bytes) -> bytes:
    """A block of NUL bytes: over what was written, between, or behind it."""
    start, length = chance.randrange(len(data) + 1), chance.choice([1, 8, 64, 512])
    return data[:start] + bytes(length) + data[start + chance.choice([0, length]) :]


def repeated(chance: random.Random, data: bytes) -> bytes:
    """A piece is there twice."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 30, 200, 400]))
    return data[:end] + data[start:end] + data[end:]


def shuffled(chance: random.Random, data: bytes) -> bytes:
    """Several pieces in the wrong order, and some noise."""
    places = sorted(chance.sample(range(len(data)), 3))
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    chance.shuffle(pieces)
    pieces.insert(chance.randrange(4), bytes(chance.randrange(256) for _ in range(chance.randrange(20))))
    return b"".join(pieces)


DAMAGES = [cut, flipped, glued, nulled, repeated, shuffled]


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_is_survived_and_reported(damage):
    chance = random.Random(damage.__name__)
    transcripts = [transcript(length) for length in (1, 2, 4)]
    files = [as_bytes(records) for records in transcripts]
    for _ in range(CASES):
        which = chance.randrange(3)
        check([transcripts[which]], files[which], damage(chance, files[which]))


def test_several_damages_at_once():
    chance = random.Random("several")
    records = transcript(4)
    good = as_bytes(records)
    for _ in range(CASES):
        bad = good
        for damage in chance.sample(DAMAGES, 3):
            bad = damage(chance, bad) if len(bad) > 40 else bad
        check([records], good, bad)


def test_two_writers_without_a_lock():
    chance = random.Random("writers")
    ours, theirs = transcript(3, "us"), transcript(3, "them")
    good = as_bytes(ours)
    for _ in range(CASES):
        queues = [as_bytes(ours), as_bytes(theirs)]
        sizes = [10**6] if chance.random() < 0.2 else [1, 7, 50, 150]
        bad = b""
        while any(queues):
            writer = chance.choice([n for n in (0, 1) if queues[n]])
            size = chance.choice(sizes)
            if len(sizes) == 1:  # whole lines, in any order
                size = queues[writer].index(b"\n") + 1
            bad, queues[writer] = bad + queues[writer][:size], queues[writer][size:]
        found = parse(io.BytesIO(bad))
        assert found.problems
        _check_tree(found.records)
        first = bad.partition(b"\n")[0] + b"\n"
        if first in (ours[0].to_line(), theirs[0].to_line()):
            assert found.records[0] in (ours[0], theirs[0])
        assert {repr(r.data) for r in found.records} <= {repr(r.data) for r in [*ours, *theirs]}
        assert good  # both wrote


def test_every_cut_and_every_single_bit():
    records = transcript(3)
    good = as_bytes(records)
    for at in range(len(good) + 1):
        check([records], good, good[:at])
    for place in range(len(good) * 8):
        changed = bytearray(good)
        changed[place // 8] ^= 1 << place % 8
        check([records], good, bytes(changed))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00",
        b"[" * 100_000 + b"\n",
        b'{"id":"' * 2_000,
        b'{"a":' * 50_000 + b"\n",
        b'{"id":"1","parent":null,"time":1,"type":"x","data":' + b"[" * 100_000,
        b'{"id":"1","parent":null,"time":' + b"9" * 10_000 + b',"type":"x","data":{}}\n',
        b'{"id":"1","parent":null,"time":1e999,"type":"x","data":{}}\n',
        b'{"id":"1","parent":null,"time":NaN,"type":"x","data":{}}\n',
        b'{"id":"1","parent":null,"time":true,"type":"x","data":{}}\n',
        b'{"id":1,"parent":null,"time":1,"type":"x","data":{}}\n',
        b'{"id":"","parent":null,"time":1,"type":"x","data":{}}\n',
        b'{"id":"1","parent":2,"time":1,"type":"x","data":{}}\n',
        b'{"id":"1","parent":null,"time":1,"type":null,"data":{}}\n',
        b'{"id":"1","parent":null,"time":1,"type":"x","data":[]}\n',
        b'{"id":"1","parent":null,"time":1,"type":"x"}\n',
        b'{"id":"1","parent":null,"time":1,"type":"x","data":{},"more":1}\n',
        b'null\n1\n"text"\n[]\n',
    ],
)
def test_invalid_record_is_reported(data):
    found = parse(io.BytesIO(data))
    assert found.records == []
    assert found.problems


def test_a_line_written_by_a_person_is_taken():
    by_hand = (
        '{"data": {"text": "héé \\ud800"}, "type": "note", "id": "7", "parent": null, "time": 5}\r\n\n  \r\n'
    )
    line = Record("00000008", "7", 6.0, "note", {}).to_line()
    found = parse(io.BytesIO(by_hand.encode() + line))
    assert found.problems == []
    assert found.records[0] == Record("7", None, 5, "note", {"text": "héé �"})
    assert found.last_number == 8


def test_a_record_inside_the_data_is_never_taken_for_one():
    inner = Record("00000009", None, 1.0, "forged", {})
    holder = Record(
        "00000001", None, 1.0, "x", {"id": "2", "d": [{"id": "9", "data": {}}], "t": inner.to_line().decode()}
    )
    line = holder.to_line()
    assert line.count(b'{"id":"') == 1
    for at in range(len(line) - 1):
        assert "forged" not in {record.type for record in parse(io.BytesIO(line[at + 1 :])).records}


def test_a_later_version_may_add_keys_under_the_checksum():
    import zlib

    body = b'{"id":"1","parent":null,"time":1,"type":"x","data":{},"new":5'
    found = parse(io.BytesIO(b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))))
    assert (len(found.records), found.problems) == (1, [])


def test_many_problems_are_counted_not_listed():
    found = parse(io.BytesIO(b"?\n" * 5_000))
    assert len(found.problems) == 201
    assert found.problems[-1] == "4800 more pieces are damaged"


def test_numbers_of_lost_records_are_not_given_again():
    lines = [record.to_line() for record in transcript(3)]
    lines[2] = lines[2].replace(b"step", b"stop")
    assert parse(lines).last_number == 3


def test_a_lost_parent_is_said():
    lines = [record.to_line() for record in transcript(3)]
    found = parse([lines[0], lines[2]])
    assert found.problems == [
        "line 2: record 00000003 follows 00000002, which is missing; it was moved after 00000001"
    ]
    assert found.records[1].parent == "00000001"
    assert parse(lines[1:]).problems[0].endswith("it was moved to the start")
