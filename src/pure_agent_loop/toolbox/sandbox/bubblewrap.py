"""Run commands in bubblewrap: new namespaces, and only the needed part of the file system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.git_state import GitState
from pure_agent_loop.toolbox.sandbox.launch import Limits, Start
from pure_agent_loop.toolbox.sandbox.project import RUNS, outer_of
from pure_agent_loop.toolbox.sandbox.protect import Protected, enforce_all
from pure_agent_loop.toolbox.sandbox.roots import TEMPORARY, check_root, is_too_much, resolved_folders
from pure_agent_loop.toolbox.sandbox.system_files import SYSTEM_FOLDERS, private_paths
from pure_agent_loop.toolbox.sandbox.user_git import PLACE

# ruff: noqa: PTH112 - pathlib raises if this user has no access; these functions do not

HOME = "/home/sandbox"
TEMPORARY_BYTES = 1024**3
_NAMESPACES = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_SHELL, _INPUT = "/bin/sh", "/.input"


class Bubblewrap:
    """Starts commands in a sandbox made by ``bwrap``.

    Commands see the system's programs (read-only), the workspace (writable except protected names) and empty
    folders in place of the rest. Commands have no capabilities, have no network unless `network` is True, and
    cannot reach other processes or sockets of this machine.

    Args:
        root: The workspace, resolved.
        readable: Additional readable folders, such as an interpreter's.
        protected: Names in the workspace that commands cannot write; see `Protected`.
        program: Path of ``bwrap``.
        nested: Allow new user namespaces; needed for bubblewrap older than 0.8.

    Raises:
        ConfigError: The workspace is a system folder, or a folder is missing.
    """

    name = "bubblewrap"
    supervised = True
    # Without a system call filter, a command could reach other processes through sockets, so read-only runs
    # are not available.
    refusal = "Read-only file system" if seccomp.program("none") else ""
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
        self._git_states = [GitState(root, protected), *(GitState(git) for git in outer.own)]
        if outer.shared:
            common, parts = Path(outer.shared[0]).parent, [Path(path).name for path in outer.shared]
            self._git_states.append(GitState(common, parts=parts))
        self._program = program or find_program("bwrap") or "bwrap"
        self._nested = nested
        self.private_home = HOME if not root.is_relative_to(HOME) else f"{HOME}-private"
        # The folders above these paths are read-only, even in temporary folders, which a command may write.
        shown = (str(root), *self._readable, *self._own, *self._shared)
        self._above = sorted({top for path in shown for top in _above(Path(path))})
        self.temporary = self.private_home if "/tmp" in self._above else "/tmp"  # noqa: S108 - in the sandbox

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
            # Read-only, because /proc/sys belongs to root, who could write there even without capabilities.
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
            *_fresh_folders(self.private_home),
            *(
                ["--ro-bind-try", f"{start.home}/{PLACE}", f"{self.private_home}/{PLACE}"]
                if start.home
                else []
            ),
            *(word for path in self._above if path not in TEMPORARY for word in ("--tmpfs", path)),
            *(word for path in self._readable for word in ("--ro-bind", path, path)),
            *("--ro-bind" if start.read_only else "--bind", str(self._root), str(self._root)),
            *([] if start.read_only else self._writable()),
            *self._hidden(),
            # The input is a copied file, as the shell below cannot close a descriptor with several digits.
            *(["--ro-bind-data", str(start.input_fd), _INPUT] if start.input_fd >= 0 else []),
            *(word for path in (*self._above, "/dev", "/") for word in ("--remount-ro", path)),
            *("--chdir", start.cwd, "--"),
            *(
                _SHELL,
                "-c",
                _script(start.limits, _INPUT if start.input_fd >= 0 else os.devnull),
                "sh",
                *start.command,
            ),
        ]

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:
        """See `Sandbox`."""
        states = [state for state in self._git_states if not start.read_only or state.is_aside]
        return enforce_all([*states, *([] if start.read_only else self._protected)])

    def _writable(self) -> list[str]:
        """Return mounts for the outside folders that a commit writes, and for protected names."""
        words = [word for path in (*self._shared, *self._own) for word in ("--bind", path, path)]
        return [*words, *(word for protected in self._protected for word in protected.mounts())]

    def _hidden(self) -> list[str]:
        """Hide this package's data folder if a visible folder contains it."""
        data = data_folder()
        shown = any(data.is_relative_to(path) for path in (str(self._root), *self._readable))
        hidden = ["--perms", "0555", "--tmpfs", str(data), "--remount-ro", str(data)]
        return hidden if shown and os.path.isdir(data) else []


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


def _above(path: Path) -> Iterator[str]:
    """Yield the top folder above a path in a temporary folder, which needs a read-only mount."""
    for temporary in map(Path, TEMPORARY):
        if temporary in path.parents:
            top = temporary / path.relative_to(temporary).parts[0]
            yield str(temporary if top == path else top)


def _fresh_folders(home: str) -> list[str]:
    size = str(TEMPORARY_BYTES)
    words = [word for path in TEMPORARY for word in ("--perms", "1777", "--size", size, "--tmpfs", path)]
    return [*words, "--symlink", "/run", "/var/run", "--perms", "0700", "--size", size, "--tmpfs", home]


def _script(limits: Limits, input_path: str) -> str:
    """Return the script of the first process after bubblewrap's own; `launch.py` describes its protocol.

    ``ulimit`` counts files in blocks of 512 bytes in most shells.
    """
    size = limits.file_size
    wanted = [
        "-c 0",
        *([f"-f {size // 512}"] if size else []),
        *([f"-t {limits.cpu_seconds}"] if limits.cpu_seconds else []),
    ]
    lines = ["echo ready >&2", "read go || exit 126", *(f"ulimit {option}" for option in wanted)]
    if limits.processes:  # dash limits processes with -p, other shells with -u
        lines.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes} 2>/dev/null")
    lines += [
        "trap : TERM",  # this shell survives a request to end; the command does not inherit the trap
        f'"$@" <{input_path} 2>&1',
        "code=$?",
        "set -- /proc/[0-9]*",
        "[ $# -gt 2 ] && sleep 0.3 && set -- /proc/[0-9]*",  # wait for processes that are about to exit
        'echo "left $(($# - 2))" >&2',
        "exit $code",
    ]
    return "\n".join(lines)
