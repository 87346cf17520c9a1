"""How a command is started under a supervisor, which ends everything the command began.

A supervisor is the first process of a PID namespace (bubblewrap), or a small Python program (`reaper.py`)
that adopts orphans. Both speak the same small protocol with us: they write ``ready`` to their standard error
and wait for a line on their standard input before the command starts. The end of that input is the end of
the command: it comes when we close it, and also when our own process is killed.
"""

from __future__ import annotations

import json
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
    """What a command may use up; None for no limit. Each holds for every process on its own.

    Args:
        memory: Bytes of data memory a process may have.
        file_size: Bytes a file may grow to.
        processes: Processes and threads at a time. The kernel does not count those of root.
        cpu_seconds: Seconds of computing time.
    """

    memory: int | None = 4 * 1024**3
    file_size: int | None = 1024**3
    processes: int | None = 512
    cpu_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """One command about to be started.

    Args:
        command: Program and arguments.
        cwd: Folder it starts in.
        home: A private folder for this command, or "" where the sandbox has its own.
        input_path: What it reads as standard input.
        info_fd: Where bubblewrap writes which process is the first one inside.
        limits: See `Limits`.
        filter_fd: Where bubblewrap reads the filter of system calls.
        read_only: It may change nothing but its private folders, and use no network.
    """

    command: Sequence[str]
    cwd: str
    home: str = ""
    input_path: str = "/dev/null"
    info_fd: int = -1
    limits: Limits = field(default_factory=Limits)
    filter_fd: int = -1
    read_only: bool = False


class Sandbox(Protocol):
    """One way to start commands.

    `name` is ``bubblewrap``, ``landlock`` or ``none``; `why` says why no better one is used; `supervised`
    that what it starts speaks the protocol above; `private_home` is the folder commands have as home, or ""
    if each needs one made for it; `refusal` is what the kernel calls a refused write, or "" where commands
    cannot be held to changing nothing.
    """

    name: str
    why: str
    supervised: bool
    private_home: str
    refusal: str

    def argv(self, start: Start) -> list[str]:
        """Program and arguments that start a command this way."""
        ...

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:
        """What must stand while a command runs. Behind it the list says what had to be put right."""
        ...


def reaper_argv(start: Start, confine: Mapping[str, Any] | None = None) -> list[str]:
    """Start a command under `reaper.py`.

    Args:
        start: The command.
        confine: What `landlock.restrict` takes, if it shall be called.
    """
    plan = {
        "command": list(start.command),
        "input": start.input_path,
        "limits": asdict(start.limits),
        "confine": confine,
    }
    return script_argv(REAPER, json.dumps(plan))


class Unconfined:
    """Commands run as what they are: they may do all that this user may. Only their end is certain.

    Args:
        why: Why there is no sandbox.
    """

    name = "none"
    private_home = ""
    refusal = ""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.supervised = sys.platform == "linux"

    def argv(self, start: Start) -> list[str]:
        """See `Sandbox`."""
        return reaper_argv(start) if self.supervised else list(start.command)

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:  # noqa: ARG002 - the shape of `Sandbox`
        """Nothing has to stand."""
        return nullcontext([])
