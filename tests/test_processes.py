"""The helpers that keep a test from waiting for ever, and from another test's port."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys

import pytest

from tests.processes import end
from tests.serving import free_port

DEAF = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("up", flush=True)
child.wait()
"""


def test_group_of_a_process_that_ignores_sigterm_is_killed():
    ours, theirs = os.pipe()  # held open by the process and by its child
    with os.fdopen(ours, "rb") as seen:
        with os.fdopen(theirs, "wb") as shown:
            process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=shown, start_new_session=True)
        assert seen.readline() == b"up\n"
        end(process, patience=0)
        assert select.select([seen], [], [], 60)[0]
        assert seen.read() == b""


def test_free_port_is_reserved_for_its_caller():
    port = free_port()
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        pass
