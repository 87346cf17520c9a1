"""Running one command to its end, whatever it does: output and time are bounded, and nothing of it stays.

The work is done by a task of its own, so that a cancellation at any moment finds somebody who cleans up.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.captured import Captured
from pure_agent_loop.toolbox.sandbox.environment import clean_environment
from pure_agent_loop.toolbox.sandbox.launch import LEFT, READY, Limits, Sandbox, Start, Unconfined

MAX_OUTPUT_BYTES = 1_000_000
MAX_REPORT_BYTES = 65_536
# How long processes that were killed may take to be gone, and their output to arrive.
GRACE_SECONDS = 0.8
# A reaper needs milliseconds, but killing it on a busy machine would set free what it is about to kill.
REAPER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    Args:
        exit_code: 128 and more for a signal, as in a shell; None if it was ended by us.
        output: What it wrote to standard output and standard error, in the order it came.
        truncated: How many bytes of it were left out in the middle.
        timed_out: It took too long and was ended.
        seconds: How long it took.
        killed: How many processes it left behind, which were ended.
        problem: Why the command could not be started at all, or "".
        restored: Protected names that were changed meanwhile and put back.
    """

    exit_code: int | None
    output: str
    truncated: int = 0
    timed_out: bool = False
    seconds: float = 0.0
    killed: int = 0
    problem: str = ""
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
) -> Finished:
    """Run a program until it ends or its time is over, and end everything that it began.

    On Linux no process of it is left, also if it made itself a session of its own, and also if our own
    process is killed. Elsewhere its process group is ended. A cancellation ends it all before it goes on.

    Args:
        command: Program and arguments; no shell in between.
        cwd: Folder to start in.
        env: All the variables it gets; a clean list if None.
        timeout: Seconds.
        max_output_bytes: How much of the output is kept.
        input: What it reads; nothing if None.
        sandbox: How to start it; as this user, without any confinement, if None.
        limits: See `Limits`.
        home: A private folder of this command, for sandboxes that need one.
        read_only: It may change nothing but its private folders; only with a sandbox that can do that.
        echo: Given its output as it comes.

    Raises:
        OSError: The program that starts it cannot be run.
    """
    sandbox = sandbox or Unconfined()
    if read_only and not sandbox.refusal:
        raise ConfigError(
            f"read_only=True needs a sandbox that can hold a command to it; {sandbox.name} cannot."
        )
    start = Start(list(command), os.fspath(cwd), home, limits=limits or Limits(), read_only=read_only)
    variables = dict(env) if env is not None else clean_environment(home or "/nonexistent")
    run = _Run(sandbox, start, variables, timeout, Captured(max_output_bytes, echo), input)
    task = asyncio.ensure_future(run.to_its_end())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.stop()
        while not task.done():  # cancelled once more: it still takes what it takes, which is bounded
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


