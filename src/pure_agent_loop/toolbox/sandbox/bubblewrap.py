"""Run commands in bubblewrap: new namespaces, and only the needed part of the file system."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import NEUTRAL_DIR, find_program
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import checked_choice, notice
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import landlock, seccomp
from pure_agent_loop.toolbox.sandbox.launch import Limits, Sandbox, Start, Unconfined, reaper_argv
from pure_agent_loop.toolbox.sandbox.project import RUNS, outer_of
from pure_agent_loop.toolbox.sandbox.protect import Protected, enforce_all
from pure_agent_loop.toolbox.sandbox.system import SYSTEM_FOLDERS, private_paths, public_paths

# ruff: noqa: PTH110, PTH112 - pathlib raises if this user has no access; these functions do not


HOME = "/home/sandbox"
TEMPORARY_BYTES = 1024**3
_TEMPORARY = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 - fresh ones, inside
_NAMESPACES = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_SHELL = "/bin/sh"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROBE_SECONDS = 10


class Bubblewrap:
    """Starts commands in a sandbox made by ``bwrap``.

    Commands see the system's programs (read-only), the workspace (writable except protected names) and empty
    folders for the rest. No network, other processes, sockets of this machine, or capabilities.

    Args:
        root: The workspace, resolved.
        readable: More readable folders, such as an interpreter's.
        protected: Names in the workspace that commands cannot write; see `Protected`.
        program: Path of ``bwrap``.
        nested: Allow new user namespaces; needed for bubblewrap older than 0.8.

    Raises:
        ConfigError: The workspace is a system folder, or a folder is missing.
    """

    name = "bubblewrap"
    supervised = True
    # Without a system call filter a command could reach others through sockets, so read-only runs are off.
    refusal = "Read-only file system" if seccomp.program("none") else ""
    private_home = HOME
    why = ""

    def __init__(
        self,
        root: Path,
        *,
        network: bool = False,
        readable: Sequence[str | os.PathLike[str]] = (),
        protected: Sequence[str] = PROTECTED_IN_SANDBOX,
        program: str = "",
        nested: bool = False,
    ) -> None:
        check_root(root)
        self._root, self._network = root, network
        outer = outer_of(root, is_too_much)
        self.beyond = outer.why
        self._readable = [*resolved_folders(readable), *outer.readable]
        self._own, self._shared = list(map(str, outer.own)), outer.shared
        self._protected = [Protected(root, protected), *(Protected(git, RUNS) for git in outer.own)]
        self._program = program or find_program("bwrap") or "bwrap"
        self._nested = nested

    def argv(self, start: Start) -> list[str]:
        """See `Sandbox`."""
        network = self._network and not start.read_only
        return [
            self._program,
            *_NAMESPACES,
            *([] if self._nested else ["--disable-userns"]),
            *(["--share-net"] if network else []),
            *(["--info-fd", str(start.info_fd)] if start.info_fd >= 0 else []),
            *(["--seccomp", str(start.filter_fd)] if start.filter_fd >= 0 else []),
            *("--hostname", "sandbox"),
            *_system(network=network),
            # Read-only: /proc/sys belongs to root, so root could write there even without capabilities.
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
            *_fresh_folders(),
            *(word for path in self._readable for word in ("--ro-bind", path, path)),
            *("--ro-bind" if start.read_only else "--bind", str(self._root), str(self._root)),
            *([] if start.read_only else self._writable()),
            *self._hidden(),
            *("--remount-ro", "/", "--chdir", start.cwd, "--"),
            *(_SHELL, "-c", _script(start.limits, start.input_path), "sh", *start.command),
        ]

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:
        """See `Sandbox`."""
        return nullcontext([]) if start.read_only else enforce_all(self._protected)

    def _writable(self) -> list[str]:
        """Return mounts for what a commit writes around the workspace, and for protected names."""
        words = [word for path in (*self._shared, *self._own) for word in ("--bind", path, path)]
        return [*words, *(word for protected in self._protected for word in protected.mounts())]

    def _hidden(self) -> list[str]:
        """Hide this package's data folder if a visible folder contains it."""
        data = data_folder()
        shown = any(data.is_relative_to(path) for path in (str(self._root), *self._readable))
        return ["--perms", "0555", "--tmpfs", str(data)] if shown and os.path.isdir(data) else []


