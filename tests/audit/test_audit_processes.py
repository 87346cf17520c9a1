"""Several processes write one audit log, and are killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading

import pytest
from logs import KEY, call, files, fill, lines, make_log

from processes import python, start
from pure_agent_loop.audit import history, verify
from pure_agent_loop.audit.chain import ChainWriter, read_head
from pure_agent_loop.kernel.observers import CallRecord

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 and fork")

WRITE = """
import sys
from logs import call, make_log
log = make_log(sys.argv[1], file_bytes=200_000, key=sys.argv[3])
for number in range(int(sys.argv[2])):
    call(log, text="t" * (number % 50), session_id=sys.argv[4])
"""

# Long lines, so that a kill can hit in the middle of one; each is told of when it is written.
WORK = """
import os, sys
from logs import make_log
from pure_agent_loop.kernel.observers import CallRecord
log = make_log(sys.argv[1], file_bytes=400_000)
for _ in range(15):
    record = CallRecord("act", {str(n): "x" * 1_900 for n in range(5)}, "allow")
    log.begin(record)
    os.write(1, b"%d\\n" % log._open_calls[id(record)][1])
    log.end(record, "r" * 2_000, "ok", 0.0)
os.read(0, 1)  # until it is killed
"""


def test_four_processes_write_one_chain(tmp_path):
    names = ["a", "b", "c", "d"]
    writers = [start(WRITE, str(tmp_path / "log"), "250", KEY, name) for name in names]
    for writer in writers:
        assert writer.wait(120) == 0
        writer.stdout.close()
        writer.stdin.close()
    log = make_log(tmp_path / "log", key=KEY)
    found = verify(log)
    assert (found.ok, found.lines, found.torn) == (True, 2_000, 0), found
    assert found.files > 2
    for name in names:
        entries = history(log, session=name)
        assert [entry.result_length for entry in entries] == [number % 50 for number in range(250)]


def test_threads_write_one_chain(tmp_path):
    log = make_log(tmp_path)
    threads = [threading.Thread(target=lambda: [call(log) for _ in range(25)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert verify(log).lines == 200
    assert {entry.status for entry in history(log)} == {"ok"}


@posix_only
def test_many_kills_lose_nothing_that_was_acknowledged(tmp_path):
    dice = random.Random(3)
    acknowledged = []
    for _ in range(12):
        writers = [start(WORK, str(tmp_path / "log")) for _ in range(2)]
        for writer in writers:
            acknowledged += [int(writer.stdout.readline()) for _ in range(dice.randrange(1, 12))]
            os.kill(writer.pid, signal.SIGKILL)
        for writer in writers:
            acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
            writer.stdout.close()
            writer.stdin.close()
            assert writer.wait(30) == -signal.SIGKILL
        found = verify(tmp_path / "log", key="")
        assert found.ok, found
    call(make_log(tmp_path / "log"))
    found = verify(tmp_path / "log", key="")
    assert found.ok, found
    numbers = {entry.number for entry in history(tmp_path / "log")}
    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= numbers
    assert history(tmp_path / "log")[-1].status == "ok"


def test_a_write_cut_off_anywhere_is_closed_off_and_marked(tmp_path):
    """What a kill in the middle of the write of line 5 leaves, at each place; the head is as it was then."""
    log = fill(tmp_path / "log", 2)
    path = files(log)[0]
    whole, head = path.read_bytes(), (log.path / "head").read_bytes()
    log.begin(CallRecord("act", {"a": "é\n"}, "allow"))
    line = path.read_bytes()[len(whole) :]
    for at in [*range(1, len(line), 11), len(line) - 1]:
        path.write_bytes(whole + line[:at])
        (log.path / "head").write_bytes(head)
        found = verify(log)
        assert (found.ok, found.lines, len(found.notes)) == (True, 4, 1)
        call(make_log(log.path), "next")  # of another process
        found = verify(log)
        assert (found.ok, found.lines, found.torn) == (True, 7, at < len(line) - 1), (at, found)
        assert path.read_bytes().startswith(whole + line[:at] + b"\n")
    marked = path.read_bytes()
    path.write_bytes(marked.replace(line[: len(line) - 1], line[: len(line) - 2] + b"!"))
    assert verify(log).first_problem.line == 5
    path.write_bytes(whole + line)  # written whole, killed before the head was
    (log.path / "head").write_bytes(head)
    assert verify(log).lines == 5
    call(make_log(log.path))
    assert (verify(log).ok, verify(log).lines, verify(log).torn) == (True, 7, 0)


def test_a_second_kill_while_closing_off(tmp_path):
    log = fill(tmp_path / "log", 2)
    path = files(log)[0]
    whole, head = path.read_bytes(), (log.path / "head").read_bytes()
    path.write_bytes(whole + b'{"n":5,"ti')
    call(make_log(log.path))
    closed = path.read_bytes()
    for at in range(len(whole) + 11, closed.index(b"}\n", len(whole) + 11) + 1, 7):
        path.write_bytes(closed[:at])
        (log.path / "head").write_bytes(head)
        assert verify(log).ok or closed[at - 1 : at] == b"\n"
        call(make_log(log.path))
        assert verify(log).ok or closed[at - 1 : at] == b"\n"


def test_killed_before_the_first_line_and_before_a_new_file(tmp_path):
    log = make_log(tmp_path / "log")
    log.path.mkdir()
    (log.path / "head").write_bytes(b"")
    call(log)
    assert verify(log).ok
    chain = ChainWriter(log.path, log.sealer, durable=False, max_bytes=10)
    chain._next_file(read_head(log.path, log.sealer).heads[0])  # told of, and not made
    assert verify(log).ok
    call(log)
    assert (verify(log).ok, verify(log).files) == (True, 2)


@posix_only
def test_a_forked_child_writes_on_in_the_same_chain(tmp_path):
    code = """
import os, sys
from logs import call, make_log
log = make_log(sys.argv[1])
call(log)
child = os.fork()
for _ in range(20):
    call(log)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = python(code, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path, key="").lines == 82
    assert len({line["pid"] for line in lines(make_log(tmp_path))}) == 2
