"""Run commands that the kernel confines by Landlock, without namespaces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import landlock, seccomp
from pure_agent_loop.toolbox.sandbox.git_state import GitState
from pure_agent_loop.toolbox.sandbox.launch import Sandbox, Start, reaper_argv
from pure_agent_loop.toolbox.sandbox.project import outer_of
from pure_agent_loop.toolbox.sandbox.protect import Protected, enforce_all
from pure_agent_loop.toolbox.sandbox.roots import check_root, is_too_much, resolved_folders
from pure_agent_loop.toolbox.sandbox.system_files import public_paths

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Landlock(Sandbox):
    """Starts commands that the kernel confines to the workspace, a private folder and the system's programs.

    IP sockets need `network`, and Unix sockets are never allowed. Outside processes can be listed, but
    not signalled or inspected. No part of the workspace can be made read-only, so protected names are
    restored after each command.

    Args:
        root: The workspace, resolved.
        protected: Names in the workspace that are restored after each command; see `Protected`.
        why: The reason why there is no better sandbox.

    Raises:
        ConfigError: The workspace is a system folder, or a folder is missing.
    """

    name = "landlock"
    supervised = True
    private_home = temporary = ""
    refusal = "Permission denied|Operation not permitted"

    def __init__(
        self,
        root: Path,
        *,
        network: bool = False,
        readable: Sequence[str | os.PathLike[str]] = (),
        protected: Sequence[str] = PROTECTED_IN_SANDBOX,
        why: str = "",
    ) -> None:
        check_root(root)
        # Read-only runs need scopes and the system call filter: otherwise, a command could signal the user's
        # processes, or connect to them.
        if landlock.version() < landlock.SCOPED or not seccomp.program("none"):
            self.refusal = ""
        self.why = why
        self._root, self._network = root, network
        outer = outer_of(root, is_too_much)
        far = [str(git) for git in outer.own if not git.is_relative_to(root)]
        self._protected, self._git_state = Protected(root, protected), GitState(root, protected)
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

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:
        """See `Sandbox`."""
        if start.read_only:
            return enforce_all([self._git_state] if self._git_state.is_aside else [])
        return enforce_all([self._git_state, self._protected])
