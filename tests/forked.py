"""Start a Python program as a fork of one that has our dependencies in memory: in half of the time.

It is a child of the test like any other, with its own streams, folder, variables and signals. It has the
`LIBRARIES` that our modules import late in memory, and our modules of `ROOMS`; with ``PAL_TESTS_FORK=anew``
it imports ours again, in its own order, as `make soak` does. What only a new Python can read (options, its
own variables, those of the locale and of TLS) is the same in all forks of a server. A new Python starts
where a folder brings modules of names that are loaded already, and always with ``PAL_TESTS_FORK=0``.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import io
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import types
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module, util
from importlib.machinery import all_suffixes
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

PACKAGE = "pure_agent_loop"
ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
MODE = "PAL_TESTS_FORK"
ANEW, NEVER = "anew", "0"
ROOMS = (
    *("cli.commands.run", "cli.one_run", "cli.toolset", "cli.chat.app", "llm.http.aio", "schema.build"),
    *("runs.run", "sessions", "sessions.transcript", "compaction.record", "mcp", "acp", "testing"),
)
LIBRARIES = ("pydantic.type_adapter", "openai", "prompt_toolkit.shortcuts", "rich.console", "markdown_it")
PIPE_SIZE = 4096  # bytes that any pipe takes without a reader
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "SSL_", "OPENSSL", "PYDANTIC", "AIOHTTP")
MODULES = tuple(all_suffixes())  # how the names of modules end
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
CLONE_PARENT = 0x8000
_OPTIONS = inspect.signature(subprocess.Popen._execute_child)
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Popen(subprocess.Popen):
    """As in `subprocess`, but quicker for `python -m NAME`, `python -c CODE` and `python FILE`."""

    rooms: tuple[str, ...] = ROOMS

    def _execute_child(self, *args: Any, **more: Any) -> None:
        options = _OPTIONS.bind(self, *args, **more).arguments
        words, env = list(options["args"]), options["env"]
        env = dict(os.environ if env is None else env)
        first = 3 if words[1:2] == ["-W"] else 1
        folder = Path(options["cwd"] or ".").absolute()
        usual = words[0] == sys.executable and not options["pass_fds"]
        usual = usual and options["preexec_fn"] in (None, own_terminal)
        usual = usual and _is_plain(words[first], folder, env)
        server = _server_for(words[1:first], self.rooms, env) if usual else None
        if server is None:
            super()._execute_child(*args, **more)
            return
        request = {
            "argv": words,
            "first": first,
            "folder": str(folder),
            "env": env,
            "session": options["start_new_session"],
            "terminal": options["preexec_fn"] is own_terminal,
        }
        streams = [options["p2cread"], options["c2pwrite"], options["errwrite"]]
        self.pid = server.fork(request, [own if pipe == -1 else pipe for own, pipe in enumerate(streams)])
        self._child_created = True
        self._close_pipe_fds(*(options[name] for name in _PIPES))


def own_terminal() -> None:
    """In the child: its standard error becomes the terminal that Ctrl-C comes from."""
    import fcntl
    import termios

    fcntl.ioctl(2, termios.TIOCSCTTY, 0)


def run(
    argv: list[str], data: str | bytes | None = None, *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run` with what comes back. Data that fits into a pipe is there at the start."""
    given = data.encode() if isinstance(data, str) else data or b""
    fits = len(given) <= PIPE_SIZE
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with contextlib.ExitStack() as stack:
        if fits:
            pipes["stdin"], end = os.pipe()
            stack.callback(os.close, pipes["stdin"])
            os.write(end, given)
            os.close(end)
        process = stack.enter_context(Popen(argv, **pipes, **options))
        try:
            out, err = process.communicate(None if fits else data, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


# -- in the tests -------------------------------------------------------------------------------------------


class ForkServer:
    """A Python that forks. It ends with the process that started it."""

    def __init__(self, flags: list[str], rooms: Iterable[str], read: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, *flags, "-m", "tests.forked", str(theirs.fileno()), *rooms]
            env = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_START)}
            self._process = subprocess.Popen(
                command, env={**env, **read}, cwd=ROOT, pass_fds=[theirs.fileno()]
            )

    def fork(self, request: Mapping[str, Any], streams: list[int]) -> int:
        """Start a process, and return its number."""
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._ours, [len(data).to_bytes(8, "big")], streams)
            self._ours.sendall(data)
            pid = self._ours.recv(8)
        assert pid, "the fork server has ended"
        return int.from_bytes(pid, "big")


_servers: dict[Any, ForkServer] = {}
_seen: Counter[Any] = Counter()


