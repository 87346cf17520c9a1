"""Decide which folders may be a workspace, and which must never be shown to commands as a whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.toolbox.sandbox.system_files import SYSTEM_FOLDERS

# ruff: noqa: PTH110 - pathlib raises if this user has no access; these functions do not

TEMPORARY = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 - compared, and in a sandbox fresh


def check_workspace(root: Path) -> None:
    """Reject a home, a shared temporary folder or a folder with keys: a model could change everything in it.

    Raises:
        ConfigError: The root is a home, a shared temporary folder, a folder with keys, or a system folder.
    """
    check_root(root)
    homes = (Path.home().resolve(), Path("/root"))
    what = "home" if root in homes or root.parent == Path("/home") or root == Path("/home") else ""
    what = what or ("temporary" if root in map(Path, TEMPORARY) else "")
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
    """Reject a workspace that is a system folder or the root; folders below a system folder are allowed.

    Raises:
        ConfigError: The workspace is a system folder or the root.
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
