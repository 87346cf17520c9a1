"""Names in the workspace that commands must not write: what is there is read-only, what is missing stays so.

A read-only mount needs something to be mounted on. For a missing name that is an empty folder, made before
the command and removed after it. As a folder that holds a mount could be moved away with it, to make room
for another one, the folders on the way are mounted upon themselves: such a folder cannot be moved.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.words import say

# What other programs run or obey without being asked, at the top of a workspace: a choice of those in
# `protected.PROTECTED`, since each missing one costs a mount. Of `.git` only what runs, so that commits work.
PROTECTED = (
    *(".git/hooks", ".git/config", ".husky"),
    *(".pal", "pal.toml", ".agents", ".mcp.json", ".claude"),
    *(".vscode", ".idea", ".envrc"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
)


class Protected:
    """Protected names below one folder.

    Args:
        root: The workspace, resolved.
        names: Paths relative to it.

    Raises:
        ConfigError: A name leads outside.
    """

    def __init__(self, root: Path, names: Sequence[str] = PROTECTED) -> None:
        self._root = root
        for name in names:
            parts = PurePath(name).parts
            if not parts or ".." in parts or PurePath(name).is_absolute():
                raise ConfigError(f"protected={name!r} must be a path below the workspace.")
        self._names = [PurePath(name).parts for name in names]

    def mounts(self) -> list[str]:
        """Arguments for bubblewrap. To be called while :meth:`standing` is entered."""
        ways: list[str] = []
        closed: list[str] = []
        for parts in self._names:
            at = self._root
            for part in parts[:-1]:
                at /= part
                if _PLACES.holds(at) or not at.is_dir():
                    break
                ways += [] if str(at) in ways else [str(at)]
            else:
                at /= parts[-1]
            closed += [] if str(at) in closed else [str(at)]
        arguments = [word for path in ways if path not in closed for word in ("--bind", path, path)]
        return arguments + [word for path in closed for word in ("--ro-bind", path, path)]

    @contextmanager
    def standing(self) -> Iterator[None]:
        """While this is entered, every protected name exists.

        Raises:
            WorkspaceError: One is a symbolic link, which cannot be protected.
        """
        made: list[Path] = []
        try:
            for parts in self._names:
                missing = self._first_missing(parts)
                if missing is not None and missing not in made and _PLACES.take(missing):
                    made.append(missing)
            yield
        finally:
            for path in made:
                _PLACES.give_back(path)

    def _first_missing(self, parts: Sequence[str]) -> Path | None:
        at = self._root
        for part in parts:
            at /= part
            if at.is_symlink():
                raise WorkspaceError(say("unprotected_link", path=str(at.relative_to(self._root))))
            if _PLACES.holds(at) or not at.exists():
                return at
            if not at.is_dir():  # such as the `.git` file of a worktree: it is protected itself
                return None
        return None


class _Places:
    """Empty folders on which commands of this process rely, counted: the last one removes them."""

    def __init__(self) -> None:
        self._users: dict[Path, int] = {}
        self._lock = threading.Lock()

    def holds(self, path: Path) -> bool:
        return path in self._users

    def take(self, path: Path) -> bool:
        with self._lock:
            if path not in self._users:
                try:
                    path.mkdir(mode=0o755)
                except FileExistsError:  # somebody else was faster: it is theirs
                    return False
            self._users[path] = self._users.get(path, 0) + 1
            return True

    def give_back(self, path: Path) -> None:
        with self._lock:
            self._users[path] -= 1
            if not self._users[path]:
                del self._users[path]
                try:
                    os.rmdir(path)  # noqa: PTH106 - only if it is still empty, and never through a link
                except OSError:  # a person put something there meanwhile: it is theirs
                    return


_PLACES = _Places()
