"""Select the sandbox for this machine by trying each: bubblewrap, else Landlock, else none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import NEUTRAL_DIR, find_program
from pure_agent_loop.support.language import checked_choice, notice
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import landlock
from pure_agent_loop.toolbox.sandbox.bubblewrap import Bubblewrap
from pure_agent_loop.toolbox.sandbox.landlocked import Landlock
from pure_agent_loop.toolbox.sandbox.launch import Sandbox, Start, Unconfined

_PROBE_SECONDS = 10
SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]
SANDBOX_NAMES: tuple[str, ...] = get_args(SandboxName)


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
        ConfigError: The named sandbox does not work here, or an argument is invalid.
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
            protected=protected,
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
    """Return why bubblewrap does not work ("" if it does), and whether it must allow nested namespaces."""
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
    """Return bubblewrap's error when it runs ``true``, or ""."""
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
