"""Commands in a bubblewrap: namespaces of their own, and of the file system only what they need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox.launch import Limits, Start
from pure_agent_loop.toolbox.sandbox.protect import Protected
from pure_agent_loop.toolbox.sandbox.system_files import SYSTEM_FOLDERS, private_paths

HOME = "/home/sandbox"
TEMPORARY_BYTES = 1024**3
_TEMPORARY = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 - fresh ones, inside
_NAMESPACES = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_SHELL = "/bin/sh"


class Bubblewrap:
    """Starts commands in a sandbox made by ``bwrap``.

    They see the system's programs (read-only), the workspace (writable but for protected names) and empty
    folders for the rest. No network, no other processes, no sockets of this machine, no capabilities.

    Args:
        root: The workspace, resolved.
        network: They may use the network of this machine.
        readable: More folders they may read, such as an interpreter's.
        protected: Names in the workspace they cannot write; see `Protected`.
        program: Where ``bwrap`` is.
        nested: They may make user namespaces of their own; needed for bubblewrap older than 0.8.

    Raises:
        ConfigError: The workspace is a part of the system, or a folder is none.
    """

    name = "bubblewrap"
    supervised = True
    refusal = "Read-only file system"
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
        self._readable = resolved_folders(readable)
        self._protected = Protected(root, protected)
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
            # Read-only: /proc/sys belongs to root, and so to us if we are, whatever capabilities we gave up.
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
            *_fresh_folders(),
            *(word for path in self._readable for word in ("--ro-bind", path, path)),
            *("--ro-bind" if start.read_only else "--bind", str(self._root), str(self._root)),
            *([] if start.read_only else self._protected.mounts()),
            *self._hidden(),
            *("--remount-ro", "/", "--chdir", start.cwd, "--"),
            *(_SHELL, "-c", _script(start.limits, start.input_path), "sh", *start.command),
        ]

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:
        """See `Sandbox`."""
        return nullcontext([]) if start.read_only else self._protected.standing()

    def _hidden(self) -> list[str]:
        """Our own data, where the workspace or another folder that is shown holds it."""
        ours = data_folder()
        shown = any(ours.is_relative_to(each) for each in (str(self._root), *self._readable))
        return ["--perms", "0555", "--tmpfs", str(ours)] if shown and ours.is_dir() else []


def check_workspace(root: Path) -> None:
    """A workspace is what a model may read and change: no home, no folder for all, none that holds keys.

    Raises:
        ConfigError: It is one, or a part of the system.
    """
    check_root(root)
    homes = (Path.home().resolve(), Path("/root"))
    what = "a home" if root in homes or root.parent == Path("/home") or root == Path("/home") else ""
    what = what or ("the folder for everybody's temporary files" if root in map(Path, _TEMPORARY) else "")
    what = what or ("a folder with keys in it (.ssh)" if (root / ".ssh").exists() else "")
    if what:
        raise ConfigError(
            f"workspace_root={str(root)!r} is {what}, and all in it could be read or changed. Choose a "
            "project's folder, or say any_folder=True (--any-folder) if that is what you want."
        )


def check_root(root: Path) -> None:
    """A workspace must not hold the system, nor lie in it.

    Raises:
        ConfigError: It does.
    """
    if root == Path("/") or any(
        root == Path(each) for each in (*SYSTEM_FOLDERS, "/proc", "/dev", "/sys", "/run")
    ):
        raise ConfigError(f"workspace_root={str(root)!r} is a part of the system. Choose a project's folder.")


def resolved_folders(folders: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Existing folders, without links in them.

    Raises:
        ConfigError: One does not exist.
    """
    for each in folders:
        if not Path(each).exists():
            raise ConfigError(f"readable={os.fspath(each)!r} does not exist.")
    return [str(Path(each).resolve()) for each in folders]


def _system(*, network: bool) -> list[str]:
    words: list[str] = []
    for each in SYSTEM_FOLDERS:
        path = Path(each)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), each]  # noqa: PTH115 - as it is written
        elif path.is_dir():
            words += ["--ro-bind", each, each]
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
    words = [word for each in _TEMPORARY for word in ("--perms", "1777", "--size", size, "--tmpfs", each)]
    return [*words, "--symlink", "/run", "/var/run", "--perms", "0700", "--size", size, "--tmpfs", HOME]


def _script(limits: Limits, input_path: str) -> str:
    """What runs inside as the first process after bubblewrap's own: see `launch.py` for what it says.

    ``ulimit`` counts memory in KiB and files in blocks of 512 bytes in most shells.
    """
    memory, size = limits.memory, limits.file_size
    wanted = [
        "-c 0",
        *([f"-d {memory // 1024}", f"-v {memory // 256}"] if memory else []),
        *([f"-f {size // 512}"] if size else []),
        *([f"-t {limits.cpu_seconds}"] if limits.cpu_seconds else []),
    ]
    lines = ["echo ready >&2", "read go || exit 126", *(f"ulimit {each}" for each in wanted)]
    if limits.processes:  # dash calls it -p, the others -u
        lines.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes} 2>/dev/null")
    lines += [
        f'"$@" <{input_path} 2>&1',
        "code=$?",
        "set -- /proc/[0-9]*",
        'echo "left $(($# - 2))" >&2',
        "exit $code",
    ]
    return "\n".join(lines)
