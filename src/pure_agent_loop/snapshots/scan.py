"""Looking at a workspace: what is there, and what has changed since the last look.

Folders are entered by descriptor and no link is followed, so nothing outside can be reached. Files that
have not changed by their dates, size and inode are not read again.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.snapshots.ignore import Rules, is_left_out
from pure_agent_loop.snapshots.values import Entry, Manifest, SnapshotError, shown_path
from pure_agent_loop.toolbox.files import beneath

TEMPORARY = ".pal-undo-"
MAX_DEPTH = 100
MAX_RULES_BYTES = 1 << 20
SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system that is still in use

# What other tools make and can make again, and what is a store of its own.
ALWAYS_LEFT_OUT = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__", ".mypy_cache"),
        *(".pytest_cache", ".ruff_cache", ".tox", ".nox", ".hypothesis", ".gradle"),
    )
)
SECRET_NAMES = (
    *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd"),
    *("credentials", "credentials.json", "secrets.*", "service-account*.json"),
)

Signature = tuple[int, int, int, int, int]
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | beneath.SAFE_FLAGS
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


def is_secret(path: str) -> bool:
    """True if the name of a file says that it holds secrets."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in SECRET_NAMES)


@dataclass(slots=True)
class Known:
    """What a file was when it was read last."""

    signature: Signature
    read_ns: int
    content: str

    def holds(self, status: os.stat_result) -> bool:
        """True if the content must still be the same."""
        changed = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
        return self.signature == signature(status) and changed < self.read_ns - SETTLED_NS


def signature(status: os.stat_result) -> Signature:
    """What changes when a file does."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode


@dataclass(slots=True)
class Look:
    """What was found.

    Args:
        manifest: Everything whose content is known.
        unread: Files and links that have to be read first.
        signatures: What each file and link was.
        left_out: What could not be looked at, with the reason.
        leftovers: Temporary files of an undo that was cut off.
    """

    manifest: Manifest = field(default_factory=dict)
    unread: dict[str, os.stat_result] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


class Scanner:
    """Looks at one workspace again and again.

    Args:
        root: The workspace, resolved.
        max_file_bytes: Larger files are noticed but not kept.
        max_files: With more than so many, a look is given up.
        exclude: More patterns to leave out, as in a ``.gitignore`` at the root.
        apart: Folders that are never looked at, wherever they are.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_file_bytes: int,
        max_files: int,
        exclude: Sequence[str] = (),
        apart: Iterable[Path] = (),
    ) -> None:
        self.root = root
        self._max_file_bytes = max_file_bytes
        self._max_files = max_files
        self._own = Rules("", exclude)
        inside = [path.relative_to(root).as_posix() for path in apart if path.is_relative_to(root)]
        self._apart = frozenset(inside)

    def look(self, known: dict[str, Known]) -> Look:
        """Look at everything; blocks.

        Args:
            known: What is known from the last look.

        Raises:
            SnapshotError: There is too much, or the workspace cannot be read.
        """
        look = Look()
        try:
            handle: int | str = os.open(self.root, _FOLDER) if _BY_DESCRIPTOR else str(self.root)
        except OSError as error:
            raise SnapshotError(f"The workspace cannot be read: {error.strerror}.") from error
        try:
            self._folder(look, known, "", handle, [], 0)
        except OSError as error:
            raise SnapshotError(f"The workspace cannot be read: {error.strerror}.") from error
        return look

    def _folder(
        self,
        look: Look,
        known: dict[str, Known],
        base: str,
        handle: int | str,
        above: list[Rules],
        depth: int,
    ) -> bool:
        """Look at one folder and close it; False if there is nothing in it at all."""
        try:
            with os.scandir(handle) as listing:
                entries = list(listing)
            rules = above
            if any(entry.name == ".gitignore" for entry in entries):
                rules = [*above, Rules(base, _lines(handle))]
            for entry in entries:
                self._entry(look, known, base, handle, entry, rules, depth)
        finally:
            if isinstance(handle, int):
                os.close(handle)
        return bool(entries)

    def _entry(
        self,
        look: Look,
        known: dict[str, Known],
        base: str,
        handle: int | str,
        entry: os.DirEntry[str],
        rules: list[Rules],
        depth: int,
    ) -> None:
        path, name = base + entry.name, entry.name
        if name.startswith(TEMPORARY):
            look.leftovers.append(path)
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # gone meanwhile
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._is_left_out(path, name, rules, is_folder=is_folder):
            return
        if is_folder:
            self._enter(look, known, path, handle, rules, depth)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._file(look, known, path, status)

    def _is_left_out(self, path: str, name: str, rules: list[Rules], *, is_folder: bool) -> bool:
        if name in ALWAYS_LEFT_OUT or name.lower() == ".git" or path in self._apart:
            return True
        if self._own.verdict(path, is_folder=is_folder):
            return True
        if not is_left_out(rules, path, is_folder=is_folder):
            return False
        # Nobody else keeps it, and it can hardly be made again.
        return is_folder or not is_secret(name)

    def _enter(
        self,
        look: Look,
        known: dict[str, Known],
        path: str,
        handle: int | str,
        rules: list[Rules],
        depth: int,
    ) -> None:
        if depth >= MAX_DEPTH:
            look.left_out.append(f"{shown_path(path)} (too many folders in each other)")
            return
        name = path.rpartition("/")[2]
        try:
            inner: int | str = (
                os.open(name, _FOLDER, dir_fd=handle) if isinstance(handle, int) else f"{handle}/{name}"
            )
            filled = self._folder(look, known, path + "/", inner, rules, depth + 1)
        except OSError as error:
            look.left_out.append(f"{shown_path(path)} ({error.strerror})")
            return
        if not filled:
            look.manifest[path] = Entry("folder", 0)

    def _file(self, look: Look, known: dict[str, Known], path: str, status: os.stat_result) -> None:
        look.signatures[path] = signature(status)
        if len(look.signatures) > self._max_files:
            raise SnapshotError(
                f"the workspace has more than {self._max_files} files. Leave folders out by a .gitignore, "
                "or raise max_files."
            )
        mode, is_link = stat.S_IMODE(status.st_mode), stat.S_ISLNK(status.st_mode)
        before = known.get(path)
        if not is_link and status.st_size > self._max_file_bytes:
            look.manifest[path] = Entry("unkept", mode, f"{status.st_size}-{status.st_mtime_ns}")
        elif before is not None and before.holds(status):
            look.manifest[path] = Entry(
                "link" if is_link else "file", 0o777 if is_link else mode, before.content
            )
        else:
            look.unread[path] = status

    def read(self, path: str) -> tuple[bytes, os.stat_result] | None:
        """The content of a file, or where a link leads; None if it is gone or another thing by now.

        Args:
            path: Below the workspace.

        Raises:
            OSError: It cannot be read.
        """
        parts = path.split("/")
        try:
            return self._link(parts) or self._content(parts)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _link(self, parts: list[str]) -> tuple[bytes, os.stat_result] | None:
        with parent(self.root, parts) as folder:
            status = folder.status(parts[-1])
            if not stat.S_ISLNK(status.st_mode):
                return None
            return os.fsencode(folder.target(parts[-1])), status

    def _content(self, parts: list[str]) -> tuple[bytes, os.stat_result] | None:
        opener = beneath.open_by_walking if _BY_DESCRIPTOR else beneath.open_by_checking
        descriptor = opener(self.root, parts, os.O_RDONLY, 0)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            data = file.read(self._max_file_bytes + 1)
        return (data, status) if len(data) <= self._max_file_bytes else None