def _is_plain(program: str, folder: Path, env: Mapping[str, str]) -> bool:
    """Whether no folder brings a module of a name that a fork server has loaded; that one must be found."""
    if program.startswith("-") and program not in ("-c", "-m"):
        return False
    first = folder if program.startswith("-") else (folder / program).parent
    folders = [first, *map(Path, filter(None, env.get("PYTHONPATH", "").split(os.pathsep)))]
    others = [place for place in folders if place.is_dir() and place != SOURCES]
    found = (path for place in others for path in place.iterdir())
    modules = (path for path in found if path.is_dir() or path.name.endswith(MODULES))  # mkdocs.yml is none
    return _names_of_modules().isdisjoint(path.name.partition(".")[0] for path in modules)


@cache
def _names_of_modules() -> frozenset[str]:
    installed = {*packages_distributions(), "sitecustomize", "usercustomize", PACKAGE}
    return sys.stdlib_module_names | installed


def _server_for(flags: list[str], rooms: tuple[str, ...], env: dict[str, str]) -> ForkServer | None:
    """Return the fork server with these variables; None where it would not pay."""
    if CLONE is None or os.environ.get(MODE) == NEVER:
        return None
    read = {name: value for name, value in env.items() if name.startswith(READ_AT_START)}
    read.pop("PYTHONPATH", "")  # `become` sees to it
    fixed = (*flags, rooms, *sorted(read.items()))
    _seen[fixed] += 1
    if fixed not in _servers and _seen[fixed] > 2:
        _servers[fixed] = ForkServer(flags, rooms, read)
    return _servers.get(fixed)


# -- in the fork server -------------------------------------------------------------------------------------


def wait_for_requests(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request; return it in the child, and None at the end of the tests."""
    while head_and_streams := socket.recv_fds(channel, 8, 3):
        head, streams, *_ = head_and_streams
        if not head:
            return None
        with channel.makefile("rb") as reader:
            data = reader.read(int.from_bytes(head, "big"))
        pid = clone()
        if pid == 0:
            return json.loads(data), streams
        for stream in streams:
            os.close(stream)
        channel.sendall(pid.to_bytes(8, "big"))
    return None


def clone() -> int:
    """Fork, as `os.fork` does, but the new process is a child of our parent."""
    python, system = ctypes.pythonapi, ctypes.PyDLL(None)
    system.syscall.argtypes, system.syscall.restype = [ctypes.c_long] * 6, ctypes.c_long
    python.PyOS_BeforeFork()
    pid = system.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    (python.PyOS_AfterFork_Child if pid == 0 else python.PyOS_AfterFork_Parent)()
    assert pid >= 0, "this system has no clone"
    return pid


def become(request: Mapping[str, Any], streams: list[int]) -> None:
    """Make this process what was asked for."""
    forget("tests")
    os.chdir(request["folder"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        own_terminal()
    sys.path[1:1] = filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = text_stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.orig_argv = request["argv"]
    sys.argv = sys.orig_argv[request["first"] :]


def text_stream(number: int, like: Any) -> io.TextIOWrapper:
    """Open a standard stream as Python does at its start."""
    buffer = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - for all of its life
    line = number == 2 or buffer.raw.isatty()
    return io.TextIOWrapper(buffer, like.encoding, like.errors, "\n", line_buffering=line)


def forget(package: str) -> None:
    """Let modules be imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def run_main() -> None:
    """Run the program that `sys.argv` begins with, as its main module."""
    program = sys.argv[0]
    if program == "-c":
        sys.path[0], spec, file, code = "", None, None, compile(sys.argv.pop(1), "<string>", "exec")
    elif program == "-m":
        sys.path[0], name = str(Path.cwd()), sys.argv.pop(1)
        spec = util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = util.find_spec(f"{name}.__main__")
        assert spec is not None, f"No module named {name}"
        file = sys.argv[0] = spec.origin
        code = spec.loader.get_code(spec.name)
    else:
        sys.path[0], spec, file = str(Path(program).absolute().parent), None, program
        code = compile(Path(program).read_bytes(), program, "exec")
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__spec__, main.__package__ = spec, spec.parent if spec else None
    if file is not None:
        main.__file__ = file
    exec(code, vars(main))


if __name__ == "__main__":
    for library in LIBRARIES:
        import_module(library)
    for room in sys.argv[2:]:
        import_module(f"{PACKAGE}.{room}")
    if os.environ.get(MODE) == ANEW:
        forget(PACKAGE)
    gc.collect()
    gc.freeze()  # what is here already need not be copied for each child
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        asked = wait_for_requests(requests)
    if asked:
        become(*asked)
        run_main()
