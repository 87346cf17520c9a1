"""Scan a workspace: its content, and its changes since the last scan.

Folders are entered by descriptor and links are not followed, so that nothing outside can be reached. Files
with unchanged times, size and inode are not read again.
"""

from __future__ import annotations

import ctypes
import fnmatch
import functools
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.snapshots.ignore import Rules, is_left_out
from pure_agent_loop.snapshots.values import Manifest, PathEntry, SnapshotError, TooManyFilesError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.toolbox.files import beneath
from pure_agent_loop.toolbox.files.folder import FolderHandle, unlinked_folder

TEMPORARY = ".pal-undo-"
MAX_DEPTH = 100
MAX_RULES_BYTES = 1 << 20
SETTLED_NS = 2_000_000_000  # the coarsest time resolution of file systems in use

# Names that are never scanned: repositories, and caches that tools can rebuild.
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

_COARSE = 5  # CLOCK_REALTIME_COARSE
_STATX_BTIME, _BTIME_AT, _NOFOLLOW = 0x800, 80, 0x100
Signature = tuple[int, int, int, int, int]


def is_secret(path: str) -> bool:
    """Return True if a file's name suggests that it holds secrets."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in SECRET_NAMES)


@dataclass(slots=True)
class KnownFile:
    """The content id of a file, and the file's signature when the content was read."""

    signature: Signature
    read_ns: int
    content: str

    def holds(self, status: os.stat_result) -> bool:
        """Return True if the file's status proves that the content is unchanged."""
        changed = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
        return self.signature == signature(status) and changed < self.read_ns - SETTLED_NS


def birth_ns(path: Path) -> int:
    """Return the creation time of a file, in nanoseconds since 1970, or the best approximation.

    Raises:
        OSError: The file does not exist.
    """
    status = path.lstat()
    call = _statx()
    if call is not None:
        buffer = ctypes.create_string_buffer(256)
        if not call(-100, os.fsencode(path), _NOFOLLOW, _STATX_BTIME, buffer):
            seconds, nanoseconds = struct.unpack_from("qI", buffer.raw, _BTIME_AT)
            if struct.unpack_from("I", buffer.raw)[0] & _STATX_BTIME:
                return int(seconds) * 1_000_000_000 + int(nanoseconds)
    born = getattr(status, "st_birthtime", None)
    return min(status.st_mtime_ns, status.st_ctime_ns) if born is None else int(born * 1e9)


@functools.lru_cache(maxsize=1)
def _statx() -> Callable[..., int] | None:
    """Return the Linux system call ``statx``, which Python lacks before 3.15."""
    return getattr(ctypes.CDLL(None), "statx", None) if sys.platform.startswith("linux") else None


def coarse_time() -> float:
    """Return the time of the file systems' clock, in seconds since 1970; on Linux it lags by a few ms."""
    if sys.platform != "linux":
        return time.time()
    return time.clock_gettime(_COARSE)


