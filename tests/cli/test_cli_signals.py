"""Ctrl-C, readers that leave, and outputs that take nothing: a clean end with the right code."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.testing import EndEarly, Gate, ScriptedServer, deltas

PATIENCE = 60
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and pipes")


def read_until(stream, wanted: bytes) -> bytes:
    """Lines up to the first that holds `wanted`."""
    lines = b""
    for line in stream:
        lines += line
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} did not come: {lines!r}")


def test_ctrl_c_ends_the_run_with_a_partial_result(pal):
    gate = Gate()
    with ScriptedServer([deltas("Half an ", gate, "answer.")]) as server:
        pal.use(server)
        with pal.start("run", "--output-format", "stream-json", "hi") as process:
            read_until(process.stdout, b'"text_delta"')
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        gate.open()
    result = json.loads(out.splitlines()[-1])
    assert process.returncode == 130
    assert (result["stop_reason"], result["content"]) == ("cancelled", "Half an ")
    assert b"stopping; Ctrl-C again exits immediately" in err
    assert b"Traceback" not in err


def test_a_second_ctrl_c_leaves_even_if_the_output_is_stuck(pal):
    with ScriptedServer(["unused"], strict=False) as server:
        pal.use(server)
        task = pal.workspace / "task"
        task.write_text("x" * 1_000_000)  # the first event does not fit into a pipe that nobody reads
        with task.open() as stdin, pal.start("run", "--output-format", "stream-json", stdin=stdin) as process:
            read_until(process.stdout, b'"start"')
            read_until(process.stderr, b"using")
            assert os.read(process.stdout.fileno(), 1) or process.stdout.peek(1)
            process.send_signal(signal.SIGINT)
            read_until(process.stderr, b"stopping")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 130


def test_ctrl_c_before_the_run_prints_no_traceback(pal):
    with pal.start("run", "hi", stdin=subprocess.PIPE) as process:
        read_until(process.stderr, b"reading the context")  # it waits for text that does not come
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == b"pal: stopped\n"


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_reader_that_leaves_ends_the_run_quietly(pal, form):
    with ScriptedServer(["word " * 50_000], strict=False) as server:
        pal.use(server)
        with pal.start("run", "-q", "--output-format", form, "hi") as process:
            process.stdout.close()
            err = process.stderr.read()
    assert process.wait(timeout=PATIENCE) == 1
    assert err.count(b"\n") == 1  # the model that was used, and nothing else


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(pal):
    with ScriptedServer(["Hello."]) as server, Path("/dev/full").open("wb") as full:
        pal.use(server)
        with pal.start("run", "hi", stdout=full) as process:
            _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"the result could not be written: [Errno 28]" in err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_do_no_harm(pal, closed):
    with ScriptedServer(["Hello."]) as server:
        pal.use(server)
        line = f'exec "$@" {closed}'
        with pal.start(
            stdin=subprocess.DEVNULL, args=["sh", "-c", line, "sh", *pal.command, "run", "hi"]
        ) as process:
            out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert out == (b"" if ">&-" in closed.split() else b"Hello.\n")


def in_terminal(pal, *words: str, stop_at: bytes = b"") -> tuple[int, str]:
    """Run with all three streams on one terminal, as a person does; Ctrl-C when `stop_at` is shown."""
    ours, theirs = pty.openpty()
    with pal.start(*words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
            if stop_at and stop_at in shown:
                stop_at = b""
                process.send_signal(signal.SIGINT)
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other side of the terminal is closed
        return b""


def test_on_a_terminal_the_answer_is_shown_once(pal):
    with ScriptedServer(["Hello from here."]) as server:
        pal.use(server)
        code, shown = in_terminal(pal, "run", "hi")
    assert code == 0
    assert shown.count("Hello from here.") == 1
    assert shown.splitlines()[2] == "Hello from here."
    assert "completed, 1 step" in shown.splitlines()[3]


def test_on_a_terminal_a_quiet_answer_is_shown_once_too(pal):
    with ScriptedServer(["Hello from here."]) as server:
        pal.use(server)
        _, shown = in_terminal(pal, "run", "-q", "hi")
    assert shown.splitlines()[1:] == ["Hello from here."]


def test_on_a_terminal_a_stopped_answer_is_not_repeated(pal):
    with ScriptedServer([deltas("Half an answer ", Gate())]) as server:
        pal.use(server)
        code, shown = in_terminal(pal, "run", "hi", stop_at=b"Half an")
    assert code == 130
    assert shown.count("Half an answer") == 1
    assert "cancelled, 1 step" in shown


def test_on_a_terminal_an_answer_that_started_again_is_shown_whole(pal):
    # Not a reset: that may overtake text which the client has not read yet.
    with ScriptedServer([deltas("Hello fr", EndEarly()), "Hello from here."]) as server:
        pal.use(server)
        code, shown = in_terminal(pal, "run", "hi")
    assert code == 0
    assert shown.count("Hello fr") == 2
    assert "the answer starts again" in shown
    assert shown.count("Hello from here.") == 1