def check_workspace(root: Path) -> None:
    """Reject a home, a shared temporary folder or a folder with keys: a model may read and change all in it.

    Raises:
        ConfigError: The root is such a folder, or a system folder.
    """
    check_root(root)
    homes = (Path.home().resolve(), Path("/root"))
    what = "home" if root in homes or root.parent == Path("/home") or root == Path("/home") else ""
    what = what or ("temporary" if root in map(Path, _TEMPORARY) else "")
    what = what or ("with_keys" if os.path.exists(root / ".ssh") else "")
    if what:
        kind = notice(f"library.folder_{what}")
        raise ConfigError(notice("library.workspace_open", root=str(root), kind=kind))


def is_too_much(folder: Path) -> bool:
    """Return True if a folder must never be shown to commands as a whole."""
    try:
        check_workspace(folder)
    except ConfigError:
        return True
    return False


def check_root(root: Path) -> None:
    """Reject a workspace that is a system folder or the root; a folder below one may be a workspace.

    Raises:
        ConfigError: The workspace is one of these.
    """
    if root == Path("/") or any(
        root == Path(folder) for folder in (*SYSTEM_FOLDERS, "/proc", "/dev", "/sys", "/run")
    ):
        raise ConfigError(notice("library.workspace_system", root=str(root)))


