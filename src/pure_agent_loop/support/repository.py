"""Find the git folder of a working folder, and entries in it that are unsafe for git.

Git itself is not called, because it would read the repository's settings.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Limits for a file that contains a path: bytes to read, and characters to search.
_MAX_FILE, _MAX_PATH = 100_000, 10_000
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class GitFolders(NamedTuple):
    """The folders of a repository.

    Args:
        top: The top of the working tree.
        own: The git folder of this working tree, with ``HEAD`` and the index.
        common: The git folder with objects and refs, which linked worktrees share.
    """

    top: Path
    own: Path
    common: Path


def git_folders(folder: Path) -> GitFolders | None:
    """Return the folders of the repository that contains a folder, or None."""
    for top in (folder, *folder.parents):
        git = top / ".git"
        own = path_in(git, r"gitdir:\s*(.+)") or git
        if os.path.isfile(own / "HEAD"):  # noqa: PTH113 - pathlib raises if this user has no access
            return GitFolders(top, own, path_in(own / "commondir") or own)
    return None


def path_in(file: Path, pattern: str = "(.+)") -> Path | None:
    """Return the path named in a git file, relative to that file; None if the file names none."""
    try:
        match = re.search(pattern, read_plain(file, _MAX_FILE, links=True).decode()[:_MAX_PATH], re.M)
    except (OSError, ValueError):
        return None
    return Path(os.path.realpath(file.parent / match[1].strip())) if match else None


def read_plain(file: str | Path, limit: int, *, links: bool = False) -> bytes:
    """Read the first bytes of a regular file. The call does not block, as opening a named pipe would.

    Args:
        links: Follow a link in the last part of the path.

    Raises:
        OSError: The file cannot be read, or is not a regular file.
    """
    flags = os.O_RDONLY | _NOT_WAITING | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    # `open` rejects a folder, but closes the folder's descriptor only if an opener has opened it.
    with open(file, "rb", opener=lambda path, _: os.open(path, flags)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(f"{file} is not a regular file.")
        return opened.read(limit)


def odd_entries(git: str, part: str = "") -> Iterator[str]:
    """Yield the entries of a git folder, at any depth, except folders and files with a single hard link.

    Git would write through links and block on pipes. Objects may have several hard links, because git never
    rewrites them. If the owner of a folder cannot read, write and enter it, these permissions are restored; a
    folder that still cannot be read is yielded.

    Args:
        part: Name of an entry in the git folder; only that entry is searched.
    """
    top = f"{git}/{part}".rstrip("/")
    try:
        is_folder = stat.S_ISDIR(os.lstat(top).st_mode)
    except FileNotFoundError:
        return
    if part and not is_folder and not stat.S_ISREG(os.lstat(top).st_mode):
        yield top
    pending = [top] if is_folder else []
    for folder in pending:
        inside = folder[len(git) :].split("/")
        may_share = "objects" in inside and "logs" not in inside
        try:
            give_rights(folder)
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) or (not may_share and _is_shared(entry)):
                        yield entry.path
        except (FileNotFoundError, PermissionError):  # deleted meanwhile, or owned by another user
            continue
        except OSError:
            if folder != top:
                yield folder


def give_rights(folder: str, rights: int = 0o700) -> None:
    """Restore the owner's permissions on a folder after a command removed them.

    Raises:
        OSError: The folder belongs to another user.
    """
    mode = os.lstat(folder).st_mode
    if mode & rights != rights:
        os.chmod(folder, stat.S_IMODE(mode) | rights)  # noqa: PTH101 - many paths


def _is_shared(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:  # deleted meanwhile
        return False
