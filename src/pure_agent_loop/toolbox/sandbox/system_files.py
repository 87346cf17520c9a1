"""What of the system a sandbox shows, and what in it is nobody's business.

Started by root, a command in a sandbox is still the owner of root's files. So what the system keeps from
ordinary users is kept from commands too, whoever starts them.
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
    """Files and folders in ``/etc`` that not every user may read. A folder stands for all in it."""
    return tuple(_private(Path("/etc"), 0))


@lru_cache(maxsize=1)
def public_paths() -> tuple[str, ...]:
    """The rest of ``/etc`` and the other system folders, as few paths as possible."""
    return (*(each for each in SYSTEM_FOLDERS if each != "/etc"), *_public(Path("/etc"), private_paths()))


def _private(folder: Path, depth: int) -> list[str]:
    found: list[str] = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [str(folder)]
    for entry in entries:
        mode = _mode(entry)
        is_folder = stat.S_ISDIR(mode)
        wanted = stat.S_IROTH | (stat.S_IXOTH if is_folder else 0)
        if stat.S_ISLNK(mode):
            continue  # what it points to is judged where it lies
        if mode & wanted != wanted or stat.S_ISSOCK(mode) or depth >= _MAX_DEPTH:
            found.append(entry.path)
        elif is_folder:
            found += _private(Path(entry.path), depth + 1)
    return found


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0


def _public(folder: Path, private: tuple[str, ...]) -> list[str]:
    if str(folder) in private:
        return []
    if not any(Path(each).is_relative_to(folder) for each in private):
        return [str(folder)]
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for entry in entries for path in _public(entry, private)]
