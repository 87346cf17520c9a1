"""Set aside what a command leaves in git folders, because it could run later, outside a sandbox.

Git obeys files that a command can write in ``.git``: the list of an unfinished rebase may start programs, and
so may the configuration of a submodule. No list of such files could cover every version of git and every
tool. So every entry that is not data is renamed after a command, to a name that no program reads. The entry
gets its old name back while the next command runs, so that git can continue. In folders below the top of a
workspace, ``.git`` is renamed in the same way, and the names that are protected at the top are restored.

Data must be regular files, because git would write through a link, and wait for a named pipe. So links,
pipes and other special files among the data, and files with a second name, are moved to the top of the git
folder for good.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.repository import odd_entries, read_plain
from pure_agent_loop.toolbox.sandbox.keeper import ASIDE, rename_aside
from pure_agent_loop.toolbox.sandbox.places import Places
from pure_agent_loop.toolbox.sandbox.protect import NotRestored, note_left, places_file, refuse_if_left

SET_ASIDE = ".of-a-command"
_GIT = ".git"
# Names under which git and its large-file extensions keep data, which no program obeys.
_DATA = re.compile(
    r"[A-Z][A-Z_]*|objects|refs|logs|index|sharedindex\.\w+|packed-refs|shallow|rr-cache|info|lfs|annex|gitdir"
    rf"|locked|description|gc\.(log|pid)|.*\.lock|.*{re.escape(ASIDE)}"
)
_GIT_FOLDERS = ("modules", "worktrees")  # these contain further git folders
_TOP_COMMON = b"../.."  # path from a worktree's git folder to the common git folder
# Parts of a git folder that git executes, or that hold or name a configuration. They are restored, as at the
# top of a workspace.
_RESTORED = ("hooks", "config", "config.worktree", "commondir")
_MAX_FILE, _MAX_RESTORED = 100_000, 2_000_000  # bytes of a file, and of all files, that are restored
_Signature = list[Any]
# What happens to a changed entry: True sets it aside until the next command, False restores it, and a path
# moves it to that git folder for good.
_Fate = bool | str


class GitState:
    """The entries of a git folder, or of a workspace, that a program may obey.

    Args:
        folder: The git folder or the workspace.
        names: Names that are protected at the top of the workspace; None for a git folder.
        parts: Data folders in the git folder, to examine only these; empty to examine the whole git folder.
    """

    def __init__(
        self, folder: Path, names: Sequence[str] | None = None, *, parts: Sequence[str] = ()
    ) -> None:
        self._folder, self._parts = folder, parts
        wanted = (_GIT, _GIT + SET_ASIDE, *(name for name in names or () if "/" not in name))
        self._places = None if names is None else Places(str(folder), wanted)
        self._restored = [name for name in _RESTORED if names is None or f"{_GIT}/{name}" in names]
        self._set: list[str] = []
        if folder.is_dir():
            with self._file.open("ab") as running, _alone(self._file):
                self._end(running)

    @property
    def is_aside(self) -> bool:
        """True if set-aside entries will be brought back for a command."""
        return any(path.endswith(SET_ASIDE) for path in self._paths(data=False))

    @contextmanager
    def enforced(self) -> Iterator[list[str]]:
        """Bring back, for the time of a command, the entries that were set aside.

        When the context ends, these entries and any new or changed ones are set aside, and the yielded list
        has the names of the entries that were set aside or restored. If several commands are running,
        entries are brought back before the first starts and set aside after the last has ended. What a killed
        process left is set aside at the next start.
        """
        import fcntl  # imported here, because Windows lacks this module

        names: list[str] = []
        refuse_if_left(self._folder)
        file = self._file
        with file.open("ab") as running:
            with _alone(file):
                self._end(running)
                paths = self._paths()
                if not file.stat().st_size:  # empty if no command is running
                    file.write_text(json.dumps(_signatures(paths)))
                for path in paths:
                    name = path.removesuffix(SET_ASIDE)
                    if name != path and paths[path] is True and not os.path.lexists(name):
                        with suppress(OSError):
                            Path(path).rename(name)
                fcntl.flock(running, fcntl.LOCK_SH)
            try:
                yield names
            finally:
                with _alone(file):
                    self._end(running)
                    names += self._set
                    self._set = []

    @property
    def _file(self) -> Path:
        return places_file(self._folder, _GIT + "-".join(self._parts))

    def _end(self, running: BinaryIO) -> None:
        """Set aside what ended or killed commands have left, unless another command is running."""
        import fcntl

        with suppress(BlockingIOError):
            fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file is empty, or a kill before the command started cut it short: nothing to do.
            with suppress(ValueError):
                self._set += self._set_aside(*read_json(self._file.read_bytes()))
                note_left(self._folder, self._set)
            self._file.write_bytes(b"")

    def _set_aside(self, before: dict[str, _Signature], contents: dict[str, str]) -> Iterator[str]:
        top = self._folder if self._places else self._folder.parent
        fates = self._paths()
        for path, signature in _signatures(fates)[0].items():
            if signature != before.get(path):
                fate = fates[path]
                try:
                    into = fate if isinstance(fate, str) else ""
                    aside = rename_aside(path, SET_ASIDE if fate is True else ASIDE, into)
                    if path in contents:  # the file existed before the command: restore it
                        Path(path).write_bytes(bytes.fromhex(contents[path]))
                        Path(path).chmod(before[path][0])
                    yield os.path.relpath(aside if fate else path, top)
                except OSError as error:
                    if path in contents or os.path.lexists(path):  # otherwise a parent has been set aside
                        yield NotRestored.of(path, top, error.strerror)

    def _paths(self, *, data: bool = True) -> dict[str, _Fate]:
        """Return the paths that a program may obey, parents first, and what happens to each.

        Args:
            data: Also return links, pipes and other odd entries among the data.
        """
        places = [str(self._folder)] if self._places is None else self._places.find()
        paths: dict[str, _Fate] = {}
        for place in places:
            is_git = self._places is None or place.endswith((f"/{_GIT}", SET_ASIDE))
            if self._places is not None and (self._restored or not is_git):
                paths[place] = is_git
            if not is_git:
                paths |= dict.fromkeys(_below(place), False)
            elif not place.endswith(SET_ASIDE) and not os.path.islink(place):  # noqa: PTH114 - many paths
                odd = [path for part in self._parts or ("",) for path in odd_entries(place, part) if data]
                paths |= self._entries_of(place, odd)
        return paths

    def _entries_of(self, place: str, odd: Sequence[str]) -> dict[str, _Fate]:
        paths: dict[str, _Fate] = {}
        entries = list(_entries(Path(place)))
        others = set(map(str, entries))  # these folders are set aside as a whole
        for path in odd:
            if others.isdisjoint((path, *map(str, Path(path).parents))):
                paths[path] = place
        for entry in entries if not self._parts else ():
            if str(entry.parent) != place or entry.name not in _RESTORED:
                paths[str(entry)] = True
            elif entry.name in self._restored:
                paths |= dict.fromkeys((str(entry), *_below(str(entry))), False)
        return paths


def _signatures(fates: Mapping[str, _Fate]) -> tuple[dict[str, _Signature], dict[str, str]]:
    """Return each path's signature, which differs after a change, and the contents of small files."""
    signatures: dict[str, _Signature] = {}
    contents: dict[str, str] = {}
    room = _MAX_RESTORED
    for path, fate in fates.items():
        if isinstance(fate, str):
            signatures[path] = _kind(path)
        elif not path.endswith(SET_ASIDE):
            at, content = Path(path), _small_file(path)
            if content is not None:
                signatures[path] = [at.lstat().st_mode & 0o7777, hashlib.sha256(content).hexdigest()]
                room -= len(content)
                contents |= {path: content.hex()} if room >= 0 else {}
            elif at.is_dir() and not at.is_symlink() and (at.name == _GIT or not fate):
                signatures[path] = []  # the entries in the folder are compared instead
            else:
                signatures[path] = _times(path)
    return signatures, contents


