"""Where models, sessions, settings and server files are kept: one folder per user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOME_VARIABLE = "PURE_AGENT_LOOP_HOME"
_APP = "pure-agent-loop"


def data_folder() -> Path:
    """``PURE_AGENT_LOOP_HOME`` if it is set, else the platform's place for an application's own data."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    return _platform_folder() / _APP


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path with ``~`` filled in. Where there is no such user it stays as it is, as in a shell."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _platform_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    # The XDG rules say that a relative value is to be ignored.
    named = Path(os.environ.get("XDG_DATA_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".local" / "share"


def private_folder(path: Path) -> Path:
    """Make a folder that only this user may enter, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path
