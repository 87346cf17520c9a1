"""A worker in a child process: a run that crashes its process does not end the parent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pure_agent_loop.durable.database import Database, default_database
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.values import DurableError, shown_exit
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.variables import DATABASE_VARIABLE

if TYPE_CHECKING:
    from typing_extensions import Self

DELAY_SECONDS = 1.0  # seconds before the restart of a worker that was ready
MAX_DELAY_SECONDS = 60.0  # maximum seconds before a restart, if the worker never becomes ready
_POLL_SECONDS = 0.05  # seconds between checks while a worker starts
_KILL_SECONDS = 5.0  # seconds after the grace period before the worker is killed


class WorkerProcess:
    """A worker in a child process that is restarted when it ends; a context manager.

    If the child ends while it is executing runs, its exit code is stored with them; see `TaskInfo.exit_code`.

    Args:
        command: Program and its arguments, such as ``["pal", "worker", "--stop-with-stdin"]``. Its standard
            input is a pipe that closes when this process ends.
        database: Database of the worker, which receives it as ``PAL_DATABASE``; see `Engine`. If the command
            has the option ``--database``, both URLs must be equal.
        grace: Seconds for the worker to stop; 5 seconds later, it is killed.

    Raises:
        ConfigError: The URL is invalid, or the program is missing.
    """

    def __init__(self, command: Sequence[str], database: str | None = None, *, grace: float = 20.0) -> None:
        if not command or find_program(command[0]) is None:
            raise ConfigError(notice("library.worker_program", command=command))
        self._command, self._grace = list(command), grace
        self._database = Database(default_database() if database is None else database)
        self._runs = RunTable(self._database)
        self._lock = threading.Lock()  # held while a process is started
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="pal-supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(self._grace + _KILL_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()
        self._database.close()

    def wait_ready(self, seconds: float) -> bool:
        """Wait until the worker accepts runs; return False if that takes more than `seconds`."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            process = self._process
            with contextlib.suppress(DurableError):  # fails until the worker has created the tables
                if process is not None and self._runs.has_worker(socket.gethostname(), process.pid):
                    return True
            self._stopping.wait(_POLL_SECONDS)
        return False

    def _supervise(self) -> None:
        delay = DELAY_SECONDS
        while (process := self._start()) is not None:
            code = process.wait()
            assert process.stdin is not None
            process.stdin.close()
            if self._stopping.is_set():
                return
            was_ready, runs = self._note_exit(process.pid, code)
            delay = DELAY_SECONDS if was_ready else delay
            about = {"reason": shown_exit(code), "runs": ", ".join(runs) or "-", "delay": delay}
            LOG.error(notice("library.worker_process_ended", **about))
            self._stopping.wait(delay)
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start the worker, unless this object is stopping."""
        with self._lock:
            if not self._stopping.is_set():
                # In its own session, so that Ctrl-C reaches it only through this process.
                self._process = subprocess.Popen(  # noqa: S603 - the caller's command
                    self._command,
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                    cwd=None,  # keep the working folder, because the agents' module is imported from it
                    env={**os.environ, DATABASE_VARIABLE: self._database.url},
                )
                return self._process
        return None

    def _note_exit(self, pid: int, code: int) -> tuple[bool, list[str]]:
        """Store an exit code with the runs that the process was executing.

        Returns:
            True if the process was ready for runs, and the ids of those runs.
        """
        try:
            return self._runs.note_exit(socket.gethostname(), pid, code)
        except DurableError:  # the database is unavailable, or has no tables yet
            return False, []


def stop_with_stdin() -> None:
    """Send SIGTERM to this process when standard input ends, such as when the parent dies."""

    def wait() -> None:
        while os.read(0, 1024):  # do not read `sys.stdin`: a thread must not hold its lock at exit
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="pal-stdin", daemon=True).start()
