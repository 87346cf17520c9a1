"""Where the snapshots of a workspace are kept, and by what."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.snapshots.git import GitStore, find_git
from pure_agent_loop.snapshots.store import CopyStore, Store
from pure_agent_loop.support.paths import data_folder, private_folder

Backend = Literal["auto", "git", "copy"]


def place(root: Path, store: str | os.PathLike[str] | None) -> Path:
    """The folder for a workspace, made if missing.

    Args:
        root: The workspace, resolved.
        store: What holds such folders; one in the data folder if None.
    """
    base = (
        private_folder(data_folder() / "snapshots") if store is None else Path(store).expanduser().resolve()
    )
    return private_folder(base / hashlib.sha256(os.fsencode(root)).hexdigest()[:24])


def open_store(folder: Path, backend: Backend) -> tuple[Store, Literal["git", "copy"]]:
    """Open the store of a workspace, and say which kind it is.

    Raises:
        ConfigError: There is no such kind, or no git.
    """
    if backend not in ("auto", "git", "copy"):
        raise ConfigError(f"backend={backend!r} must be 'auto', 'git' or 'copy'.")
    git = None if backend == "copy" else find_git()
    if git is not None:
        return GitStore(folder / "git", git), "git"
    if backend == "git":
        raise ConfigError("backend='git' needs git. Install it, or use backend='copy'.")
    return CopyStore(folder / "copy"), "copy"
