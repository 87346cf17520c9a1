"""Which sandbox this machine can offer: bubblewrap, else Landlock, else none; found out by trying."""

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
from pure_agent_loop.support.child import ELSEWHERE, find_program
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import landlock
from pure_agent_loop.toolbox.sandbox.bubblewrap import Bubblewrap, check_root, resolved_folders
from pure_agent_loop.toolbox.sandbox.launch import Sandbox, Start, Unconfined, reaper_argv
from pure_agent_loop.toolbox.sandbox.system_files import public_paths

SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]
SANDBOX_NAMES: tuple[str, ...] = get_args(SandboxName)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROBE_SECONDS = 10


class Landlock:
    """Starts commands that the kernel keeps to the workspace, a private folder and the system's programs.

    No sockets at all unless `network`, and none of Unix then; no signals to outside processes and no look
    into them. It does not hide which processes there are, and cannot make a part of the workspace read-only.

    Args:
        root: The workspace, resolved.
        network: They may use TCP.
        readable: More folders they may read.
        why: Why there is no better sandbox.

    Raises:
        ConfigError: The workspace is a part of the system, or a folder is none.
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
        if landlock.version() < landlock.SCOPED:  # a command could signal processes of its user
            self.refusal = ""
        self.why = why
        self._root, self._network = root, network
        self._readable = resolved_folders(readable)

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

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:  # noqa: ARG002 - the shape of `Sandbox`
        """Nothing has to stand."""
        return nullcontext([])


def best_sandbox(
    root: str | os.PathLike[str],
    *,
    name: str = "auto",
    network: bool = False,
    readable: Sequence[str | os.PathLike[str]] = (),
    protected: Sequence[str] = PROTECTED_IN_SANDBOX,
) -> Sandbox:
    """The strongest sandbox that works here; its `why` says why it is no stronger one.

    Args:
        root: The workspace.
        name: ``auto``, or one of ``bubblewrap``, ``landlock`` and ``none`` to have that and no other.
        network: Commands may use the network.
        readable: More folders that commands may read.
        protected: Names in the workspace that commands cannot write; see `Protected`.

    Raises:
        ConfigError: The one that was named does not work here, or another value cannot be used.
    """
    if name not in SANDBOX_NAMES:
        raise ConfigError(f"sandbox={name!r} is not known. Use one of: {', '.join(SANDBOX_NAMES)}.")
    folder = Path(root).expanduser().resolve()
    no_bubblewrap, nested = bubblewrap_problem() if name in ("auto", "bubblewrap") else ("", False)
    if name in ("auto", "bubblewrap") and not no_bubblewrap:
        return Bubblewrap(folder, network=network, readable=readable, protected=protected, nested=nested)
    if name == "bubblewrap":
        raise ConfigError(f"sandbox='bubblewrap' does not work here: {no_bubblewrap}.")
    no_landlock = landlock_problem() if name in ("auto", "landlock") else ""
    if name in ("auto", "landlock") and not no_landlock:
        return Landlock(folder, network=network, readable=readable, why=no_bubblewrap or "it was chosen")
    if name == "landlock":
        raise ConfigError(f"sandbox='landlock' does not work here: {no_landlock}.")
    return Unconfined("; ".join(filter(None, (no_bubblewrap, no_landlock))) or "it was chosen")


@lru_cache(maxsize=1)
def bubblewrap_problem() -> tuple[str, bool]:
    """Why bubblewrap does not work here, or "", and whether it cannot forbid nested namespaces."""
    if sys.platform != "linux":
        return "bubblewrap is there on Linux only", False
    program = find_program("bwrap")
    if program is None:
        return "bubblewrap is not installed (Debian: apt-get install bubblewrap)", False
    first = _try(program, nested=False)
    if not first:
        return "", False
    second = _try(program, nested=True)
    return (f"bubblewrap does not work: {second}" if second else ""), not second


def _try(program: str, *, nested: bool) -> str:
    """What bubblewrap says if it cannot run ``true``, or ""."""
    sandbox = Bubblewrap(Path("/var/empty-workspace"), protected=(), program=program, nested=nested)
    words = sandbox.argv(Start(["true"], "/"))
    at = words.index("--bind")
    del words[at : at + 3]
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            words,
            input=b"go\n",
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={},
            cwd=ELSEWHERE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").replace("\n", " ").strip()
    return "" if done.returncode == 0 else said or f"exit code {done.returncode}"


@lru_cache(maxsize=1)
def landlock_problem() -> str:
    """Why Landlock does not work here, or ""."""
    if sys.platform != "linux":
        return "Landlock is there on Linux only"
    return "" if landlock.version() else "Landlock: this kernel has none, or it is turned off"
