"""Whatever is done to the bytes of an audit log afterwards is found."""

from __future__ import annotations

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import KEY, call, files, fill, make_log

from pure_agent_loop.audit import AuditLog, verify

KEYS = pytest.mark.parametrize("key", ["", KEY])


def report(log: AuditLog):
    return verify(log.path, key=log_key(log))


def log_key(log: AuditLog) -> str:
    return KEY if log.sealer.key_id else ""


@KEYS
def test_a_whole_log_is_whole(tmp_path, key):
    log = fill(tmp_path / "log", key=key)
    found = verify(log)
    assert (found.ok, found.lines, found.first_problem, found.notes) == (True, 20, None, ())
    assert found.keyed == bool(key)
    assert verify(files(log)[0], key=key).ok


@KEYS
def test_a_thousand_changed_bytes_are_found(tmp_path, key):
    log = fill(tmp_path / "log", key=key, file_bytes=4_000)
    paths = [*files(log), log.path / "head"]
    assert len(paths) > 3
    dice = random.Random(7)
    contents = {path: path.read_bytes() for path in paths}
    hit = set()
    for _ in range(500):  # with and without a key: a thousand
        path = dice.choice(paths)
        whole = contents[path]
        at = dice.randrange(len(whole))
        byte = dice.choice([b for b in range(256) if b != whole[at]])
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        found = report(log)
        assert not found.ok, (path.name, at, whole[at : at + 1], byte)
        hit.add(chr(whole[at]))
        path.write_bytes(whole)
    assert report(log).ok
    assert len(hit) > 30


def test_every_class_of_byte_and_the_line_it_is_in(tmp_path):
    log = fill(tmp_path / "log")
    path = files(log)[0]
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1  # the second line
    for piece in (b'"n":', b'"time":', b'"kind":"', b"\\u2028", b"\\r\\n", b'"prev":"', b'"hash":"', b'"}\n'):
        at = whole.index(piece, start) + len(piece) - 1
        for byte in (0, 10, 32, 255, whole[at] ^ 1, whole[at] ^ 32):
            if byte == whole[at]:
                continue
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            problem = report(log).first_problem
            assert problem is not None, (piece, byte)
            assert problem.line == 2, (piece, byte, problem)


def test_every_place_of_the_head(tmp_path):
    log = fill(tmp_path / "log", 2)
    path = log.path / "head"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not report(log).ok, at
    for changed in (b"", whole[:512], whole + b" ", whole[512:] + whole[:512]):
        path.write_bytes(changed)
        assert not report(log).ok
    path.unlink()
    assert "head" in str(report(log).first_problem)


@KEYS
def test_a_cut_tail_is_found_at_every_line_and_within_lines(tmp_path, key):
    log = fill(tmp_path / "log", 6, key=key)
    path = files(log)[0]
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for end in [0, *ends[:-1]]:
        for at in (end, end + 1, end + 40):
            path.write_bytes(whole[:at])
            assert not report(log).ok, at
    path.write_bytes(whole[:-1])
    assert not report(log).ok
    path.unlink()
    assert "missing" in str(report(log).first_problem)


@KEYS
def test_lines_removed_doubled_swapped_and_put_in(tmp_path, key):
    log = fill(tmp_path / "log", 5, key=key)
    path = files(log)[0]
    whole = path.read_bytes().splitlines(keepends=True)
    for at in range(len(whole)):
        others = [
            whole[:at] + whole[at + 1 :],
            whole[: at + 1] + whole[at:],
            [*whole[:at], b"{}\n", *whole[at:]],
        ]
        if at:
            others.append([*whole[: at - 1], whole[at], whole[at - 1], *whole[at + 1 :]])
        for changed in others:
            path.write_bytes(b"".join(changed))
            found = report(log)
            assert not found.ok
            assert found.first_problem.line in (0, at, at + 1, at + 2)
    path.write_bytes(b"".join(whole) + b"{}\n")
    assert report(log).first_problem.line == len(whole) + 1