def resolved_folders(folders: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Resolve the links in existing folders.

    Raises:
        ConfigError: A folder is missing.
    """
    for folder in folders:
        if not os.path.exists(folder):
            raise ConfigError(f"readable={os.fspath(folder)!r} does not exist.")
    return [str(Path(folder).resolve()) for folder in folders]


def _system(*, network: bool) -> list[str]:
    words: list[str] = []
    for folder in SYSTEM_FOLDERS:
        path = Path(folder)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), folder]  # noqa: PTH115 - the unresolved target
        elif path.is_dir():
            words += ["--ro-bind", folder, folder]
    for private in private_paths():
        if Path(private).is_dir():
            words += ["--perms", "0000", "--tmpfs", private, "--remount-ro", private]
        else:
            words += ["--ro-bind", "/dev/null", private]
    resolver = Path("/etc/resolv.conf").resolve()
    if network and resolver.is_file() and not resolver.is_relative_to("/etc"):
        words += ["--ro-bind", str(resolver), str(resolver)]
    return words


def _fresh_folders() -> list[str]:
    size = str(TEMPORARY_BYTES)
    words = [word for path in _TEMPORARY for word in ("--perms", "1777", "--size", size, "--tmpfs", path)]
    return [*words, "--symlink", "/run", "/var/run", "--perms", "0700", "--size", size, "--tmpfs", HOME]


def _script(limits: Limits, input_path: str) -> str:
    """Return the script of the first process after bubblewrap's own; `launch.py` describes its protocol.

    ``ulimit`` counts memory in KiB and files in blocks of 512 bytes in most shells.
    """
    memory, size = limits.memory, limits.file_size
    wanted = [
        "-c 0",
        *([f"-d {memory // 1024}", f"-v {memory // 256}"] if memory else []),
        *([f"-f {size // 512}"] if size else []),
        *([f"-t {limits.cpu_seconds}"] if limits.cpu_seconds else []),
    ]
    lines = ["echo ready >&2", "read go || exit 126", *(f"ulimit {option}" for option in wanted)]
    if limits.processes:  # -p in dash, -u in other shells
        lines.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes} 2>/dev/null")
    lines += [
        f'"$@" <{input_path} 2>&1',
        "code=$?",
        "set -- /proc/[0-9]*",
        'echo "left $(($# - 2))" >&2',
        "exit $code",
    ]
    return "\n".join(lines)


# -- select the sandbox of this machine by trying: bubblewrap, else Landlock, else none ------------------

SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]
SANDBOX_NAMES: tuple[str, ...] = get_args(SandboxName)


class Landlock(Sandbox):
    """Starts commands that the kernel confines to the workspace, a private folder and the system's programs.

    Sockets need `network`, and Unix sockets are never allowed; signals to outside processes and inspection
    are blocked. The process list stays visible, and no part of the workspace can be made read-only.

    Args:
        root: The workspace, resolved.
        why: The reason why there is no better sandbox.

    Raises:
        ConfigError: The workspace is a system folder, or a folder is missing.
    """

    name = "landlock"
    supervised = True
    private_home = ""
    refusal = "Permission denied|Operation not permitted"

    def __init__(
        self,
        root: Path,
        *,
        network: bool = False,
        readable: Sequence[str | os.PathLike[str]] = (),
        why: str = "",
    ) -> None:
        check_root(root)
        # Otherwise a command could signal processes of its user, or reach them through sockets.
        if landlock.version() < landlock.SCOPED or not seccomp.program("none"):
            self.refusal = ""
        self.why = why
        self._root, self._network = root, network
        outer = outer_of(root, is_too_much)
        far = [str(git) for git in outer.own if not git.is_relative_to(root)]
        self.beyond = outer.why or ({"key": "git_only_read", "path": far[0]} if far else {})
        self._readable = [*resolved_folders(readable), *outer.readable]

    def argv(self, start: Start) -> list[str]:
        """See `Sandbox`."""
        home = [start.home] if start.home else []
        confine = {
            "write": home if start.read_only else [str(self._root), *home],
            "read": [*public_paths(), *self._readable, "/proc", str(self._root)],
            "devices": _DEVICES,
            "network": self._network and not start.read_only,
            "still": start.read_only,
        }
        return reaper_argv(start, confine)


def best_sandbox(
    root: str | os.PathLike[str],
    *,
    name: str = "auto",
    network: bool = False,
    readable: Sequence[str | os.PathLike[str]] = (),
    protected: Sequence[str] = PROTECTED_IN_SANDBOX,
) -> Sandbox:
    """Return the strongest working sandbox; its `why` explains why no stronger one is used.

    Args:
        name: ``auto``, or exactly one of ``bubblewrap``, ``landlock`` and ``none``.
        protected: Names in the workspace that commands cannot write; see `Protected`.

    Raises:
        ConfigError: The named sandbox does not work here, or another value is invalid.
    """
    checked_choice("sandbox", name, SANDBOX_NAMES)
    folder = Path(root).expanduser().resolve()
    no_bubblewrap, nested = bubblewrap_problem() if name in ("auto", "bubblewrap") else ("", False)
    if name in ("auto", "bubblewrap") and not no_bubblewrap:
        return Bubblewrap(folder, network=network, readable=readable, protected=protected, nested=nested)
    if name == "bubblewrap":
        raise ConfigError(notice("library.sandbox_not_here", name=name, why=no_bubblewrap))
    no_landlock = landlock_problem() if name in ("auto", "landlock") else ""
    if name in ("auto", "landlock") and not no_landlock:
        return Landlock(
            folder,
            network=network,
            readable=readable,
            why=no_bubblewrap or notice("library.sandbox_configured"),
        )
    if name == "landlock":
        raise ConfigError(notice("library.sandbox_not_here", name=name, why=no_landlock))
    both = (
        no_bubblewrap
        and no_landlock
        and notice("library.sandbox_both", first=no_bubblewrap, second=no_landlock)
    )
    return Unconfined(both or no_bubblewrap or no_landlock or notice("library.sandbox_configured"))


@lru_cache(maxsize=1)
def bubblewrap_problem() -> tuple[str, bool]:
    """Return why bubblewrap does not work, or "", and whether it cannot forbid nested namespaces."""
    if sys.platform != "linux":
        return notice("library.sandbox_bubblewrap_linux"), False
    program = find_program("bwrap")
    if program is None:
        return notice("library.sandbox_bubblewrap_missing"), False
    first = _probe(program, nested=False)
    if not first:
        return "", False
    second = _probe(program, nested=True)
    return (notice("library.sandbox_bubblewrap_fails", error=second) if second else ""), not second


def _probe(program: str, *, nested: bool) -> str:
    """Return the error of bubblewrap running ``true``, or ""."""
    sandbox = Bubblewrap(Path("/var/empty-workspace"), protected=(), program=program, nested=nested)
    words = sandbox.argv(Start(["true"], "/"))
    at = words.index("--bind")
    del words[at : at + 3]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            words,
            input=b"go\n",
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={},
            cwd=NEUTRAL_DIR,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    output = done.stderr.decode("utf-8", "replace").replace("\n", " ").strip()
    return "" if done.returncode == 0 else output or f"exit code {done.returncode}"


@lru_cache(maxsize=1)
def landlock_problem() -> str:
    """Return why Landlock does not work, or ""."""
    if sys.platform != "linux":
        return notice("library.sandbox_landlock_linux")
    return "" if landlock.version() else notice("library.sandbox_landlock_missing")
