"""Start a command under a supervisor, which ends every process of the command.

The supervisor is the first process of a PID namespace (bubblewrap), or a small Python program (`reaper.py`)
that adopts orphans. Both use the same protocol: they write ``ready`` to standard error and wait for a line on
standard input before the command starts. End of input ends the command; this happens when the caller closes
the pipe, and also when the caller's process is killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pure_agent_loop.support.child import script_argv

REAPER = Path(__file__).with_name("reaper.py")
READY, LEFT = b"ready\n", b"left "


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a command; None for no limit. All but `memory` apply per process.

    Args:
        memory: Bytes of memory in use by all processes of the command together. Reserved memory that is not
            in use does not count.
        file_size: Bytes a file may grow to.
        processes: Concurrent processes and threads. The kernel exempts root.
        cpu_seconds: Seconds of CPU time.
    """

    memory: int | None = 4 * 1024**3
    file_size: int | None = 1024**3
    processes: int | None = 512
    cpu_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A command to be started.

    Args:
        home: Private folder of this command; a sandbox with a `private_home` uses it only for git settings.
        input_fd: Descriptor of the command's standard input; -1 for empty input.
        info_fd: Descriptor to which bubblewrap writes the id of the first process inside.
        limits: See `Limits`.
        filter_fd: Descriptor from which bubblewrap reads the system call filter.
        read_only: Allow changes only in the command's private folders, and no network.
    """

    command: Sequence[str]
    cwd: str
    home: str = ""
    input_fd: int = -1
    info_fd: int = -1
    limits: Limits = field(default_factory=Limits)
    filter_fd: int = -1
    read_only: bool = False


class Sandbox(Protocol):
    """A way to start commands.

    Attributes: `name` is ``bubblewrap``, ``landlock`` or ``none``; `why` explains why no better sandbox is
    used; `supervised` is True if commands run under a supervisor, with the protocol above; `private_home` is
    the commands' home, or "" if each command needs a new one; `temporary` is the commands' folder for
    temporary files, or "" to use the home; `refusal` is a pattern for the kernel's error for a refused write,
    or "" if read-only runs are not possible; `beyond` describes what is out of reach around the workspace
    (see `OuterGit`).
    """

    name: str
    why: str
    supervised: bool
    private_home: str
    temporary: str
    refusal: str
    beyond: Mapping[str, str]

    def argv(self, start: Start) -> list[str]:
        """Return the program and arguments that start a command."""

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:  # noqa: ARG002 - for others
        """Return the context to run a command in; on exit, the yielded list holds the restored paths."""
        return nullcontext([])


def reaper_argv(start: Start, confine: Mapping[str, Any] | None = None) -> list[str]:
    """Return the program and arguments that start a command under `reaper.py`.

    Args:
        confine: The argument for `landlock.restrict`; None to skip that call.
    """
    plan = {
        "command": list(start.command),
        "input": f"/proc/self/fd/{start.input_fd}" if start.input_fd >= 0 else os.devnull,
        "limits": asdict(start.limits),
        "confine": confine,
    }
    return script_argv(REAPER, json.dumps(plan))


class Unconfined(Sandbox):
    """Runs commands without a sandbox: they can do all that this user can. The only guarantee is that all
    processes of a command end.

    Args:
        why: The reason why there is no sandbox.
    """

    name = "none"
    private_home = temporary = ""
    refusal = ""

    def __init__(self, why: str = "") -> None:
        self.beyond: Mapping[str, str] = {}
        self.why = why
        self.supervised = sys.platform == "linux"

    def argv(self, start: Start) -> list[str]:
        """See `Sandbox`."""
        return reaper_argv(start) if self.supervised else list(start.command)
