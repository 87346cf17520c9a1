"""The process between us and a command: it limits and confines the command, and ends all that it began.

Run as a program of its own (``python -I -S reaper.py PLAN``), where there is no PID namespace to do this.
It makes itself the one that adopts orphans, so whatever a command does to get away from it (a session of its
own, a double fork, closed pipes, an empty environment) is a descendant of this process still, and is killed.
See `launch.py` for what it says and hears. It imports nothing of our package.
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
_PATIENCE = 3.0  # seconds for processes that cannot be killed at once, such as those in a system call
_NOT_FOUND, _NOT_STARTED = 127, 126
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def main() -> int:
    """Run one command. Returns its exit code, 128 and more for a signal."""
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes time to load
    import landlock  # type: ignore[import-not-found, unused-ignore]  # beside this file
    import seccomp  # type: ignore[import-not-found, unused-ignore]  # beside this file

    plan: dict[str, Any] = json.loads(sys.argv[1])
    landlock.prctl(_SET_CHILD_SUBREAPER, 1)
    landlock.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
    woken = _wake_on(signal.SIGCHLD, signal.SIGTERM)
    os.write(2, b"ready\n")
    if not os.read(0, 100):
        return _NOT_STARTED
    child = os.fork()
    if child == 0:
        _become(plan, landlock, seccomp)
    status = _wait(child, woken)
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
    """The status of the command, or None if we are told to end it."""
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
    """Every child that has ended, with its status."""
    ended: list[tuple[int, int]] = []
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended
            ended.append((pid, status))
    except ChildProcessError:
        return ended


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_all(group: int) -> int:
    """Kill until nobody is left. Returns how many there were to kill."""
    killed: set[int] = set()
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        _collect()
        if not _has_children():  # and so no descendants: an orphan would be our child
            break
        found = _descendants()
        killed.update(found)
        for pid in (-group, *found):  # a whole group dies at once, whatever it forks meanwhile
            _kill(pid)
        time.sleep(0.001)
    return len(killed)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except _GONE:
        return


def _descendants() -> list[int]:
    """All that stem from this process and are alive, parents before children."""
    children: dict[int, list[int]] = {}
    try:
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes time to load
            parent = _parent(name) if name.isdigit() else 0
            if parent:
                children.setdefault(parent, []).append(int(name))
    except OSError:
        return _children_by_trying()
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _children_by_trying() -> list[int]:
    """Our children without opening a file: a command may have set our limit of open files to none.

    Numbers are given in turn, so they lie between ours and that of a process that is made now.
    """
    newest = os.fork()
    if newest == 0:
        os._exit(0)
    os.waitpid(newest, 0)
    mine, most = os.getpid(), 1 << 22
    numbers = range(mine, newest) if newest > mine else (*range(1, newest), *range(mine, most))
    return [pid for pid in numbers if _is_child(pid)]


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
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
    """How many threads of a process are alive besides the first, which may have ended alone."""
    try:
        return len(os.listdir(f"/proc/{name}/task")) - 1  # noqa: PTH208 - no pathlib here
    except _GONE:
        return 0


def _become(plan: dict[str, Any], landlock: Any, seccomp: Any) -> None:
    """In the new process: become the command. Never returns."""
    command, code = plan["command"], _NOT_STARTED
    try:
        os.setsid()
        landlock.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        given = os.open(plan["input"], os.O_RDONLY)
        os.dup2(given, 0)
        os.dup2(1, 2)
        os.closerange(3, 4096)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # Python ignores the first two, and that would be inherited
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
        os.execvp(command[0], command)  # noqa: S606 - that is what this is for
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not become a second reaper
        os.write(1, f"{command[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _limit(limits: dict[str, int | None]) -> None:
    import resource

    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits["memory"],
        resource.RLIMIT_AS: None if limits["memory"] is None else 4 * limits["memory"],
        resource.RLIMIT_FSIZE: limits["file_size"],
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_NPROC: limits["processes"] and limits["processes"] + _running(),
    }
    for kind, value in wanted.items():
        if value is not None:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))


def _running() -> int:
    """How many processes and threads this user has: the kernel's limit counts them all."""
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
