"""Names in the workspace that commands must not write: they are read-only, or stay missing.

An existing name gets a read-only mount. A command could rename a folder that contains a mount, and put
another folder in its place; to prevent that, each parent folder is mounted on itself. A mount ends if another
process replaces or removes the file under it. Therefore protected content is compared after each command.

A missing name has nothing to mount on, and creating a file there would leave it in the user's folder.
Instead, `keeper.py` immediately moves aside what a command creates under the name.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import NEUTRAL_DIR, script_argv
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.repository import read_plain
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox import keeper

MAX_FILES, MAX_BYTES = 1_000, 10_000_000  # limits of protected content; anything larger is not restored

# path -> (mode, file content or link target), or (`_ONLY_TIMES`, inode and change time) above the limits
Content = dict[str, tuple[int, bytes]]
_ONLY_TIMES = 0  # the mode of an entry whose content was not read


class NotRestored(str):
    """A name that a command changed, with the reason why it was not restored or moved aside."""

    path = ""
    """The path that a person must clear before the next command; empty to run it anyway."""

    @classmethod
    def of(cls, path: str, root: Path, why: object) -> NotRestored:
        """Create the entry for a path that could not be restored or moved aside."""
        self = cls(f"{os.path.relpath(path, root)} ({why})")
        self.path = path
        return self


class Enforced(Protocol):
    """A rule about the files that a command leaves."""

    def enforced(self) -> AbstractContextManager[list[str]]:
        """Return the context to run a command in."""


class Protected:
    """Protected names below one folder.

    Args:
        root: The workspace, resolved.
        names: Paths relative to the workspace.

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
        self._missing = _Missing(root)

    def mounts(self) -> list[str]:
        """Return arguments for bubblewrap. Call this method inside :meth:`enforced`."""
        kept = self._missing.listed()
        ways: dict[str, None] = {}
        closed: dict[str, None] = {}
        for parts in self._names:
            places = [self._root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
            there = list(takewhile(lambda path: str(path) not in kept and path.exists(), places))
            ways |= dict.fromkeys(str(path) for path in there[: len(parts) - 1] if path.is_dir())
            # The last entry may be a file in place of a folder, such as the `.git` file of a worktree.
            if there and (len(there) == len(parts) or not there[-1].is_dir()):
                closed[str(there[-1])] = None
        arguments = [word for path in ways if path not in closed for word in ("--bind", path, path)]
        return arguments + [word for path in closed for word in ("--ro-bind", path, path)]

    @contextmanager
    def enforced(self) -> Iterator[list[str]]:
        """Keep missing names missing, and restore changed names when the context ends.

        The yielded list then has the names that were moved aside or restored.

        Raises:
            WorkspaceError: A name is a symbolic link, which cannot be protected.
        """
        restored: list[str] = []
        refuse_if_left(self._root)
        with self._missing.used() as lock:
            kept = {str(path) for parts in self._names if (path := self._first_missing(parts))}
            self._missing.add(kept)
            paths = dict.fromkeys(map(self._compared, self._names))
            before = {
                path: _content(path)
                for path in paths
                if not any(str(way) in kept for way in (path, *path.parents))
            }
            with self._run_keeper(sorted(kept), lock, restored):
                yield restored
            restored += [name for path in before if (name := self._restore(path, before[path]))]
            note_left(self._root, restored)

    def _compared(self, parts: Sequence[str]) -> Path:
        """Return a protected path, or a file in place of one of its folders, such as a worktree's `.git`."""
        ways = [self._root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        return next((way for way in ways if way.is_file()), ways[-1])

    @contextmanager
    def _run_keeper(self, names: list[str], lock: int, restored: list[str]) -> Iterator[None]:
        words = script_argv(Path(keeper.__file__), *names)
        with subprocess.Popen(  # noqa: S603 - fixed arguments
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, cwd=NEUTRAL_DIR, pass_fds=[lock]
        ) as process:
            try:
                yield
            finally:
                process.kill()
                output = process.communicate()[0].decode("utf-8", "replace").split("\0")
                self._give_rights()
                moved, errors = keeper.move_all_aside(names)
                made = dict.fromkeys(name for name in (*output, *moved) if name and name not in errors)
                restored += [os.path.relpath(name, self._root) for name in made]
                restored += [NotRestored.of(name, self._root, why) for name, why in errors.items()]

    def _give_rights(self) -> None:
        """Restore the owner's rights to the protected names' folders; a command may have removed them."""
        for way in sorted({self._root.joinpath(*parts[:-1]) for parts in self._names}):
            # raised if the folder is missing, or is a link, which is moved aside later
            with suppress(OSError), keeper.opened(str(way)):
                pass

    def _restore(self, path: Path, before: Content) -> str:
        """Restore a changed name, and move the changed content aside. Return the name if it was changed."""
        if _content(path) == before:
            return ""
        name = path.relative_to(self._root)
        if any(mode == _ONLY_TIMES for mode, _ in before.values()):
            return NotRestored(f"{name} ({MAX_FILES:,} files, {MAX_BYTES:,} bytes)")
        try:
            for way in (*reversed(name.parents[:-1]), name):
                at = self._root / way
                if os.path.lexists(at) and (at == path or at.is_symlink() or not at.is_dir()):
                    keeper.rename_aside(str(at))
                if at != path:
                    at.mkdir(exist_ok=True)
            _write(before)
        except OSError as error:  # an exception here would lose the command's output
            return NotRestored.of(str(path), self._root, error.strerror)
        return str(name)

    def _first_missing(self, parts: Sequence[str]) -> Path | None:
        kept, at = self._missing.listed(), self._root
        for part in parts:
            at /= part
            if str(at) in kept:
                return at
            if at.is_symlink():
                raise WorkspaceError(model_text("unprotected_link", path=str(at.relative_to(self._root))))
            if not at.exists():
                return at
            if not at.is_dir():  # such as the `.git` file of a worktree, which is protected itself
                return None
        return None


@contextmanager
def enforce_all(several: Iterable[Enforced]) -> Iterator[list[str]]:
    """Enter several contexts, such as `Protected.enforced`; finally, the list has the names from all."""
    restored: list[str] = []
    with ExitStack() as stack:
        lists = [stack.enter_context(protected.enforced()) for protected in several]
        yield restored
        stack.close()
        restored += [name for names in lists for name in names]


class _Missing:
    """Names that must stay missing while any process runs a command in a workspace.

    Anything created under such a name comes from a command. For each workspace, a file in the data folder
    lists the names. Each running command and its keeper hold a shared lock on the file; a process that gets
    the exclusive lock is therefore the first, and starts a new list.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._file = root, Path(os.devnull)  # until `used`

    @contextmanager
    def used(self) -> Iterator[int]:
        import fcntl  # needs Linux, as the sandboxes do

        self._file = places_file(self._root)
        with self._file.open("ab") as held:
            with suppress(OSError):  # another process is running a command
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file.write_bytes(b"")
            fcntl.flock(held, fcntl.LOCK_SH)
            yield held.fileno()

    def listed(self) -> set[str]:
        with suppress(OSError):
            return {os.fsdecode(name) for name in self._file.read_bytes().split(b"\0") if name}
        return set()

    def add(self, names: Iterable[str]) -> None:
        with self._file.open("ab") as file:
            file.write(b"".join(os.fsencode(name) + b"\0" for name in names))


def places_file(folder: Path, kind: str = "") -> Path:
    """Return the file that is shared by all processes that run commands in this folder."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32] + kind
    try:
        file = data_folder() / "shell-places" / name
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch()
    except OSError:  # the home may be read-only
        file = Path(tempfile.gettempdir(), f"pal-shell-places-{os.getuid()}", name)
        file.parent.mkdir(exist_ok=True, mode=0o700)
    return file


def note_left(folder: Path, names: Iterable[str]) -> None:
    """Record the entries that could not be moved aside, for `refuse_if_left`."""
    paths = [name.path for name in names if isinstance(name, NotRestored) and name.path]
    if left := {path: _identity(path) for path in paths if os.path.lexists(path)}:
        file = places_file(folder, ".left")
        file.write_text(json.dumps(read_json(file.read_bytes() or b"{}") | left))


def refuse_if_left(folder: Path) -> None:
    """Reject a command until a person has removed or changed the entries that an earlier command left.

    Raises:
        WorkspaceError: Such an entry is still there, unchanged.
    """
    file = places_file(folder, ".left")
    for path, identity in read_json(file.read_bytes() or b"{}").items():
        if os.path.lexists(path) and _identity(path) == identity:
            raise WorkspaceError(model_text("left_in_place", path=path))
    file.write_bytes(b"")


def _identity(path: str) -> list[int]:
    status = os.lstat(path)
    return [status.st_ino, status.st_ctime_ns]


def _content(path: Path) -> Content:
    """Read an entry and all below it, without following links; if it is too large, only change times."""
    content: Content = {}
    pending, room = [path], MAX_BYTES
    while pending:
        at = pending.pop()
        with suppress(OSError):
            status = at.lstat()
            content[str(at)] = (status.st_mode, b"")
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(at)  # noqa: PTH115 - the unresolved target
                content[str(at)] = (status.st_mode, os.fsencode(target))
            elif stat.S_ISDIR(status.st_mode):
                pending += sorted(at.iterdir())
            elif status.st_size > room or len(content) > MAX_FILES:
                content[str(at)] = (_ONLY_TIMES, b"%d %d" % (status.st_ino, status.st_ctime_ns))
            elif stat.S_ISREG(status.st_mode):
                content[str(at)] = (status.st_mode, read_plain(at, room))
                room -= len(content[str(at)][1])
    return content


def _write(before: Content) -> None:
    for name, (mode, content) in before.items():  # parents come before their entries
        at = Path(name)
        if stat.S_ISDIR(mode):
            at.mkdir(mode=stat.S_IMODE(mode) | 0o700, exist_ok=True)
        elif stat.S_ISLNK(mode):
            at.symlink_to(os.fsdecode(content))
        elif stat.S_ISREG(mode):
            at.write_bytes(content)
            at.chmod(stat.S_IMODE(mode))
