"""The system files that a sandbox shows, and the private ones among them.

A command started by root owns root's files even in a sandbox. Therefore files that ordinary users cannot read
are hidden from all commands.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/etc")
_MAX_DEPTH = 6


@lru_cache(maxsize=1)
def private_paths() -> tuple[str, ...]:
    """Return files and folders in ``/etc`` that not every user may read. A folder covers its content."""
    return tuple(_private(Path("/etc"), 0))


@lru_cache(maxsize=1)
def public_paths() -> tuple[str, ...]:
    """Return the rest of ``/etc`` and the other system folders, in as few paths as possible."""
    return (
        *(folder for folder in SYSTEM_FOLDERS if folder != "/etc"),
        *_public(Path("/etc"), private_paths()),
    )


def _private(folder: Path, depth: int) -> list[str]:
    paths: list[str] = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [str(folder)]
    for entry in entries:
        mode = _mode(entry)
        is_folder = stat.S_ISDIR(mode)
        wanted = stat.S_IROTH | (stat.S_IXOTH if is_folder else 0)
        if stat.S_ISLNK(mode):
            continue  # the target of the link is checked separately
        if mode & wanted != wanted or stat.S_ISSOCK(mode) or depth >= _MAX_DEPTH:
            paths.append(entry.path)
        elif is_folder:
            paths += _private(Path(entry.path), depth + 1)
    return paths


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0


def _public(folder: Path, private: tuple[str, ...]) -> list[str]:
    if str(folder) in private:
        return []
    if not any(Path(path).is_relative_to(folder) for path in private):
        return [str(folder)]
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for entry in entries for path in _public(entry, private)]
