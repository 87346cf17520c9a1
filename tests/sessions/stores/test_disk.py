"""A full disk, rights that are missing, torn ends, and repair: on real files.

A limit on the size of files stands in for a full disk: the system then takes a part of a line and refuses the
rest, as a full disk does. What root may do no mode of a file forbids, so a file in the place of a folder, a
folder in the place of a file, and a link stand in for what cannot be written.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys

import pytest

from pure_agent_loop.errors import (
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions import JsonlStore, Record, SqliteStore
from pure_agent_loop.sessions.stores.sqlite import _APPLICATION

FULL = """
import json, resource, sys
from pure_agent_loop.sessions import JsonlStore, SessionWriteError, SqliteStore
store = {store}
log = store.open("s")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, hard))
written, errors = [], []
for number in range(60):
    try:
        data = {{"n": number, "text": "x" * 5_000}}
        written.append(log.append("step", data, durable=number % 2 == 0).data["n"])
    except SessionWriteError as error:
        errors.append([error.path, error.reason])
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # somebody makes room
written.append(log.append("step", {{"n": 100}}, durable=True).data["n"])
log.close()
print(json.dumps([written, errors]))
"""


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "s", now=lambda: 5.0)


def fill(store, session_id="s", count=3):
    with store.open(session_id) as log:
        return [log.append("step", {"n": number}) for number in range(count)]


@pytest.mark.parametrize(
    ("store", "file", "reason"),
    [
        (JsonlStore, "s/s.jsonl", "File too large"),
        (SqliteStore, "s", "disk"),
    ],
)
def test_a_full_disk_loses_nothing_that_was_written(tmp_path, store, file, reason):
    code = FULL.format(store=f"{store.__name__}({str(tmp_path / 's')!r})", limit=101_000)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written, errors = json.loads(done.stdout)
    assert errors
    assert {path for path, _ in errors} == {str(tmp_path / file)}
    assert all(reason in said for _, said in errors)
    assert 3 < len(written) < 61
    loaded = store(tmp_path / "s").read("s")
    assert [record.data["n"] for record in loaded.records] == written
    assert loaded.problems == []


def test_a_short_write_leaves_no_part_of_a_line(tmp_path):
    code = FULL.format(store=f"JsonlStore({str(tmp_path)!r})", limit=7_000)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    written, errors = json.loads(done.stdout)
    assert (written, len(errors)) == ([0, 100], 59)
    assert (tmp_path / "s.jsonl").read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    "tail", [b'{"id":"000', b"\0" * 4096, b"{", b"\xff\xff", b"   ", b'{"id":"00000009"}']
)
def test_a_torn_end_is_kept_aside_and_told_before_the_next_append(store, tail):
    written = fill(store)
    file, torn = store.folder / "s.jsonl", store.folder / "s.torn"
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    reported = store.read("s")
    assert (reported.records, len(reported.problems)) == (written, 1)
    assert file.read_bytes() == whole + tail
    for _ in range(2):
        with store.open("s") as log:
            assert list(log.records) == written
            assert file.read_bytes() == whole
            assert log.problems[-1] == f"the unfinished end of the file was moved to {torn}"
            assert torn.read_bytes().endswith(tail + b"\n")
        file.write_bytes(whole + tail)
    with store.open("s") as log:
        written.append(log.append("after", {}))
    assert torn.read_bytes() == (tail + b"\n") * 3
    assert store.read("s").records == written
    assert store.read("s").problems == []


def test_only_the_newline_is_missing(store):
    written = fill(store)
    file = store.folder / "s.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with store.open("s") as log:
        assert list(log.records) == written
        assert log.problems == ("line 3: its final newline is missing",)
        assert file.read_bytes() == whole
    file.write_bytes(whole + whole[:50])
    with store.open("s") as log:
        assert len(log.problems) == 2
    assert (store.folder / "s.torn").read_bytes() == whole[:50] + b"\n"


def test_a_line_of_somebody_without_the_lock_is_not_glued(store):
    with store.open("s") as log:
        first = log.append("step", {"n": 0})
        with (store.folder / "s.jsonl").open("ab") as file:
            file.write(b"half a line")
        second = log.append("step", {"n": 1})
        third = log.append("step", {"n": 2}, durable=True)
    loaded = store.read("s")
    assert loaded.records == [first, second, third]
    assert len(loaded.problems) == 1


def test_a_file_that_was_deleted_is_not_written_to_in_silence(store):
    with store.open("s") as log:
        log.append("step", {})
        (store.folder / "s.jsonl").unlink()
        with pytest.raises(
            SessionWriteError, match=r"s\.jsonl: the file was deleted, renamed or replaced while open"
        ):
            log.append("step", {})


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for store in (
        JsonlStore(tmp_path / "file"),
        JsonlStore(tmp_path / "file" / "s"),
        SqliteStore(tmp_path / "file" / "s"),
    ):
        with pytest.raises(
            SessionWriteError, match=f"^Cannot write to {tmp_path}/file[^:]*: (File exists|Not a dir)"
        ):
            store.open("s")
        assert store.list() == []
        assert not store.exists("s")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SessionWriteError, match="unable to open database file"):
        SqliteStore(tmp_path / "folder").open("s")


def test_link_or_folder_is_not_a_session(tmp_path):
    store = JsonlStore(tmp_path / "s")
    fill(store, "other")
    (tmp_path / "secret").write_text("not ours")
    (tmp_path / "s" / "link.jsonl").symlink_to(tmp_path / "secret")
    (tmp_path / "s" / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "s" / "pipe.jsonl")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(SessionReadError, match=f"{name}.jsonl"):
            store.read(name)
        with pytest.raises(SessionWriteError, match=f"{name}.jsonl"):
            store.open(name)
    assert (tmp_path / "secret").read_text() == "not ours"
    assert [info.id for info in store.list()] == ["other"]
    store.delete("link")
    assert (tmp_path / "secret").exists()


def test_the_list_of_damaged_files_falls_back_on_the_system(store):
    fill(store, "whole")
    (store.folder / "torn.jsonl").write_bytes(b"\0" * 20_000)
    (store.folder / "no id.jsonl").write_bytes(b"")
    infos = {info.id: info for info in store.list()}
    assert set(infos) == {"whole", "torn"}
    assert infos["whole"].created == infos["whole"].updated == 5.0
    assert infos["torn"].created == infos["torn"].updated == (store.folder / "torn.jsonl").stat().st_mtime


def test_repair_writes_a_new_session_and_keeps_the_old(store):
    written = fill(store, count=5)
    file = store.folder / "s.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    damaged = (
        lines[0] + lines[1].replace(b"step", b"stop") + lines[2][:-1] + lines[3] + lines[3] + lines[4][:40]
    )
    file.write_bytes(damaged)
    report = store.repair("s")
    assert (report.session_id, report.path, report.kept) == (
        "s.repaired",
        store.folder / "s.repaired.jsonl",
        3,
    )
    assert [sentence.partition(":")[0] for sentence in report.changes] == [
        "line 2",
        "line 3",
        "line 3",
        "line 4",
        "line 5",
    ]
    assert file.read_bytes() == damaged
    whole = store.read("s.repaired")
    assert whole.problems == []
    assert [record.data for record in whole.records] == [written[n].data for n in (0, 2, 3)]
    assert [record.parent for record in whole.records] == [None, "00000001", "00000003"]
    with store.open("s.repaired", create=False) as log:
        assert log.append("step", {}).parent == "00000004"
    assert (store.repair("s").session_id, store.read("s.repaired").records[-1].id) == (
        "s.repaired-2",
        "00000005",
    )
    assert {info.id for info in store.list()} == {"s", "s.repaired", "s.repaired-2"}
    assert not [path for path in store.folder.iterdir() if path.suffix != ".jsonl"]


def test_repair_of_a_whole_session_changes_nothing(store):
    fill(store)
    report = store.repair("s")
    assert (report.session_id, report.path, report.kept, report.changes) == ("s", None, 3, [])
    with store.open("s"), pytest.raises(SessionLockedError):
        store.repair("s")
    with pytest.raises(SessionNotFoundError):
        store.repair("other")


def test_the_longest_id_can_be_repaired(store):
    name = "x" * 64
    fill(store, name)
    with (store.folder / f"{name}.jsonl").open("ab") as file:
        file.write(b"{")
    first = store.repair(name).session_id
    assert store.read(first).problems == []
    store.delete(first)


def test_a_damaged_row_is_reported_like_a_damaged_line(tmp_path):
    store = SqliteStore(tmp_path / "s.sqlite")
    written = fill(store)
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE records SET line = 'half a row' WHERE number = 2")
    connection.close()
    loaded = store.read("s")
    assert loaded.records[0] == written[0]
    assert [record.id for record in loaded.records] == ["00000001", "00000003"]
    assert len(loaded.problems) == 2
    with store.open("s") as log:
        assert list(log.problems) == loaded.problems
        assert log.append("step", {}).id == "00000004"


@pytest.mark.parametrize("damage", ["text", "noise", "cut", "zeros"])
def test_damaged_database_is_reported_with_a_remedy(tmp_path, damage):
    store = SqliteStore(tmp_path / "s.sqlite")
    with store.open("s") as log:
        for _ in range(200):
            log.append("step", {"text": "x" * 1000})
    data = store.path.read_bytes()
    store.path.write_bytes(
        {
            "text": b"this is no database, and it is long enough" * 100,
            "noise": data[:100] + bytes(n * 7 % 256 for n in range(len(data) - 100)),
            "cut": data[: len(data) // 2],
            "zeros": data[:4096] + bytes(len(data) - 4096),
        }[damage]
    )
    for act in (
        lambda: store.open("s"),
        lambda: store.read("s"),
        lambda: store.list(),
        lambda: store.delete("s"),
    ):
        with pytest.raises(SessionReadError, match=r"Move it away and start with a new one.*\.recover"):
            act()


def test_no_damage_of_a_database_gives_a_foreign_error_or_a_made_up_record(tmp_path):
    store = SqliteStore(tmp_path / "s.sqlite")
    written = [record.data for record in fill(store, count=20)]
    good = store.path.read_bytes()
    chance = random.Random("database")
    answers: dict[str, int] = {}
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(chance.choice([1, 5, 50])):
            bad[chance.randrange(chance.choice([200, len(bad)]))] = chance.randrange(256)
        for leftover in tmp_path.glob("s.sqlite-*"):
            leftover.unlink()
        store.path.write_bytes(bad)
        for act in (store.list, lambda: store.read("s").records, lambda: store.open("s").close()):
            try:
                found = act()
                answers["fine"] = answers.get("fine", 0) + 1
            except SessionError as error:  # noqa: PERF203 - each answer counts
                answers[type(error).__name__] = answers.get(type(error).__name__, 0) + 1
            else:
                assert all(each.data in written for each in found or () if isinstance(each, Record))
    assert answers["fine"] > 100
    assert answers["SessionReadError"] > 100


def test_a_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SessionReadError, match="another program"):
        SqliteStore(path).open("s")
    assert path.read_bytes() == before
    later = tmp_path / "later.sqlite"
    with sqlite3.connect(later) as connection:
        connection.executescript(
            f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = 2; CREATE TABLE t (x);"
        )
    connection.close()
    with pytest.raises(SessionReadError, match="later version"):
        SqliteStore(later).read("s")


def test_a_file_that_is_still_empty_is_a_store(tmp_path):
    (tmp_path / "s.sqlite").touch()
    assert SqliteStore(tmp_path / "s.sqlite").list() == []
    written = fill(SqliteStore(tmp_path / "s.sqlite", now=lambda: 5))
    assert written[0] == Record("00000001", None, 5, "step", {"n": 0})
