"""Run one command to its end: output and time are bounded, and no process is left.

A separate task does the work, so that the cleanup is complete even if the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.captured import Captured
from pure_agent_loop.toolbox.sandbox.launch import LEFT, READY, Limits, Sandbox, Start, Unconfined
from pure_agent_loop.toolbox.sandbox.memory import exceeds, family
from pure_agent_loop.toolbox.sandbox.variables import clean_environment

MAX_OUTPUT_BYTES = 1_000_000
MAX_REPORT_BYTES = 65_536
# Time for killed processes to end and for their output to arrive.
GRACE_SECONDS = 0.8
TERM_SECONDS = 3.0  # seconds between asking a command to end and killing it
_MEMORY_SECONDS = 0.1  # seconds between two measurements of memory
# A reaper needs milliseconds, or longer on a busy machine. Killing it too early would release the processes
# that it is still killing.
REAPER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    Args:
        exit_code: 128 and more for a signal, as in a shell; None if this process killed the command.
        output: Standard output and standard error in order of arrival.
        truncated: Number of bytes left out in the middle.
        problem: Why the command could not be started, or "".
        over_memory: The limit in bytes, if the command was killed because it used more memory.
    """

    exit_code: int | None
    output: str
    truncated: int = 0
    timed_out: bool = False
    seconds: float = 0.0
    killed: int = 0
    problem: str = ""
    over_memory: int = 0
    restored: tuple[str, ...] = ()


async def run_process(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    timeout: float,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    input: bytes | None = None,  # noqa: A002 - as in the standard library
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
    home: str = "",
    read_only: bool = False,
    echo: Callable[[bytes], object] | None = None,
    end: asyncio.Event | None = None,
) -> Finished:
    """Run a program until it ends or times out, then end all its processes.

    On Linux no process is left, not even in a new session, even if this process is killed. On other
    systems the process group of the command is killed. A cancellation is raised after all processes have
    ended.

    Args:
        command: The program and its arguments; no shell is involved.
        env: All variables of the command; None for a minimal, harmless set.
        input: Standard input; empty if None.
        sandbox: The sandbox; None to run as this user, unconfined.
        limits: See `Limits`.
        home: Private folder of this command, for sandboxes that need one.
        read_only: Allow changes only in the command's private folders; needs a sandbox that supports it.
        end: Event that ends the command: the processes get SIGTERM and, after `TERM_SECONDS`, SIGKILL.

    Raises:
        OSError: The program that starts the command cannot be run.
    """
    sandbox = sandbox or Unconfined()
    if read_only and not sandbox.refusal:
        raise ConfigError(f"read_only=True is not supported by the sandbox {sandbox.name}.")
    start = Start(list(command), os.fspath(cwd), home, limits=limits or Limits(), read_only=read_only)
    variables = dict(env) if env is not None else clean_environment(home or "/nonexistent")
    run = _Run(sandbox, start, variables, timeout, Captured(max_output_bytes, echo), input, end)
    task = asyncio.ensure_future(run.run())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.stop()
        while not task.done():  # cancelled again: still wait for the bounded cleanup
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