def _small_file(path: str) -> bytes | None:
    with suppress(OSError):
        content = read_plain(path, _MAX_FILE + 1)
        return content if len(content) <= _MAX_FILE else None
    return None


def _kind(path: str) -> _Signature:
    """Return a signature of an odd entry that changes if it is replaced, but not if git writes to it."""
    with suppress(OSError):  # the path may be too long
        status = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115 - the unresolved target
        return [status.st_ino, status.st_mode, status.st_nlink, target]
    return []


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold a lock, so that only one process at a time begins or ends a command."""
    import fcntl

    with file.with_suffix(".gate").open("ab") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _entries(folder: Path, *, is_git: bool = True) -> Iterator[Path]:
    """Yield the entries that are not data in a git folder and in the git folders inside it."""
    with suppress(OSError):
        for entry in sorted(folder.iterdir()):
            is_folder = entry.is_dir() and not entry.is_symlink()
            if is_folder and is_git and entry.name in _GIT_FOLDERS:
                yield from _entries(entry, is_git=False)
            elif is_folder and not is_git and not entry.name.endswith(SET_ASIDE):
                yield from _entries(entry, is_git=(entry / "HEAD").is_file())
            elif not (is_git and _is_data(entry)):
                yield entry


def _is_data(entry: Path) -> bool:
    if entry.name == "commondir" and entry.parent.parent.name == "worktrees":
        return (_small_file(str(entry)) or b"").strip() == _TOP_COMMON
    return bool(_DATA.fullmatch(entry.name))


def _below(folder: str) -> Iterator[str]:
    for at, *lists in os.walk(folder) if not os.path.islink(folder) else ():  # noqa: PTH114 - many paths
        yield from (f"{at}/{name}" for names in lists for name in names)


def _times(path: str) -> _Signature:
    """Return inodes and change times, which commands cannot set, for an entry and all below it."""
    times: _Signature = []
    for each in sorted([path, *_below(path)]):
        with suppress(OSError):  # the path may be too long
            status = os.lstat(each)
            times.append([status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns])
    return times
