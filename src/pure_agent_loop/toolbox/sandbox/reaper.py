"""Supervise a command for the main process: limit and confine the command, and kill all its processes.

This is a standalone program (``python -I -S reaper.py PLAN``), used where there is no PID namespace. It
adopts orphans, so whatever a command does to escape (a new session, a double fork, closed pipes, an empty
environment), the command's processes stay descendants of this process and are killed. `launch.py` describes
the protocol. This file imports nothing from the package.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_KILL_SECONDS = 3.0  # time for processes that cannot be killed at once, such as those in a system call
_ENDING_SECONDS = 0.3
_NOT_FOUND, _NOT_STARTED = 127, 126
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def main() -> int:
    """Run one command. Return the exit code: 128 and more for a signal."""
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to import
    import landlock  # type: ignore[import-not-found, unused-ignore]  # in the folder of this file
    import seccomp  # type: ignore[import-not-found, unused-ignore]  # in the folder of this file

    plan: dict[str, Any] = json.loads(sys.argv[1])
    landlock.prctl(_SET_CHILD_SUBREAPER, 1)
    landlock.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
    woken = _wake_on(signal.SIGCHLD, signal.SIGTERM)
    os.write(2, b"ready\n")
    if not os.read(0, 100):
        return _NOT_STARTED
    child = os.fork()
    if child == 0:
        _exec(plan, landlock, seccomp)
    status = _wait(child, woken)
    if status is not None:
        _wait_briefly()
    left = _end_all(child)
    os.write(2, b"left %d\n" % left)
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _wake_on(*signals: int) -> int:
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return woken


def _wait(child: int, woken: int) -> int | None:
    """Return the status of the command, or None if it has to be killed."""
    while True:
        for pid, status in _collect():
            if pid == child:
                return status
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready:
            return None
        if signal.SIGTERM in os.read(woken, 1000):
            return None


def _collect() -> list[tuple[int, int]]:
    """Return all ended children with their statuses."""
    ended: list[tuple[int, int]] = []
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended
            ended.append((pid, status))
    except ChildProcessError:
        return ended


def _wait_briefly() -> None:
    """Wait briefly for processes that are just ending, which do not count as left in the background."""
    until = time.monotonic() + _ENDING_SECONDS
    while _has_child(os.P_ALL) and time.monotonic() < until:
        _collect()
        time.sleep(0.001)


def _end_all(group: int) -> int:
    """Kill until no process is left. Return the number of killed processes."""
    killed: set[int] = set()
    until = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < until:
        _collect()
        if not _has_child(os.P_ALL):  # then no descendant is left either, because this process adopts orphans
            break
        descendants = _descendants()
        killed.update(descendants)
        for pid in (-group, *descendants):  # killing the group at once works even while it forks
            _kill(pid)
        time.sleep(0.001)
    return len(killed)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except _GONE:
        return


def _descendants() -> list[int]:
    """Return all live descendants, parents before children."""
    children: dict[int, list[int]] = {}
    try:
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
            parent = _parent(name) if name.isdigit() else 0
            if parent:
                children.setdefault(parent, []).append(int(name))
    except OSError:
        return _children_by_trying()
    descendants = list(children.get(os.getpid(), ()))
    for pid in descendants:
        descendants += children.get(pid, ())
    return descendants


def _children_by_trying() -> list[int]:
    """Find this process's children without opening a file, because the limit of open files may be zero.

    Process ids are assigned in order, so the children's ids lie between this process's and a new process's.
    """
    newest = os.fork()
    if newest == 0:
        os._exit(0)
    os.waitpid(newest, 0)
    own, limit = os.getpid(), 1 << 22
    numbers = range(own, newest) if newest > own else (*range(1, newest), *range(own, limit))
    return [pid for pid in numbers if _has_child(os.P_PID, pid)]


def _has_child(kind: int, pid: int = 0) -> bool:
    try:
        os.waitid(kind, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _parent(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - no pathlib here
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except _GONE:
        return 0
    return 0 if state in b"ZX" and not _tasks(name) else int(parent)


def _tasks(name: str) -> int:
    """Count the live threads of a process except the main thread, which may have ended before the others."""
    try:
        return len(os.listdir(f"/proc/{name}/task")) - 1  # noqa: PTH208 - no pathlib here
    except _GONE:
        return 0


def _exec(plan: dict[str, Any], landlock: Any, seccomp: Any) -> None:
    """Replace the new process with the command. Never returns."""
    command, code = plan["command"], _NOT_STARTED
    try:
        os.setsid()
        landlock.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        stdin = os.open(plan["input"], os.O_RDONLY)
        os.dup2(stdin, 0)
        os.dup2(1, 2)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208 - no pathlib here
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # Python ignores the first two, and children inherit that
        _limit(plan["limits"])
        landlock.no_new_privileges()
        if plan["confine"] is not None:
            landlock.drop_capabilities()
            landlock.restrict(plan["confine"])
            seccomp.install(
                "no-unix" if plan["confine"]["network"] else "none",
                shared=True,
                still=plan["confine"]["still"],
            )
        code = _NOT_FOUND
        os.execvp(command[0], command)  # noqa: S606 - the purpose of this program
    except BaseException as error:  # noqa: BLE001 - this process must never become a second reaper
        os.write(1, f"{command[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _limit(limits: dict[str, int | None]) -> None:
    import resource

    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["file_size"],
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_NPROC: limits["processes"] and limits["processes"] + _running(),
    }
    for kind, value in wanted.items():
        if value is not None:
            hard = resource.getrlimit(kind)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (limit, limit))


def _running() -> int:
    """Count this user's processes and threads, because the kernel's limit includes them all."""
    if os.getuid() == 0:
        return 0
    return sum(_tasks(name) + 1 for name in os.listdir("/proc") if name.isdigit() and _is_ours(name))  # noqa: PTH208 - no pathlib here


def _is_ours(name: str) -> bool:
    try:
        return os.stat(f"/proc/{name}").st_uid == os.getuid()  # noqa: PTH116 - no pathlib here
    except _GONE:
        return False


if __name__ == "__main__":
    os._exit(main())
