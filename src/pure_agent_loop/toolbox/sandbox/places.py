"""Find names, such as ``.git`` and ``.vscode``, in all folders of a workspace.

A folder is read again only if it has changed. The kernel sets the change time, and no command can.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from pure_agent_loop.support.repository import give_rights

_MAX_FOLDERS = 200_000  # maximum folders to read, from the top down
_FRESH_NS = 1_000_000_000  # nanoseconds in which a second change may get the same time as the first


class Places:
    """Finds the entries with given names, at any depth.

    Args:
        root: The top folder. Links are not followed.
        names: Names of files and folders. A folder with one of these names is not searched.
    """

    def __init__(self, root: str, names: Iterable[str]) -> None:
        self._root, self._names = root, frozenset(names)
        # Folder -> its inode number and change time, its subfolders, and the entries found in it.
        self._known: dict[str, tuple[int, int, list[str], list[str]]] = {}

    def find(self) -> list[str]:
        """Return the paths of the entries, parents first."""
        fresh = time.time_ns() - _FRESH_NS
        known, self._known = self._known, {}
        found, folders = list[str](), [self._root]
        for path in folders:
            try:
                status = os.lstat(path)
                number, change, inner, named = known.get(path, (0, 0, [], []))
                if number != status.st_ino or change != status.st_ctime_ns:
                    inner, named = self._read(path)
            except OSError:  # the folder was removed in the meantime, or is not readable
                continue
            self._known[path] = status.st_ino, min(status.st_ctime_ns, fresh), inner, named
            folders += inner[: max(0, _MAX_FOLDERS - len(folders))]
            found += named
        return found

    def _read(self, path: str) -> tuple[list[str], list[str]]:
        inner, named = list[str](), list[str]()
        give_rights(path, 0o500)  # a command may have removed these rights
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name in self._names:
                    named.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
        return inner, named
