"""Find the per-user folders for models, sessions, settings and server files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pure_agent_loop.support.variables import variable

HOME_VARIABLE = "PAL_HOME"


def data_folder() -> Path:
    """Return ``PAL_HOME`` if set, else the platform's folder for application data."""
    if named := variable(HOME_VARIABLE):
        return Path(named).expanduser().resolve()
    return _platform_folder() / "pure-agent-loop"


def server_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a server's own files: `folder` if given, else the one in the data folder."""
    return data_folder() / "server" if folder is None else Path(folder).expanduser()


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` expanded. The name of an unknown user is left as is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _platform_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    # The XDG specification ignores relative values.
    named = Path(os.environ.get("XDG_DATA_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".local" / "share"


def private_folder(path: Path) -> Path:
    """Create a folder that only this user may enter, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def file_stamp(path: Path) -> tuple[int, ...]:
    """Return a tuple that changes whenever the file does; an empty one if the file is missing."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns
