"""Processes that tests start: each has ended when its block has, whatever state it was in."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE = 10  # seconds between SIGTERM and SIGKILL


@contextmanager
def running(
    command: Any, start: type[subprocess.Popen[Any]] = subprocess.Popen, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a process as the leader of a group, and end it after the block.

    Args:
        command: Program and arguments.
        start: `subprocess.Popen`, or a subclass of it.
        options: More arguments for it.
    """
    process = start(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        end(process)


@contextmanager
def listening(command: Any, port: int) -> Iterator[None]:
    """Start a server; the block begins when the server takes connections on a port of this machine."""
    with running(command) as process, socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, command
        yield


def end(process: subprocess.Popen[Any], patience: float = PATIENCE) -> None:
    """End a process with SIGTERM; kill its whole group if it has not ended after so many seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
    for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
        with suppress(BrokenPipeError):
            pipe.close()