def test_files_in_another_order_missing_or_strange(tmp_path):
    log = fill(tmp_path / "log", 12, file_bytes=3_000)
    first, second, *_, last = files(log)
    assert verify(log).ok
    kept = tmp_path / "kept"
    shutil.copytree(log.path, kept)

    def again():
        shutil.rmtree(log.path)
        shutil.copytree(kept, log.path)

    contents = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(contents)
    assert not verify(log).ok
    again()
    for path in (first, second, last):
        path.unlink()
        assert not verify(log).ok
        again()
    last.with_name("audit-000099.jsonl").write_bytes(b"")
    assert not verify(log).ok
    again()
    strange = last.with_name(f"audit-{len(files(log)) + 1:06d}.jsonl")
    strange.write_bytes(b"half a line")
    assert not verify(log).ok


def test_valid_chain_cannot_be_written_without_the_key(tmp_path):
    log = fill(tmp_path / "log", 3, key=KEY)
    assert "set PAL_AUDIT_KEY" in str(verify(log.path, key="").first_problem)
    assert "another key" in str(verify(log.path, key=KEY + "!").first_problem)
    forged = fill(tmp_path / "forged", 3)
    assert verify(forged).ok  # without a key, a whole new chain cannot be told from the old one
    assert "without a key" in str(verify(forged.path, key=KEY).first_problem)


def test_a_noted_hash_finds_a_log_that_was_set_back_with_its_head(tmp_path):
    log = fill(tmp_path / "log", 3)
    kept = tmp_path / "kept"
    shutil.copytree(log.path, kept)
    call(log)
    noted = verify(log).last_hash
    assert verify(log, contains=noted).ok
    assert verify(kept).ok  # the chain alone cannot know
    assert "was noted" in str(verify(kept, contains=noted).first_problem)


def test_writer_continues_after_damage_without_hiding_it(tmp_path):
    for number, harm in enumerate(["cut", "cut within a line", "no file", "no head", "bad head", "foreign"]):
        log = fill(tmp_path / str(number), 3)
        path, head = files(log)[0], log.path / "head"
        whole = path.read_bytes()
        ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
        if harm == "cut":
            path.write_bytes(whole[: ends[3]])
        elif harm == "cut within a line":
            path.write_bytes(whole[: ends[3] + 50])
        elif harm == "no file":
            path.unlink()
        elif harm == "no head":
            head.unlink()
        elif harm == "bad head":
            head.write_bytes(b"x" * 1024)
        else:
            path.write_bytes(whole + b"not a line\n")
        for _ in range(3):
            call(log)
        found = verify(log)
        assert not found.ok, harm
        assert found.first_problem.line <= 7, harm
        if harm in ("no head", "bad head", "foreign"):
            assert path.read_bytes().startswith(whole), harm
            assert path.read_bytes().count(b'"kind":"head"') <= 1, harm


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_garbage_raises_nothing(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("log")
    log = fill(folder, 1)
    line = st.one_of(
        st.binary(max_size=60),
        st.sampled_from(files(log)[0].read_bytes().splitlines(keepends=True)),
        st.builds(
            lambda kind, n: sealed(log, {"kind": kind, "n": n}),
            st.text(max_size=5) | st.none(),
            st.integers(),
        ),
    )
    files(log)[0].write_bytes(b"".join(data.draw(st.lists(line, max_size=6))))
    if data.draw(st.booleans()):
        (log.path / "head").write_bytes(data.draw(st.binary(max_size=1100)))
    verify(log)
    verify(files(log)[0], key="")


def sealed(log, fields):
    return log.sealer.seal({**fields, "key": None})[0]


def test_invalid_log_file_is_reported(tmp_path):
    assert "there is no audit log" in str(verify(tmp_path / "nothing").first_problem)
    (tmp_path / "empty").mkdir()
    assert not verify(tmp_path / "empty").ok
    (tmp_path / "text").write_text("hello")
    assert not verify(tmp_path / "text").ok
    log = make_log(tmp_path / "deep")
    call(log)
    files(log)[0].write_bytes(sealed(log, {"n": 1})[:-1] + b"\n" + b"[" * 100_000 + b"\n")
    assert not verify(log).ok