class _Talk(asyncio.SubprocessProtocol):
    """What comes from the process: output on 1, what its supervisor says on 2."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._run.captured.add(data)
        elif len(self._run.report) < MAX_REPORT_BYTES:
            self._run.report += data
            self._run.heard()

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
        given: bytes | None,
    ) -> None:
        self.captured = captured
        self.report = bytearray()
        self.exited, self.drained, self._stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._sandbox, self._start, self._env, self._timeout = sandbox, start, env, timeout
        self._given = given
        self._go: int | None = None
        self._info: int | None = None
        self._first: int | None = None  # a pidfd of the first process inside
        self._pid = 0
        self._ready = False

    def stop(self) -> None:
        self._stop.set()

    def heard(self) -> None:
        """The supervisor is ready: from here on it ends with us, so the command may begin."""
        if self._go is not None and not self._stop.is_set() and not self._ready and READY in self.report:
            self._ready = True
            self._find_first()
            with suppress(OSError):  # it is gone already
                os.write(self._go, b"go\n")

    async def to_its_end(self) -> Finished:
        begun = time.monotonic()
        with ExitStack() as stack:
            restored = stack.enter_context(self._sandbox.prepared(self._start))
            stack.callback(self._close)
            transport = await self._started(stack)
            try:
                timed_out = await self._wait(begun)
            finally:
                self._kill()
                await self._gone()
                code = transport.get_returncode()
                transport.close()
        finished = self._finished(code, timed_out, time.monotonic() - begun)
        return replace(finished, restored=tuple(restored))

    async def _started(self, stack: ExitStack) -> asyncio.SubprocessTransport:
        passed = []
        if self._given is not None:
            file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            file.write(self._given)
            file.seek(0)
            passed.append(file.fileno())
            self._start = replace(self._start, input_path=f"/proc/self/fd/{file.fileno()}")
        standard: Any = asyncio.subprocess.DEVNULL if self._given is None else file
        if self._sandbox.supervised:
            standard, self._go = os.pipe()
            stack.callback(os.close, standard)
            self._info, info = os.pipe()
            os.set_blocking(self._info, False)
            passed += [info, *self._filter(stack)]
            self._start = replace(self._start, info_fd=info)
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Talk(self),
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
        """The filter of system calls as an open file, where this kind of machine has one."""
        lines = seccomp.program("no-unix" if self._start.read_only else "any")
        if not lines:
            return []
        file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        file.write(lines)
        file.seek(0)
        self._start = replace(self._start, filter_fd=file.fileno())
        return [file.fileno()]

    async def _wait(self, begun: float) -> bool:
        """Until it has ended by itself, or has to be ended. Returns whether its time was over."""
        waits = [asyncio.ensure_future(each.wait()) for each in (self.exited, self._stop)]
        try:
            left = max(0.0, begun + self._timeout - time.monotonic())
            done, _ = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return not done

    def _kill(self) -> None:
        """End what is left. A reaper is told, so that it can end the others before itself."""
        self._stop.set()
        self._find_first()
        self._close_end("_go")
        if self._first is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        if self._first is not None or not self._sandbox.supervised:
            self._kill_group()

    def _kill_group(self) -> None:
        if hasattr(os, "killpg"):  # elsewhere closing the transport ends the process itself
            with suppress(OSError):  # the group lives as long as anybody is in it
                os.killpg(self._pid, signal.SIGKILL)

    async def _gone(self) -> None:
        """Wait until nobody is left, and for the rest of the output."""
        if not await _within(self.exited.wait(), REAPER_SECONDS):
            self._kill_group()
            await _within(self.exited.wait())
        if self._first is not None:
            await _within(_ended(self._first))
        await _within(self.drained.wait())

    def _find_first(self) -> None:
        """Get hold of the first process inside a bubblewrap, whose end is the end of all of them."""
        if self._info is None or self._first is not None or not self._pid:
            return
        try:
            pid = json.loads(os.read(self._info, 4_096) or b"{}").get("child-pid")
            if pid is not None:
                first = os.pidfd_open(pid)
                self._first = first if _parent_of(pid) == self._pid else self._first
                if self._first is None:
                    os.close(first)
        except (OSError, ValueError):
            return

    def _close(self) -> None:
        for name in ("_go", "_info", "_first"):
            self._close_end(name)

    def _close_end(self, name: str) -> None:
        handle = getattr(self, name)
        if handle is not None:
            setattr(self, name, None)
            os.close(handle)

    def _finished(self, code: int | None, timed_out: bool, seconds: float) -> Finished:
        said, _, left = bytes(self.report).partition(LEFT)
        killed = int(left.split()[0]) if left.split()[:1] and left.split()[0].isdigit() else 0
        problem = "" if self._ready else said.decode("utf-8", "replace").strip()
        if code is not None and code < 0:
            code = 128 - code
        output = self.captured.text()
        ended = None if timed_out else code
        return Finished(ended, output, self.captured.cut, timed_out, seconds, killed, problem)


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - many are read
        return int(file.read().rpartition(b")")[2].split()[1])


async def _within(waiting: Any, seconds: float = GRACE_SECONDS) -> bool:
    """Wait a bounded time. Returns whether it came."""
    try:
        await asyncio.wait_for(waiting, seconds)
    except (TimeoutError, asyncio.TimeoutError):
        return False
    return True


async def _ended(pidfd: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