def signature(status: os.stat_result) -> Signature:
    """Return values that change whenever the file changes."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode


@dataclass(frozen=True, slots=True)
class ScanRules:
    """Rules of one scan, kept so that a later scan can use the same rules.

    Args:
        ignore: Lines of each ``.gitignore``, keyed by its folder with a final slash.
        links: Inode of each file with several names, by path.
    """

    exclude: Sequence[str]
    max_file_bytes: int
    ignore: dict[str, Sequence[str]] = field(default_factory=dict)
    links: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ScanResult:
    """Result of a scan.

    Args:
        is_frozen: True if the rules come from an earlier scan, whatever the workspace holds now.
        known: Files of the last scan.
        only: Paths to scan, with their parent folders; None to follow the rules.
        links: Inode of each file with several names, by path.
        left_out: Paths that could not be scanned, with the reason.
    """

    view: ScanRules
    own: Rules
    known: Mapping[str, KnownFile]
    is_frozen: bool = False
    only: Collection[str] | None = None
    links: dict[str, int] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=dict)
    unread: dict[str, os.stat_result] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


class Scanner:
    """Scans one workspace repeatedly.

    Args:
        root: The workspace, resolved.
        max_files: Maximum number of files; a larger workspace is rejected.
        exclude: Further patterns to ignore, as in a ``.gitignore`` at the root.
        apart: Folders that are never scanned, wherever they are.
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
        self._max_files = max_files
        self._exclude, self._max_file_bytes = tuple(exclude), max_file_bytes
        inner_paths = [path.relative_to(root).as_posix() for path in apart if path.is_relative_to(root)]
        self._excluded_folders = frozenset(inner_paths)

    def scan(
        self,
        known: Mapping[str, KnownFile],
        view: ScanRules | None = None,
        only: Collection[str] | None = None,
    ) -> ScanResult:
        """Scan the workspace; this blocks the thread.

        Args:
            known: Files of the last scan.
            view: Rules of an earlier scan; None for the current ones.
            only: Paths to scan, whatever the rules are; None for all.

        Raises:
            SnapshotError: There are too many files, or the workspace cannot be read.
        """
        rules = view or ScanRules(self._exclude, self._max_file_bytes)
        scan = ScanResult(rules, Rules("", rules.exclude), known, is_frozen=view is not None)
        scan.links = {} if scan.is_frozen else rules.links
        if only is not None:
            scan.only = {path[:end] for path in only for end in _prefix_lengths(path)}
        try:
            self._scan_folder(scan, "", self._open_root(), [], 0)
        except OSError as error:
            raise SnapshotError(notice("library.workspace_unreadable", error=error.strerror)) from error
        return scan

    def _open_root(self) -> FolderHandle:
        if beneath.best_opener() is beneath.open_by_checking:  # Windows has no descriptors for folders
            return FolderHandle(None, self.root)
        return FolderHandle(os.open(self.root, beneath.FOLDER_FLAGS | beneath.NO_LINK))

    def _scan_folder(
        self, scan: ScanResult, base: str, folder: FolderHandle, outer_rules: list[Rules], depth: int
    ) -> bool:
        """Scan one folder and close it; return False if it is empty."""
        with folder:
            entries = list(folder.scan())
            rules = outer_rules
            if not scan.is_frozen and any(entry.name == ".gitignore" for entry in entries):
                scan.view.ignore[base] = _read_ignore_file(folder)
            if base in scan.view.ignore:
                rules = [*outer_rules, Rules(base, scan.view.ignore[base])]
            for entry in entries:
                self._scan_entry(scan, base, folder, entry, rules, depth)
        return bool(entries)

    def _scan_entry(
        self,
        scan: ScanResult,
        base: str,
        folder: FolderHandle,
        entry: os.DirEntry[str],
        rules: list[Rules],
        depth: int,
    ) -> None:
        path = base + entry.name
        if entry.name.startswith(TEMPORARY):
            scan.leftovers.append(path)
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # removed in the meantime
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        is_left_out = (
            path not in scan.only
            if scan.only is not None
            else self._is_left_out(scan, path, rules, is_folder)
        )
        if is_left_out:
            return
        if is_folder:
            self._enter(scan, path, folder, rules, depth)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._scan_file(scan, path, status)

    def _is_left_out(self, scan: ScanResult, path: str, rules: list[Rules], is_folder: bool) -> bool:
        name = path.rpartition("/")[2]
        if name in ALWAYS_LEFT_OUT or name.lower() == ".git" or path in self._excluded_folders:
            return True
        if scan.own.verdict(path, is_folder=is_folder):
            return True
        if not is_left_out(rules, path, is_folder=is_folder):
            return False
        # Files with secrets are scanned even if ignored, because they are hard to recreate. So are ignore
        # files: if one were missing, the files that it ignores would appear in a scan.
        return is_folder or not (is_secret(name) or name == ".gitignore")

    def _enter(
        self, scan: ScanResult, path: str, folder: FolderHandle, rules: list[Rules], depth: int
    ) -> None:
        if depth >= MAX_DEPTH:
            scan.left_out.append(f"{quoted_path(path)} (folders nested too deeply)")
            return
        try:
            inner = folder.enter(path.rpartition("/")[2])
            has_entries = self._scan_folder(scan, path + "/", inner, rules, depth + 1)
        except OSError as error:
            scan.left_out.append(f"{quoted_path(path)} ({error.strerror})")
            return
        if not has_entries:
            scan.manifest[path] = PathEntry("folder", 0)

    def _scan_file(self, scan: ScanResult, path: str, status: os.stat_result) -> None:
        scan.signatures[path] = signature(status)
        if len(scan.signatures) > self._max_files and scan.only is None:
            raise TooManyFilesError(notice("library.too_many_files", max_files=self._max_files))
        is_link = stat.S_ISLNK(status.st_mode)
        known_file = scan.known.get(path)
        if status.st_nlink > 1 and not is_link:
            scan.links[path] = status.st_ino
        if not is_link and status.st_size > scan.view.max_file_bytes:
            scan.manifest[path] = unkept_entry(status)
        elif known_file is not None and known_file.holds(status):
            scan.manifest[path] = kept_entry(status, known_file.content)
        else:
            scan.unread[path] = status

    def read(self, path: str, max_bytes: int) -> tuple[bytes, os.stat_result] | None:
        """Return the content of a file, or the target of a link; None if it was removed or replaced.

        Args:
            path: Path below the workspace.
            max_bytes: Maximum size; a longer file is not read.

        Raises:
            OSError: The path cannot be read.
        """
        parts = path.split("/")
        try:
            with parent(self.root, parts) as folder:
                status = folder.status(parts[-1])
                if status is not None and stat.S_ISLNK(status.st_mode):
                    return os.fsencode(folder.target(parts[-1])), status
                descriptor = folder.open(parts[-1], os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        # If the path is a folder, `open` with an opener closes the descriptor; `fdopen` would leave it open.
        with open(path, "rb", opener=lambda *_: descriptor) as file:
            status = os.fstat(descriptor)
            data = file.read(max_bytes + 1) if stat.S_ISREG(status.st_mode) else None
        return None if data is None or len(data) > max_bytes else (data, status)


def kept_entry(status: os.stat_result, content: str) -> PathEntry:
    """Return the entry of a file or link whose content is stored."""
    if stat.S_ISLNK(status.st_mode):
        return PathEntry("link", 0o777, content)
    return PathEntry("file", stat.S_IMODE(status.st_mode), content)


def unkept_entry(status: os.stat_result) -> PathEntry:
    """Return the entry of a file whose content is not stored."""
    return PathEntry("unkept", stat.S_IMODE(status.st_mode), f"{status.st_size}-{status.st_mtime_ns}")


def parent(root: Path, parts: Sequence[str], *, make: bool = False) -> AbstractContextManager[FolderHandle]:
    """Open the parent folder of a path without following a link.

    Args:
        make: Make missing folders.

    Raises:
        OSError: The folder does not exist, or the path contains a link.
    """
    return unlinked_folder(root, beneath.best_opener(), parts[:-1], make=make)


def _read_ignore_file(folder: FolderHandle) -> list[str]:
    """Return the lines of the ``.gitignore`` in a folder; none if it cannot be read."""
    try:
        with open(".gitignore", "rb", opener=lambda name, _: folder.open(name, os.O_RDONLY)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            return file.read(MAX_RULES_BYTES).decode("utf-8", "surrogateescape").split("\n")
    except OSError:
        return []


def _prefix_lengths(path: str) -> list[int]:
    """Return the length of each prefix of a path that is itself a path."""
    return [*(index for index, character in enumerate(path) if character == "/"), len(path)]


def batches(paths: Iterable[tuple[str, int]], max_bytes: int, max_paths: int) -> Iterator[list[str]]:
    """Group paths into batches of limited size."""
    group: list[str] = []
    size = 0
    for path, length in paths:
        if group and (size + length > max_bytes or len(group) >= max_paths):
            yield group
            group, size = [], 0
        group.append(path)
        size += length
    if group:
        yield group
