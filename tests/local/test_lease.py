"""Holding and losing a server: the control port by itself, without a model."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading

import pytest

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.local.engine.joining import join_server
from pure_agent_loop.local.engine.leases import HOST, State, read_state, take_lease, write_state
from pure_agent_loop.local.engine.server import Leases, thread_count
from pure_agent_loop.support.locking import file_lock

KEY = "secret"


@contextlib.contextmanager
def serving(idle, key=KEY, grace=30.0):
    """The server's side in a thread, which waits long for its first user; gives its state and its thread."""
    listener = socket.create_server((HOST, 0))
    leases = Leases(listener, key, idle, grace)
    thread = threading.Thread(target=leases.serve, daemon=True)
    thread.start()
    yield State(os.getpid(), "http://nowhere", KEY, listener.getsockname()[1], 0), thread
    thread.join(30)
    assert not thread.is_alive()


def test_a_server_lasts_as_long_as_its_last_lease():
    with serving(idle=0.05) as (state, thread):
        one, two = take_lease(state), take_lease(state)
        one.release()
        thread.join(0.3)
        assert thread.is_alive()
        two.release()
    assert take_lease(state) is None


def test_unused_server_ends():
    with serving(idle=0.05, grace=0.05) as (state, _):
        pass
    assert take_lease(state) is None


def test_a_killed_user_holds_nothing():
    code = (
        "import sys\nfrom pure_agent_loop.local.engine.leases import State, take_lease\n"
        "lease = take_lease(State(1, '', 'secret', int(sys.argv[1]), 0))\n"
        "print(lease is not None, flush=True)\nsys.stdin.read()"
    )
    with serving(idle=0.05) as (state, _):  # the end of the block waits for its end
        user = subprocess.Popen(
            [sys.executable, "-c", code, str(state.control)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with user:
            assert user.stdout.readline().strip() == b"True"
            user.kill()


@pytest.mark.parametrize("said", [b"wrong\n", b"x" * 1000])
def test_connection_with_a_wrong_key_is_closed(said):
    with serving(idle=0.05) as (state, _):
        keeper = take_lease(state)  # so that it is not the end of the server that ends the connection
        with socket.create_connection((HOST, state.control), timeout=30) as stranger:
            stranger.recv(200)
            stranger.sendall(said)
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(10) == b""
        keeper.release()


def test_a_reused_port_is_not_taken_for_the_server_and_does_not_get_the_key():
    heard = []

    def impostor(listener):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"220 mail ready\n")
            heard.append(connection.recv(200))
            with contextlib.suppress(OSError):
                connection.sendall(b"ok\n")

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=impostor, args=(listener,))
        thread.start()
        assert take_lease(State(1, "", KEY, listener.getsockname()[1], 0)) is None
        thread.join()
    assert heard == [b""]


def test_the_state_file_is_private_and_survives_a_round_trip(tmp_path):
    state = State(1, "http://127.0.0.1:5", KEY, 7, 9)
    write_state(tmp_path / "s.json", state)
    assert read_state(tmp_path / "s.json") == state
    assert stat.S_IMODE((tmp_path / "s.json").stat().st_mode) == 0o600
    assert KEY not in repr(state)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}', "\udcff"])
def test_a_state_file_that_cannot_be_used_is_none(tmp_path, text):
    (tmp_path / "s.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_state(tmp_path / "s.json") is None
    assert take_lease(None) is None


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom pure_agent_loop.support.locking import file_lock\n"
        "print('waiting', flush=True)\n"
        "with file_lock(Path(sys.argv[1])): print(Path(sys.argv[2]).read_text(), flush=True)"
    )
    word = tmp_path / "word"
    with file_lock(tmp_path / "lock"):
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "lock"), str(word)], stdout=subprocess.PIPE, text=True
        )
        assert other.stdout.readline() == "waiting\n"
        word.write_text("done")  # missing if the other did not wait
    assert other.communicate()[0] == "done\n"


def test_one_core_is_left_to_the_machine():
    assert thread_count() == max(1, len(os.sched_getaffinity(0)) - 1)


def test_bad_model_files_are_refused_before_anything_is_started(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.gguf not found"):
        join_server(tmp_path / "gone.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(ConfigError, match="not a GGUF"):
        join_server(tmp_path / "text.gguf")


def test_a_missing_engine_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(MissingExtraError, match=r"\[local\]"):
        join_server(tmp_path / "m.gguf")
