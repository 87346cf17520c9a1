"""Find the git folder of a working folder. Git itself would read the settings of the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple


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
        is_file = os.path.isfile(file)  # noqa: PTH113 - pathlib raises if this user has no access
        match = re.search(pattern, file.read_text("utf-8")[:10_000], re.M) if is_file else None
    except (OSError, ValueError):
        return None
    return Path(os.path.realpath(file.parent / match[1].strip())) if match else None
