"""One writer, also across processes: who holds a session is said, and kill -9 lets it go."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore

STORES = {"jsonl": (JsonlStore, "s"), "sqlite": (SqliteStore, "s.sqlite")}

HOLDER = """
import sys
from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore
log = {kind}({path!r}).open("shared")
log.append("user", {{"from": "the holder"}}, durable=True)
print("ready", flush=True)
sys.stdin.read()
"""
WRITER = """
from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore
log = {kind}({path!r}).open("shared")
print("ready", flush=True)
while True:
    print(log.append("step", {{"text": "x" * 20_000}}).id, flush=True)
"""
MANY = """
from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore
for number in range(20):
    with {kind}({path!r}).open("of-" + {name!r}) as log:
        log.append("user", {{}}, durable=True)
"""

FORKS = """
import os
from pure_agent_loop.errors import ConfigError, SessionLockedError
from pure_agent_loop.sessions import JsonlStore, SqliteStore
store = {kind}({path!r})
log = store.open("shared")
told, tell = os.pipe()
wait, go = os.pipe()
if os.fork() == 0:
    os.close(go)
    try:
        log.append("user", {{}})
    except ConfigError:
        os.write(tell, b"refused")
    log.close()
    os.write(tell, b".")
    os.read(wait, 1)  # lives on until the parent has ended
    os._exit(0)
output = b""
while not output.endswith(b"."):
    output += os.read(told, 100)
print(output.decode().rstrip("."))
try:
    store.open("shared")
except SessionLockedError:
    print("still-locked")
log.append("user", {{}})
log._lock.forget()  # as if it were killed: nothing but the end of its files lets go
with store.open("shared"):
    print("free")
"""


@pytest.fixture(params=[*STORES, "postgres"])
def place(request, tmp_path):
    if request.param == "postgres":
        return PostgresStore, request.getfixturevalue("postgres").new_database()
    return STORES[request.param][0], str(tmp_path / STORES[request.param][1])


def start(code: str, place, **more: str) -> subprocess.Popen[str]:
    kind, path = place
    code = code.format(kind=kind.__name__, path=path, **more)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def open_when_free(store):
    """A database needs a moment to see that a process was killed; a lock of the system is free at once."""
    while isinstance(store, PostgresStore) and store.holder("shared").is_alive:
        pass
    return store.open("shared", create=False)


def test_second_process_gets_the_lock_holder_and_kill_frees_it(place):
    kind, path = place
    before = time.time()
    with start(HOLDER, place) as holder:
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(SessionLockedError) as caught:
            kind(path).open("shared")
        assert caught.value.pid == holder.pid
        assert caught.value.host == os.uname().nodename
        assert before - 1 < caught.value.since < time.time() + 1
        assert re.search(rf"in process {holder.pid} on \S+ since \d{{4}}-", str(caught.value))
        with pytest.raises(SessionLockedError):
            kind(path).delete("shared")
        assert [record.data for record in kind(path).read("shared").records] == [{"from": "the holder"}]
        kill(holder)
    with open_when_free(kind(path)) as log:
        assert log.problems == ()
        assert len(log.records) == 1
        log.append("user", {})


def test_a_holder_that_ends_by_itself_frees_it_too(place):
    kind, path = place
    with start(HOLDER, place) as holder:
        assert holder.stdout.readline() == "ready\n"
        holder.communicate("")
    with kind(path).open("shared", create=False) as log:
        assert len(log.records) == 1


@pytest.mark.parametrize("name", STORES)  # `postgres_writers` kills more of the others
def test_appended_record_survives_kill(name, tmp_path):
    place = kind, path = STORES[name][0], str(tmp_path / STORES[name][1])
    told: set[int] = set()
    for _ in range(5):
        with start(WRITER, place) as writer:
            assert writer.stdout.readline() == "ready\n"
            lines = [writer.stdout.readline() for _ in range(20)]
            kill(writer)
            lines += [line for line in writer.stdout if line.endswith("\n")]
        told |= {int(line) for line in lines}
        with kind(path).open("shared") as log:
            numbers = [int(record.id) for record in log.records]
            assert numbers == sorted(set(numbers))
            assert told <= set(numbers)  # a torn record leaves a gap: its number is not given again
            # At most the line that was being written is torn, and it is cut off before the next append.
            assert len(log.problems) <= 2
            log.append("user", {})
        assert kind(path).read("shared").problems == []


def test_processes_may_make_the_same_store_at_once(place):
    kind, path = place
    running = [start(MANY, place, name=str(number)) for number in range(4)]
    for process in running:
        process.communicate(timeout=120)
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    assert len(kind(path).list()) == 4
    assert all(len(kind(path).read(info.id).records) == 20 for info in kind(path).list())


@pytest.mark.parametrize("kind", STORES)
def test_a_forked_child_neither_writes_nor_keeps_the_lock(kind, tmp_path):
    place = STORES[kind][0], str(tmp_path / STORES[kind][1])
    with start(FORKS, place) as process:
        output, _ = process.communicate(timeout=60)
    assert output.split() == ["refused", "still-locked", "free"]
    assert process.returncode == 0


def test_collected_log_releases_its_lock(place):
    kind, path = place
    log = kind(path).open("shared")
    del log
    kind(path).open("shared").close()


def test_lock_file_content_is_informative(tmp_path):
    store = JsonlStore(tmp_path)
    for text in (
        b"",
        b"\xff",
        b'{"pid": 1}',
        b'{"pid": 1, "host": 2, "since": 1e300}',
        b"[" * 5000,
        b"x" * 10**6,
    ):
        (tmp_path / "s.lock").write_bytes(text)  # left behind by one that was killed
        with store.open("s"):
            (tmp_path / "s.lock").write_bytes(text)
            with pytest.raises(SessionLockedError, match=r"another process \(unknown\)") as caught:
                store.open("s")
            assert caught.value.pid is None
        assert not (tmp_path / "s.lock").exists()


def test_a_lock_file_of_another_is_not_taken_away(tmp_path):
    store = JsonlStore(tmp_path)
    first = store.open("s")
    (tmp_path / "s.lock").unlink()  # by hand, while it is held
    with store.open("s"):
        first.close()
        with pytest.raises(SessionLockedError):
            store.open("s")


def test_a_fence_stops_a_writer_whose_lock_was_lost(tmp_path):
    store = SqliteStore(tmp_path / "s.sqlite")
    with store.open("s") as old:
        old.append("user", {"from": "old"})
        old._lock.forget()  # as on a network file system that forgot it
        with store.open("s") as new:
            with pytest.raises(SessionLockedError, match="taken it over"):
                old.append("user", {"from": "old"}, durable=True)
            new.append("user", {"from": "new"})
    assert [record.data["from"] for record in store.read("s").records] == ["old", "new"]
