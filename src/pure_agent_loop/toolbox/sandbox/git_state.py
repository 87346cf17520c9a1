"""What a command leaves in a git folder beside git's data must not run later, without a sandbox.

Git obeys files that a command can write there: the list of an unfinished rebase may start programs, and so
may the configuration of a submodule. No list of such files holds for every version of git and every tool. So
everything that is not data is set aside after a command, under another name that nothing reads. It comes back
while the next command runs, so that git can continue.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pure_agent_loop.support.repository import odd_entries, read_plain
from pure_agent_loop.toolbox.sandbox.keeper import rename_aside
from pure_agent_loop.toolbox.sandbox.protect import NotRestored, note_left, places_file, refuse_if_left

SET_ASIDE = ".of-a-command"
# The data of git, and of its extensions for large files: never obeyed.
_DATA = re.compile(
    r"[A-Z][A-Z_]*|objects|refs|logs|index|sharedindex\.\w+|packed-refs|shallow|rr-cache|info|lfs|annex|gitdir"
    r"|locked|description|gc\.(log|pid)|.*\.lock"
)
_GIT_FOLDERS = ("modules", "worktrees")  # hold git folders of their own
_TOP_COMMON = b"../.."  # where every worktree's git folder finds the common one
# Names that `Protected` handles at the top of a git folder.
PROTECTED_ELSEWHERE = ("hooks", "config", "config.worktree", "commondir")
_MAX_FILE = 100_000  # bytes of a file that is restored
_ODD = {"odd": True}  # ends the signature of data that is not plain
_Signature = list[Any]


class GitState:
    """The entries of one git folder that are not data.

    Args:
        git: The git folder.
        parts: Folders of data in it, to look at these alone; empty for the whole folder.
    """

    def __init__(self, git: Path, parts: Sequence[str] = ()) -> None:
        self._git, self._parts = git, parts

    @contextmanager
    def enforced(self) -> Iterator[list[str]]:
        """Bring back what was set aside, and set it aside again at the end, with what is new or changed.

        If several commands run, this happens before the first and after the last of them. When the context
        ends, the yielded list has the names of what was set aside.
        """
        import fcntl  # needs Linux, as the sandboxes do

        names: list[str] = []
        refuse_if_left(self._git)
        file = places_file(self._git, f".git{'-'.join(self._parts)}")
        with file.open("ab") as running:
            with _alone(file):
                if not file.stat().st_size:  # no command is running, and none was killed with us
                    file.write_text(json.dumps(self._signatures()))
                self._bring_back()
                fcntl.flock(running, fcntl.LOCK_SH)
            try:
                yield names
            finally:
                with _alone(file), suppress(BlockingIOError):  # another command is running
                    fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    names += self._set_aside(json.loads(file.read_bytes()))
                    note_left(self._git, names)
                    file.write_bytes(b"")

    def _set_aside(self, before: dict[str, _Signature]) -> Iterator[str]:
        for name, signature in self._signatures().items():
            old = before.get(name)
            if signature != old:
                try:
                    if signature[-1] == _ODD:
                        yield os.path.relpath(rename_aside(name, into=str(self._git)), self._git.parent)
                    else:
                        yield os.path.relpath(rename_aside(name, SET_ASIDE), self._git.parent)
                        if old and isinstance(old[-1], str):  # a file that Git or a person made
                            Path(name).write_bytes(bytes.fromhex(old[-1]))
                except OSError as error:
                    yield NotRestored.of(name, self._git.parent, error.strerror)

    def _bring_back(self) -> None:
        for entry in list(_entries(self._git, lambda name: name.endswith(SET_ASIDE))):
            name = str(entry).removesuffix(SET_ASIDE)
            if not os.path.lexists(name) and not self._is_elsewhere(Path(name)):
                with suppress(OSError):
                    entry.rename(name)

    def _signatures(self) -> dict[str, _Signature]:
        signatures = {path: _kind(path) for path in self._odd()}  # first, because it gives rights back
        entries = () if self._parts else _entries(self._git, lambda name: not name.endswith(SET_ASIDE))
        for entry in entries:
            if str(entry) not in signatures and not self._is_elsewhere(entry):
                signatures[str(entry)] = _signature(entry)
        return signatures

    def _odd(self) -> Iterator[str]:
        """Yield what is odd in data. The rest is set aside as a whole."""
        found = [path for part in self._parts or [""] for path in odd_entries(str(self._git), part)]
        others = {str(entry) for entry in _entries(self._git, lambda _: True)}
        for path in found:
            if others.isdisjoint((path, *map(str, Path(path).parents))):
                yield path

    def _is_elsewhere(self, entry: Path) -> bool:
        return entry.parent == self._git and entry.name in PROTECTED_ELSEWHERE


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Let one process at a time begin or end a command."""
    import fcntl

    with file.with_suffix(".gate").open("ab") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _entries(folder: Path, wanted: Callable[[str], bool], *, is_git: bool = True) -> Iterator[Path]:
    """Yield the entries of a git folder, and of git folders in it, that are not data."""
    with suppress(OSError):
        for entry in sorted(folder.iterdir()):
            is_folder = entry.is_dir() and not entry.is_symlink()
            if is_folder and is_git and entry.name in _GIT_FOLDERS:
                yield from _entries(entry, wanted, is_git=False)
            elif is_folder and not is_git and not entry.name.endswith(SET_ASIDE):
                yield from _entries(entry, wanted, is_git=(entry / "HEAD").is_file())
            elif wanted(entry.name) and not (is_git and _is_data(entry)):
                yield entry


def _is_data(entry: Path) -> bool:
    if entry.name == "commondir" and entry.parent.parent.name == "worktrees":
        with suppress(OSError):
            return read_plain(entry, _MAX_FILE).strip() == _TOP_COMMON
    return bool(_DATA.fullmatch(entry.name))


def _kind(path: str) -> _Signature:
    """Return what changes if an odd entry is replaced, but not if git writes to a file."""
    with suppress(OSError):  # the path may be too long
        status = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115 - the unresolved target
        return [status.st_ino, status.st_mode, status.st_nlink, target, _ODD]
    return [_ODD]


def _signature(entry: Path) -> _Signature:
    """Return what changes with every change of an entry: the content, or times that no command can set."""
    with suppress(OSError):
        status = entry.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE:
            return [status.st_mode, read_plain(entry, _MAX_FILE).hex()]
    folders = os.walk(entry)
    paths = [str(entry), *(f"{at}/{name}" for at, *lists in folders for names in lists for name in names)]
    signature: _Signature = []
    for path in sorted(paths):
        with suppress(OSError):
            status = os.lstat(path)
            signature.append([status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns])
    return signature
