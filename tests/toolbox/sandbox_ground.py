"""What the tests of sandboxes stand on: a user without powers, and victims outside."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.short_places import fits_socket

from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.best import best_sandbox, bubblewrap_problem, landlock_problem
from pure_agent_loop.toolbox.sandbox.launch import Limits, Sandbox, Start
from pure_agent_loop.toolbox.sandbox.process import Finished, run_process

DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 100)
os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})
"""
# A plain user of this process alone: the kernel counts the processes of a user, and other tests have some.
NOBODY = 40_000 + os.getpid() % 20_000 if sys.platform != "win32" else 0
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
IS_ROOT = sys.platform != "win32" and os.getuid() == 0
# Root can put on a plain user's shoes; a plain user has only their own.
USERS = ["root", "nobody"] if IS_ROOT else ["self"]
SECRET = "pal-canary-" + uuid.uuid4().hex


def require_tools() -> None:
    """Fail, and say what to do: a test that is not run proves nothing."""
    problem = bubblewrap_problem()[0] or landlock_problem()
    assert not problem, f"{problem}. These tests need it; run scripts/install-test-tools.sh"


@lru_cache(maxsize=1)
def system_python() -> str:
    """A Python that every user can start, which a sandbox shows without being told."""
    for name in ("/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([name, "-c", "import ctypes"], check=True, env={})
            return name
    raise AssertionError("These tests need the system's own python3 (Debian: apt-get install python3)")


def five_ways(marker: str) -> str:
    """Commands that start five daemons, each in another way, which sleep `marker` seconds."""
    ways = [
        f"setsid sleep {marker} &",
        f"nohup sleep {marker} >/dev/null 2>&1 & disown",
        f"setsid -f sleep {marker}",
        f"( ( sleep {marker} & ) & )",
        f'{system_python()} -I -S -c "{DAEMON}" {marker}',
    ]
    return "\n".join(ways)


async def bash(command: str, folder: Path, mode: str, timeout: float = 60.0, **options: Any) -> Finished:
    """Run a command line in a sandbox of that name."""
    sandbox = best_sandbox(folder, name=mode, protected=())
    words = ["/bin/bash", "-c", command]
    return await run_process(words, cwd=folder, timeout=timeout, sandbox=sandbox, home=str(folder), **options)


class Ground:
    """A workspace, and things outside that must not be reached from it."""

    def __init__(self, folder: Path, user: str) -> None:
        self.user = user
        self.folder = folder
        self.workspace, self.outside = folder / "workspace", folder / "outside"
        self.planted: list[Path] = []

    def probe(self, sandbox: Sandbox, known: dict[str, Any], *, without: tuple[str, ...] = ()) -> Any:
        """Run all probes in a sandbox, as this ground's user."""
        shutil.copy(Path(__file__).with_name("sandbox_probes.py"), self.workspace / "probes.py")
        (self.workspace / "known.json").write_text(json.dumps({**known, "without": without}))
        command = [system_python(), "-I", "probes.py", "known.json"]
        with sandbox.prepared(Start(command, str(self.workspace))):
            done = self.run(sandbox, command)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def run(
        self, sandbox: Sandbox, command: list[str], limits: Limits | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Start a command as `run_process` does, but as this ground's user."""
        home = str(self.folder / "home")
        shut = os.memfd_create("filter", 0)
        os.write(shut, seccomp.program())
        os.lseek(shut, 0, os.SEEK_SET)
        start = Start(command, str(self.workspace), home, limits=limits or Limits(), filter_fd=shut)
        words = sandbox.argv(start)
        if words[0] == sys.executable:  # the reaper: nobody may not read where we are installed
            script = Path(words[3])
            for name in ("reaper.py", "landlock.py", "seccomp.py"):
                shutil.copy(script.with_name(name), self.folder)
            words = [system_python(), *words[1:3], str(self.folder / "reaper.py"), *words[4:]]
        _KEPT.append(shut)
        return subprocess.run(
            [*(AS_NOBODY if self.user == "nobody" else []), *words],
            stdin=_go(),
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.workspace,
            env={"PATH": "/usr/bin:/bin", "HOME": home},
            check=False,
            pass_fds=[shut],
        )


def _go() -> int:
    """A standard input that says go, and stays open as long as this process lives."""
    reading, writing = os.pipe()
    os.write(writing, b"go\n")
    _KEPT.extend((reading, writing))
    return reading


_KEPT: list[int] = []


@contextlib.contextmanager
def ground(user: str) -> Iterator[Ground]:
    """A ground for a user, removed afterwards with all that was planted."""
    folder = Path(tempfile.mkdtemp(prefix="pal-ground-", dir="/tmp"))
    made = Ground(folder, user)
    try:
        folder.chmod(0o755)
        hooks = made.workspace / ".git" / "hooks"
        for each in (made.workspace, made.outside, folder / "home", hooks.parent, hooks):
            each.mkdir()
        (made.outside / "secret").write_text("secret")
        (made.outside / "victim-file").write_text("victim")
        if user == "nobody":
            for each in (*folder.rglob("*"), folder):
                os.chown(each, NOBODY, NOBODY)
        yield made
    finally:
        for handle in _KEPT:
            os.close(handle)
        _KEPT.clear()
        shutil.rmtree(folder)
        for path in made.planted:
            shutil.rmtree(path)


@contextlib.contextmanager
def victims(made: Ground) -> Iterator[dict[str, Any]]:
    """A process with a secret, servers and sockets, all outside; they greet who gets through to them."""
    with contextlib.ExitStack() as stack:
        as_user = AS_NOBODY if made.user == "nobody" else []
        victim = subprocess.Popen([*as_user, "sleep", "600"], env={"PATH": "/usr/bin:/bin", "CANARY": SECRET})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        tcp = stack.enter_context(greeting(("127.0.0.1", 0), socket.AF_INET))
        abstract = f"pal-{uuid.uuid4().hex}"
        stack.enter_context(greeting("\0" + abstract))
        sockets = {}
        for place, folder in _places(made).items():
            sockets[place] = str(folder / "socket")
            stack.enter_context(greeting(sockets[place]))
            Path(sockets[place]).chmod(0o777)
        home = _plant(made, Path.home())
        (home / "secret").write_text("secret")
        yield {
            "workspace": str(made.workspace),
            "outside": str(made.outside),
            "victim": victim.pid,
            "canary": SECRET,
            "home_secret": str(home / "secret"),
            "data_secret": str(home / "secret"),
            "devices": [f"/dev/{name}" for name in ("mem", "kmsg", *_disks())],
            "shared_memory": stack.enter_context(shared_memory()),
            "tcp": tcp.getsockname()[1],
            "abstract": abstract,
            "same_network": str(Path("/proc/self/ns/net").readlink()),
            "sockets": sockets,
        }


@contextlib.contextmanager
def shared_memory() -> Iterator[int]:
    """A segment of System V shared memory that every user may use."""
    library = ctypes.CDLL(None)
    segment = library.shmget(0, 4096, 0o1666)  # IPC_CREAT, and all may read and write
    assert segment >= 0
    try:
        yield segment
    finally:
        library.shmctl(segment, 0, None)  # IPC_RMID


def _disks() -> list[str]:
    folder = Path("/sys/block")
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _places(made: Ground) -> dict[str, Path]:
    wanted = {"run": "/run", "var_lib": "/var/lib", "srv": "/srv", "var_tmp": "/var/tmp", "shm": "/dev/shm"}
    found = {name: _plant(made, Path(path)) for name, path in wanted.items() if os.access(path, os.W_OK)}
    places = {**found, "tmp": made.outside, "home": _plant(made, Path.home())}
    return {name: folder for name, folder in places.items() if fits_socket(folder / "socket")}


def _plant(made: Ground, where: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pal-planted-", dir=where))
    folder.chmod(0o755)
    made.planted.append(folder)
    return folder


@contextlib.contextmanager
def greeting(address: Any, family: int = socket.AF_UNIX) -> Iterator[socket.socket]:
    """A server that says hello to everybody."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen(16)

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client, contextlib.suppress(OSError):
                        client.sendall(b"hello")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