class Folder(contextlib.AbstractContextManager["Folder"]):
    """An open folder in which things are done by name. Without folder descriptors (Windows): by path."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._at = descriptor

    def __exit__(self, *_: object) -> None:
        if self._at is not None:
            os.close(self._at)

    def _name(self, name: str) -> str:
        return name if self._at is not None else str(self.path / name)

    def status(self, name: str) -> os.stat_result:
        """What a name stands for, links not followed."""
        return os.stat(self._name(name), dir_fd=self._at, follow_symlinks=False)

    def target(self, name: str) -> str:
        """Where a link leads."""
        return os.readlink(self._name(name), dir_fd=self._at)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file; a link is not followed."""
        flags |= getattr(os, "O_NOFOLLOW", 0) | beneath.SAFE_FLAGS
        return os.open(self._name(name), flags, mode, dir_fd=self._at)

    def link(self, target: str, name: str) -> None:
        """Make a link."""
        os.symlink(target, self._name(name), dir_fd=self._at)

    def replace(self, source: str, target: str) -> None:
        """Give a file another name in the same folder; what had that name is gone."""
        os.replace(self._name(source), self._name(target), src_dir_fd=self._at, dst_dir_fd=self._at)

    def unlink(self, name: str) -> None:
        """Take a file or link away."""
        os.unlink(self._name(name), dir_fd=self._at)

    def make_folder(self, name: str, mode: int = 0o777) -> None:
        """Make a folder."""
        os.mkdir(self._name(name), mode, dir_fd=self._at)

    def remove_folder(self, name: str) -> None:
        """Take an empty folder away."""
        os.rmdir(self._name(name), dir_fd=self._at)


def parent(root: Path, parts: Sequence[str]) -> Folder:
    """The folder that something lies in, reached without following a link.

    Raises:
        OSError: There is none, or a link is in the way.
    """
    path = root.joinpath(*parts[:-1])
    if not _BY_DESCRIPTOR:
        beneath.require_below(root, path)
        return Folder(path, None)
    return Folder(path, beneath.open_by_walking(root, parts[:-1], _FOLDER, 0))


def _lines(folder: int | str) -> list[str]:
    """The lines of the ``.gitignore`` in a folder; none if it cannot be read."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | beneath.SAFE_FLAGS
    try:
        if isinstance(folder, int):
            descriptor = os.open(".gitignore", flags, dir_fd=folder)
        else:
            descriptor = os.open(f"{folder}/.gitignore", flags)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            return file.read(MAX_RULES_BYTES).decode("utf-8", "surrogateescape").split("\n")
    except OSError:
        return []


def batches(paths: Iterable[tuple[str, int]], most_bytes: int, most: int) -> Iterator[list[str]]:
    """Paths in groups that are not too large to be held at once."""
    group: list[str] = []
    size = 0
    for path, length in paths:
        if group and (size + length > most_bytes or len(group) >= most):
            yield group
            group, size = [], 0
        group.append(path)
        size += length
    if group:
        yield group
