"""Names in the workspace that commands must not write: what is there is read-only, what is missing stays so.

A read-only mount needs something to be mounted on. For a missing name that is an empty folder, made before
the command and removed after it. As a folder that holds a mount could be moved away with it, to make room
for another one, the folders on the way are mounted upon themselves: such a folder cannot be moved.

A mount holds on to the file that was there: if somebody outside puts another one in its place, or removes it,
the mount is gone. So several processes agree about their empty folders, and after each command what is
there is compared with what was there before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.words import say

MOST_FILES, MOST_BYTES = 1_000, 10_000_000  # of what is protected: more is not put back
_ASIDE = ".changed-during-a-command"

Content = dict[str, tuple[int, bytes]]  # by path: the mode, and the text of a file or the goal of a link


class Protected:
    """Protected names below one folder.

    Args:
        root: The workspace, resolved.
        names: Paths relative to it.

    Raises:
        ConfigError: A name leads outside.
    """

    def __init__(self, root: Path, names: Sequence[str] = PROTECTED_IN_SANDBOX) -> None:
        self._root = root
        for name in names:
            parts = PurePath(name).parts
            if not parts or ".." in parts or PurePath(name).is_absolute():
                raise ConfigError(f"protected={name!r} must be a path below the workspace.")
        self._names = [PurePath(name).parts for name in names]
        self._places = _Places(root)

    def mounts(self) -> list[str]:
        """Arguments for bubblewrap. To be called while :meth:`standing` is entered."""
        ways: list[str] = []
        closed: list[str] = []
        empty = self._places.listed()
        for parts in self._names:
            at = self._root
            for part in parts[:-1]:
                at /= part
                if at in empty or not at.is_dir():
                    break
                ways += [] if str(at) in ways else [str(at)]
            else:
                at /= parts[-1]
            closed += [] if str(at) in closed else [str(at)]
        arguments = [word for path in ways if path not in closed for word in ("--bind", path, path)]
        return arguments + [word for path in closed for word in ("--ro-bind", path, path)]

    @contextmanager
    def standing(self) -> Iterator[list[str]]:
        """While this is entered, every protected name exists. Behind it the list names what was put back.

        Raises:
            WorkspaceError: One is a symbolic link, which cannot be protected.
        """
        restored: list[str] = []
        with self._places.used():
            for parts in self._names:
                missing = self._first_missing(parts)
                if missing is not None:
                    self._places.take(missing)
            before = {name: _content(name) for name in map(self._root.joinpath, map("/".join, self._names))}
            yield restored
            restored += [name for path in before if (name := self._put_back(path, before[path]))]

    def _put_back(self, path: Path, before: Content | None) -> str:
        """Restore a name if it was changed; what is there is kept beside it. Returns the name then."""
        if before is None or _content(path) == before:
            return ""
        name = path.relative_to(self._root)
        try:
            for way in (*reversed(name.parents[:-1]), name):
                at = self._root / way
                if os.path.lexists(at) and (at == path or at.is_symlink() or not at.is_dir()):
                    _put_aside(at)
                if at != path:
                    at.mkdir(exist_ok=True)
            _write(before)
        except OSError as error:  # the command ran, and what it said has to be known
            return f"{name} ({error.strerror}!)"
        return str(name)

    def _first_missing(self, parts: Sequence[str]) -> Path | None:
        empty = self._places.listed()
        at = self._root
        for part in parts:
            at /= part
            if at.is_symlink():
                raise WorkspaceError(say("unprotected_link", path=str(at.relative_to(self._root))))
            if at in empty or not at.exists():
                return at
            if not at.is_dir():  # such as the `.git` file of a worktree: it is protected itself
                return None
        return None


class _Places:
    """Empty folders on which commands rely, of all processes that use a workspace: the last removes them.

    A file of our own, one for each workspace, lists them. Who runs a command holds it shared; who ends one
    and gets hold of it alone is the last. What a killed process left is removed with the next command.
    """

    def __init__(self, root: Path) -> None:
        self._name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = data_folder() / "shell-places" / self._name

    @contextmanager
    def used(self) -> Iterator[None]:
        import fcntl  # bubblewrap is there on Linux only, and so is this

        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file.touch()
        except OSError:  # such as a home that is read-only
            self._file = Path(tempfile.gettempdir(), f"pal-shell-places-{os.getuid()}", self._name)
            self._file.parent.mkdir(exist_ok=True, mode=0o700)
        with self._file.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            try:
                yield
            finally:
                with suppress(OSError):  # others still run commands: the last of them does it
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for path in self.listed():
                        with suppress(OSError):  # a person put something there meanwhile: it is theirs
                            os.rmdir(path)  # noqa: PTH106 - only if it is empty, and never through a link
                    self._file.write_bytes(b"")

    def listed(self) -> list[Path]:
        """The folders that were made for a command."""
        with suppress(OSError):
            return [Path(os.fsdecode(each)) for each in self._file.read_bytes().split(b"\0") if each]
        return []

    def take(self, path: Path) -> None:
        """Make one. It is listed before, so that no process takes it for a person's."""
        with self._file.open("ab") as file:
            file.write(os.fsencode(path) + b"\0")
        with suppress(FileExistsError):
            path.mkdir(mode=0o755)


def _content(path: Path) -> Content | None:
    """What a name holds, links as links; None for more than is kept."""
    found: Content = {}
    waiting, room = [path], MOST_BYTES
    while waiting:
        at = waiting.pop()
        with suppress(OSError):
            mode = at.lstat().st_mode
            if at.is_symlink():
                found[str(at)] = (mode, os.fsencode(os.readlink(at)))  # noqa: PTH115 - as it is written
            elif at.is_dir():
                found[str(at)] = (mode, b"")
                waiting += at.iterdir()
            elif at.is_file():
                found[str(at)] = (mode, at.read_bytes()[: room + 1])
                room -= len(found[str(at)][1])
        if room < 0 or len(found) > MOST_FILES:
            return None
    return found


def _put_aside(path: Path) -> None:
    aside = path.with_name(path.name + _ASIDE)
    with suppress(OSError):
        shutil.rmtree(aside) if aside.is_dir() and not aside.is_symlink() else aside.unlink(missing_ok=True)
    path.rename(aside)


def _write(before: Content) -> None:
    for name, (mode, content) in before.items():  # parents stand before what is in them
        at = Path(name)
        if mode & 0o170000 == 0o040000:
            at.mkdir(mode=mode & 0o7777, exist_ok=True)
        elif mode & 0o170000 == 0o120000:
            at.symlink_to(os.fsdecode(content))
        else:
            at.write_bytes(content)
            at.chmod(mode & 0o7777)