class _Protocol(asyncio.SubprocessProtocol):
    """Receives output on descriptor 1, and the supervisor's messages on descriptor 2."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._run.captured.add(data)
        elif len(self._run.report) < MAX_REPORT_BYTES:
            self._run.report += data
            self._run.on_report()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        if fd == 1:
            self._run.drained.set()

    def process_exited(self) -> None:
        self._run.exited.set()


class _Run:
    def __init__(
        self,
        sandbox: Sandbox,
        start: Start,
        env: dict[str, str],
        timeout: float,
        captured: Captured,
        stdin_data: bytes | None,
        end: asyncio.Event | None,
    ) -> None:
        self.captured = captured
        self.report = bytearray()
        self.exited, self.drained, self._stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._sandbox, self._start, self._env, self._timeout = sandbox, start, env, timeout
        self._stdin_data, self._end = stdin_data, end or asyncio.Event()
        self._go: int | None = None
        self._info: int | None = None
        self._init_pidfd: int | None = None  # a pidfd of the first process in the sandbox
        self._pid = 0
        self._ready = False
        self._over_memory = 0

    def stop(self) -> None:
        self._stop.set()

    def on_report(self) -> None:
        """Start the command once the supervisor is ready to end it when this process ends."""
        if self._go is not None and not self._stop.is_set() and not self._ready and READY in self.report:
            self._ready = True
            self._open_init()
            with suppress(OSError):  # raised if the supervisor has ended
                os.write(self._go, b"go\n")

    async def run(self) -> Finished:
        start_time = time.monotonic()
        with ExitStack() as stack:
            restored = stack.enter_context(self._sandbox.prepared(self._start))
            stack.callback(self._close)
            transport = await self._start_process(stack)
            try:
                timed_out = await self._wait(start_time)
            finally:
                self._kill()
                await self._wait_for_end()
                code = transport.get_returncode()
                transport.close()
        finished = self._result(code, timed_out, time.monotonic() - start_time)
        return replace(finished, restored=tuple(restored))

    async def _start_process(self, stack: ExitStack) -> asyncio.SubprocessTransport:
        passed, standard = [], asyncio.subprocess.DEVNULL
        if self._stdin_data is not None:
            standard = _open_copy(stack, self._stdin_data)
            self._start = replace(self._start, input_fd=standard)
        if self._sandbox.supervised:
            passed += [standard] if standard >= 0 else []
            standard, self._go = os.pipe()
            stack.callback(os.close, standard)
            self._info, info = os.pipe()
            os.set_blocking(self._info, False)
            passed += [info, *self._filter(stack)]
            self._start = replace(self._start, info_fd=info)
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Protocol(self),
                *self._sandbox.argv(self._start),
                stdin=standard,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE if self._sandbox.supervised else asyncio.subprocess.STDOUT,
                cwd=self._start.cwd,
                env=self._env,
                start_new_session=True,
                pass_fds=passed,
            )
        finally:
            if self._sandbox.supervised:
                os.close(info)
        self._pid = transport.get_pid()
        return transport

    def _filter(self, stack: ExitStack) -> list[int]:
        """Open the system call filter, if this machine type has one."""
        lines = seccomp.program("no-unix" if self._start.read_only else "any")
        if not lines:
            return []
        descriptor = _open_copy(stack, lines)
        self._start = replace(self._start, filter_fd=descriptor)
        return [descriptor]

    async def _wait(self, start_time: float) -> bool:
        """Wait until the command ends, must be stopped, or times out. Return whether it timed out."""
        events = (self.exited.wait(), self._stop.wait(), self._watch_memory(), self._end_on_request())
        waits = [asyncio.ensure_future(event) for event in events]
        try:
            left = max(0.0, start_time + self._timeout - time.monotonic())
            done, _ = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return not done

    async def _watch_memory(self) -> None:
        """Wait until the command uses more memory than its limit."""
        limit = self._start.limits.memory
        while limit is None or not self._sandbox.supervised or not exceeds(self._pid, limit):
            await asyncio.sleep(_MEMORY_SECONDS)
        self._over_memory = limit

    async def _end_on_request(self) -> None:
        """Wait for a request to end the command, pass the request on, and wait some seconds for the end."""
        await self._end.wait()
        if self._sandbox.supervised:  # the first process inside bubblewrap ignores the signal
            for pid in list(family(self._pid))[1:]:
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
        else:
            self._signal_group(kill=False)
        await _ends(self.exited.wait(), TERM_SECONDS)

    def _kill(self) -> None:
        """Kill what is left. End of input makes a reaper kill all other processes before it exits."""
        self._stop.set()
        self._open_init()
        self._close_end("_go")
        if self._init_pidfd is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
        if self._init_pidfd is not None or not self._sandbox.supervised:
            self._signal_group()

    def _signal_group(self, *, kill: bool = True) -> None:
        if hasattr(os, "killpg"):  # on other systems, closing the transport ends the process
            with suppress(OSError):  # no process is left in the group
                os.killpg(self._pid, signal.SIGKILL if kill else signal.SIGTERM)

    async def _wait_for_end(self) -> None:
        """Wait for all processes to end, and for the rest of the output."""
        if not await _ends(self.exited.wait(), REAPER_SECONDS):
            self._signal_group()
            await _ends(self.exited.wait())
        if self._init_pidfd is not None:
            await _ends(_ended(self._init_pidfd))
        await _ends(self.drained.wait())

    def _open_init(self) -> None:
        """Open a pidfd of the first process inside bubblewrap; all other processes end with that process."""
        if self._info is None or self._init_pidfd is not None or not self._pid:
            return
        try:
            pid = read_json(os.read(self._info, 4_096) or b"{}").get("child-pid")
            if pid is not None:
                first = os.pidfd_open(pid)
                self._init_pidfd = first if _parent_of(pid) == self._pid else self._init_pidfd
                if self._init_pidfd is None:
                    os.close(first)
        except (OSError, ValueError):
            return

    def _close(self) -> None:
        for name in ("_go", "_info", "_init_pidfd"):
            self._close_end(name)

    def _close_end(self, name: str) -> None:
        handle = getattr(self, name)
        if handle is not None:
            setattr(self, name, None)
            os.close(handle)

    def _result(self, code: int | None, timed_out: bool, seconds: float) -> Finished:
        message, _, left = bytes(self.report).partition(LEFT)
        killed = int(left.split()[0]) if left.split()[:1] and left.split()[0].isdigit() else 0
        problem = "" if self._ready else message.decode("utf-8", "replace").strip()
        if code is not None and code < 0:
            code = 128 - code
        output = self.captured.text()
        if self._over_memory:
            code = 128 + signal.SIGKILL
        ended = None if timed_out else code
        cut, over = self.captured.cut, self._over_memory
        return Finished(ended, output, cut, timed_out, seconds, killed, problem, over)


def _open_copy(stack: ExitStack, data: bytes) -> int:
    """Return the descriptor of a temporary file with this content, for a child process."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    file.write(data)
    file.seek(0)
    return file.fileno()


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - many files are read
        return int(file.read().rpartition(b")")[2].split()[1])


async def _ends(waiting: Awaitable[Any], seconds: float = GRACE_SECONDS) -> bool:
    """Wait a bounded time. Return whether the wait ended in time."""
    try:
        await within(seconds, waiting)
    except TimeoutError:
        return False
    return True


async def _ended(pidfd: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
