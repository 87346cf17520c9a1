"""What a command leaves beside data must not run later, without a sandbox.

Git obeys files that a command can write in ``.git``: the list of an unfinished rebase may start programs, and
so may the configuration of a submodule. No list of such files holds for every version of git and every tool.
So everything that is not data is set aside after a command, under another name that nothing reads. It comes
back while the next command runs, so that git can continue. In folders below the top of a workspace the same
happens to ``.git``, and the names that are protected at the top are restored.
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

from pure_agent_loop.toolbox.sandbox.keeper import ASIDE, rename_aside
from pure_agent_loop.toolbox.sandbox.places import Places
from pure_agent_loop.toolbox.sandbox.protect import places_file

SET_ASIDE = ".of-a-command"
_GIT = ".git"
# The data of git, and of its extensions for large files: never obeyed.
_DATA = re.compile(
    r"[A-Z][A-Z_]*|objects|refs|logs|index|sharedindex\.\w+|packed-refs|shallow|rr-cache|info|lfs|annex|gitdir"
    rf"|locked|description|gc\.(log|pid)|.*\.lock|.*{re.escape(ASIDE)}"
)
_GIT_FOLDERS = ("modules", "worktrees")  # hold git folders of their own
_TOP_COMMON = b"../.."  # where every worktree's git folder finds the common one
# Parts of a git folder that git executes, or that hold or name a configuration: restored, as at the top.
_RESTORED = ("hooks", "config", "config.worktree", "commondir")
_MAX_FILE, _MAX_RESTORED = 100_000, 2_000_000  # bytes of a file, and of all files, that are restored
_Signature = list[Any]


class GitState:
    """The entries of a git folder, or of a workspace, that a program may obey.

    Args:
        folder: The git folder or the workspace.
        names: Names that are protected at the top of the workspace; None for a git folder.
    """

    def __init__(self, folder: Path, names: Sequence[str] | None = None) -> None:
        self._folder = folder
        wanted = (_GIT, _GIT + SET_ASIDE, *(name for name in names or () if "/" not in name))
        self._places = None if names is None else Places(str(folder), wanted)
        self._restored = [name for name in _RESTORED if names is None or f"{_GIT}/{name}" in names]
        self._set: list[str] = []
        if folder.is_dir():
            with self._file.open("ab") as running, _alone(self._file):
                self._end(running)

    @property
    def is_aside(self) -> bool:
        """True if something comes back for a command."""
        return any(path.endswith(SET_ASIDE) for path in self._paths())

    @contextmanager
    def enforced(self) -> Iterator[list[str]]:
        """Bring back what was set aside, and set it aside again at the end, with what is new or changed.

        If several commands run, this happens before the first and after the last of them; after a killed
        process, at the next start. When the context ends, the yielded list has the names of what was set
        aside or restored.
        """
        import fcntl  # needs Linux, as the sandboxes do

        names: list[str] = []
        file = self._file
        with file.open("ab") as running:
            with _alone(file):
                self._end(running)
                paths = self._paths()
                if not file.stat().st_size:  # no command is running
                    file.write_text(json.dumps(_signatures(paths)))
                for path in paths:
                    name = path.removesuffix(SET_ASIDE)
                    if name != path and not os.path.lexists(name):
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
        return places_file(self._folder, _GIT)

    def _end(self, running: BinaryIO) -> None:
        """Set aside what the commands left that have ended or were killed, unless another one is running."""
        import fcntl

        with suppress(BlockingIOError):
            fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(ValueError):  # empty, or cut because the process was killed before the command
                self._set += self._set_aside(*json.loads(self._file.read_bytes()))
            self._file.write_bytes(b"")

    def _set_aside(self, before: dict[str, _Signature], contents: dict[str, str]) -> Iterator[str]:
        comes_back = self._paths()
        for path, signature in _signatures(comes_back)[0].items():
            if signature != before.get(path):
                suffix = SET_ASIDE if comes_back[path] else ASIDE
                with suppress(OSError):  # or a parent was set aside
                    rename_aside(path, suffix)
                    name = os.path.relpath(path, self._folder if self._places else self._folder.parent)
                    yield name + suffix if comes_back[path] else name
                    if path in contents:  # a file that Git or a person made
                        Path(path).write_bytes(bytes.fromhex(contents[path]))
                        Path(path).chmod(before[path][0])

    def _paths(self) -> dict[str, bool]:
        """Return the paths that may be obeyed, parents first, and whether each comes back for a command."""
        places = [str(self._folder)] if self._places is None else self._places.find()
        paths: dict[str, bool] = {}
        for place in places:
            is_git = self._places is None or place.endswith((f"/{_GIT}", SET_ASIDE))
            if self._places is not None and (self._restored or not is_git):
                paths[place] = is_git
            if not is_git:
                paths |= dict.fromkeys(_below(place), False)
            elif not place.endswith(SET_ASIDE) and not os.path.islink(place):  # noqa: PTH114 - many paths
                for entry in _entries(Path(place)):
                    if str(entry.parent) != place or entry.name not in _RESTORED:
                        paths[str(entry)] = True
                    elif entry.name in self._restored:
                        paths |= dict.fromkeys((str(entry), *_below(str(entry))), False)
        return paths


def _signatures(paths: Mapping[str, bool]) -> tuple[dict[str, _Signature], dict[str, str]]:
    """Return what changes with every change of an entry, and the contents of small files."""
    signatures: dict[str, _Signature] = {}
    contents: dict[str, str] = {}
    room = _MAX_RESTORED
    for path, comes_back in paths.items():
        at = Path(path)
        with suppress(OSError):
            if path.endswith(SET_ASIDE):
                continue
            status = at.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE:
                content = at.read_bytes()
                signatures[path] = [status.st_mode & 0o7777, hashlib.sha256(content).hexdigest()]
                room -= len(content)
                contents |= {path: content.hex()} if room >= 0 else {}
            elif stat.S_ISDIR(status.st_mode) and (at.name == _GIT or not comes_back):
                signatures[path] = []  # its entries are compared
            else:
                signatures[path] = _times(path)
    return signatures, contents


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Let one process at a time begin or end a command."""
    import fcntl

    with file.with_suffix(".gate").open("ab") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _entries(folder: Path, *, is_git: bool = True) -> Iterator[Path]:
    """Yield the entries of a git folder, and of git folders in it, that are not data."""
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
    if entry.name == "commondir" and entry.is_file() and entry.parent.parent.name == "worktrees":
        return entry.read_bytes().strip() == _TOP_COMMON
    return bool(_DATA.fullmatch(entry.name))


def _below(folder: str) -> Iterator[str]:
    for at, *lists in os.walk(folder) if not os.path.islink(folder) else ():  # noqa: PTH114 - many paths
        yield from (f"{at}/{name}" for names in lists for name in names)


def _times(path: str) -> _Signature:
    """Return times and numbers that no command can set, of an entry and all in it."""
    statuses = map(os.lstat, sorted([path, *_below(path)]))
    return [[each.st_ino, each.st_mode, each.st_size, each.st_ctime_ns] for each in statuses]
