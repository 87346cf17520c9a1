"""Store of file contents and manifests: a compressed git repository that any git version can read.

The repository is separate and bare. git never accesses the workspace: contents are passed to
``fast-import`` and read with ``cat-file``, so that no attribute, filter, hook, index or setting of the
workspace, its repository or the user has any effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pure_agent_loop.errors import ConfigError, SessionLockedError
from pure_agent_loop.snapshots.values import (
    EntryKind,
    Manifest,
    ObjectsMissingError,
    PathEntry,
    SnapshotError,
)
from pure_agent_loop.support.child import child_environment, communicate, find_program, kill_group, write_to
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import take_lock
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread

DEADLINE = 120.0  # seconds allowed for one store operation
T = TypeVar("T")
_LOCK_PAUSE = 0.02

REFS = "refs/snapshots/"
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.protectNTFS": "false",  # allow every name that the workspace can hold
    "core.protectHFS": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_COMMITTER = "pure-agent-loop <snapshots@localhost> 0 +0000"
_LINK, _FILE, _EXECUTABLE = "120000", "100644", "100755"
_PLAIN = {_FILE: 0o644, _EXECUTABLE: 0o755, _LINK: 0o777}


async def _in_time(work: Awaitable[T], command: str) -> T:
    try:
        return await within(DEADLINE, work)
    except TimeoutError:
        raise SnapshotError(notice("library.git_slow", words=command, deadline=DEADLINE)) from None


@contextlib.asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of a store.

    Raises:
        SnapshotError: Another process has held the lock for too long.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE
    while True:
        try:
            lock = take_lock(folder / "lock", "snapshots")
            break
        except SessionLockedError as error:
            if loop.time() > deadline:
                holder = str(error)
                raise SnapshotError(notice("library.snapshots_in_use", holder=holder)) from error
            await asyncio.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        lock.release()


class Store:
    """File contents and manifests in a bare repository. All writes happen under one lock.

    Raises:
        ConfigError: git is not installed.
    """

    def __init__(self, folder: Path) -> None:
        git = find_program("git")
        if git is None:
            raise ConfigError(notice("library.snapshots_git"))
        self.folder = private_folder(folder)
        self._git = git
        self._repository = self.folder / "objects.git"
        self._is_ready = False

    def content_id(self, data: bytes) -> str:
        """Return git's id for this content."""
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def _environment(self) -> dict[str, str]:
        return {
            **child_environment(),
            "GIT_DIR": str(self._repository),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_DEFAULT_REF_FORMAT": "files",
            "GIT_TERMINAL_PROMPT": "0",
            "HOME": str(self.folder),  # git before 2.32 ignores GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(self.folder),
            "LC_ALL": "C",
        }

    @contextlib.asynccontextmanager
    async def _start_git(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a git process until the block ends, even if the block raises an error."""
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        try:
            process = await asyncio.create_subprocess_exec(
                self._git,
                *settings,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is handled by this process
            )
        except OSError as error:
            raise SnapshotError(notice("library.git_not_started", error=error.strerror or error)) from error
        try:
            yield process
        except (BrokenPipeError, ConnectionResetError) as error:
            raise SnapshotError(notice("library.git_ended")) from error
        finally:
            if process.returncode is None:
                kill_group(process)
            if process.stdin is not None:
                process.stdin.close()
            await _wait_for_exit(process)

    async def _run_git(self, *words: str, data: bytes = b"") -> tuple[int, bytes, str]:
        async with self._start_git(*words) as process:
            out, err = await _in_time(communicate(process, data), words[0])
            return process.returncode or 0, out, safe_str(err.decode(errors="replace")).strip()

    async def _check_git(self, *words: str, data: bytes = b"") -> bytes:
        code, out, err = await self._run_git(*words, data=data)
        if code:
            raise SnapshotError(f"git {words[0]} failed: {err or code}")
        return out

    async def _prepare(self) -> None:
        """Create the repository unless it is complete. The lock must be held."""
        marker = self.folder / "ready"
        if not self._is_ready and not marker.exists():
            # An interrupted creation leaves lock files behind.
            await in_thread(lambda: shutil.rmtree(self._repository, ignore_errors=True))
            await self._check_git("init", "--quiet", "--bare", "--template=", str(self._repository))
            marker.touch(mode=0o600)
        self._is_ready = True

    def has(self, name: str) -> bool:
        """Return True if the snapshot exists."""
        if (self._repository / REFS / name).exists():
            return True
        with contextlib.suppress(OSError):  # read git's two ref files instead of starting a process
            return f"{REFS}{name}\n".encode() in (self._repository / "packed-refs").read_bytes()
        return False

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Writer]:
        """Open a writer; other writers wait until the context ends."""
        async with locked(self.folder):
            await self._prepare()
            await in_thread(self._clear_locks)
            words = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
            async with self._start_git(*words) as process:
                yield Writer(process)

    def _clear_locks(self) -> None:
        """Remove locks of killed writers; safe, because all writers hold the lock of the store."""
        for path in [*self._repository.glob("*.lock"), *(self._repository / REFS).glob("*.lock")]:
            path.unlink(missing_ok=True)

    async def manifest(self, name: str) -> Manifest:
        """Read the manifest of a snapshot.

        Raises:
            ObjectsMissingError: The snapshot does not exist.
        """
        code, commit, _ = await self._run_git("cat-file", "commit", REFS + name)
        if code:
            raise ObjectsMissingError(notice("library.snapshot_gone"))
        listing = await self._check_git("ls-tree", "-r", "-z", "--full-tree", REFS + name)
        return _parse_manifest(listing, read_json(commit.partition(b"\n\n")[2]))

    @contextlib.asynccontextmanager
    async def contents(self, ids: Iterable[str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an iterator over file contents, in the given order.

        The iterator raises `ObjectsMissingError` for missing content.
        """
        async with self._start_git("cat-file", "--batch") as process:
            yield self._read_contents(process, ids)

    async def _read_contents(
        self, process: asyncio.subprocess.Process, ids: Iterable[str]
    ) -> AsyncIterator[bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        for content_id in ids:
            write_to(process.stdin, f"{content_id}\n".encode("ascii"))
            yield await _in_time(_read_content(process.stdin, process.stdout), "cat-file")

    async def prune(self, keep: frozenset[str]) -> int:
        """Remove all snapshots except `keep`, and unused contents. Return the number of removed snapshots."""
        async with locked(self.folder):
            await self._prepare()
            await in_thread(self._clear_locks)
            refs = await self._check_git("for-each-ref", "--format=%(refname)", REFS)
            outdated = [ref for ref in refs.decode("ascii").split() if ref.removeprefix(REFS) not in keep]
            commands = b"".join(f"delete {ref}\0\0".encode("ascii") for ref in outdated)
            await self._check_git("update-ref", "-z", "--stdin", data=commands)
            await self._check_git("gc", "--quiet", "--prune=now")
            for path in self._repository.glob("fast_import_crash_*"):
                path.unlink(missing_ok=True)
            return len(outdated)


async def _read_content(stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> bytes:
    await stdin.drain()
    head = (await stdout.readline()).split()
    if len(head) != 3 or head[1] != b"blob":
        raise ObjectsMissingError(notice("library.snapshot_content_gone"))
    return (await stdout.readexactly(int(head[2]) + 1))[:-1]


class Writer:
    """Writes to ``fast-import``. Nothing becomes visible before `snapshot` finishes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def _feed(self, data: bytes) -> None:
        assert self._process.stdin is not None
        write_to(self._process.stdin, data)
        await _in_time(self._process.stdin.drain(), "fast-import")

    async def blob(self, data: bytes) -> None:
        """Write the content of a file or link."""
        await self._feed(b"blob\ndata %d\n%b\n" % (len(data), data))

    async def snapshot(self, name: str, manifest: Mapping[str, PathEntry]) -> None:
        """Write a manifest under a name, and finish.

        Raises:
            ObjectsMissingError: File content that the manifest names is missing.
        """
        # Git has exited; stderr has the reason.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await self._feed(_commit_stream(name, manifest))
        _, err = await _in_time(communicate(self._process, b"done\n"), "fast-import")
        if self._process.returncode:
            message = safe_str(err.decode(errors="replace")).strip()
            kind = ObjectsMissingError if "not found" in message else SnapshotError
            raise kind(f"git fast-import failed: {message.splitlines()[0] if message else 'no reason given'}")


def _commit_stream(name: str, manifest: Mapping[str, PathEntry]) -> bytes:
    """Return a commit for the manifest: its tree has what git can express, its message has the rest."""
    extras: dict[str, list[object]] = {}
    lines: list[bytes] = []
    for path, entry in manifest.items():
        mode = _git_mode(entry)
        if mode is None:
            extras[path] = [entry.kind, entry.mode, entry.content]
            continue
        lines.append(b"M %b %b %b\n" % (mode.encode(), entry.content.encode("ascii"), _quote_path(path)))
        if _PLAIN[mode] != entry.mode:
            extras[path] = [entry.kind, entry.mode]
    message = json.dumps(extras, separators=(",", ":"), sort_keys=True).encode("ascii")
    head = f"commit {REFS}{name}\ncommitter {_COMMITTER}\ndata {len(message)}\n".encode("ascii")
    return head + message + b"\ndeleteall\n" + b"".join(lines) + b"\n"


def _git_mode(entry: PathEntry) -> str | None:
    if entry.kind == "link":
        return _LINK
    if entry.kind == "file":
        return _EXECUTABLE if entry.mode & 0o100 else _FILE
    return None


def _quote_path(path: str) -> bytes:
    raw = os.fsencode(path)
    return b'"%b"' % b"".join(
        bytes([byte]) if 0x20 <= byte < 0x7F and byte not in b'"\\' else b"\\%03o" % byte for byte in raw
    )


def _parse_manifest(listing: bytes, extras: dict[str, list[object]]) -> Manifest:
    manifest: Manifest = {}
    for row in listing.split(b"\0")[:-1]:
        attributes, _, raw = row.partition(b"\t")
        mode, _, content = attributes.decode("ascii").split()
        path = os.fsdecode(raw)
        extra = extras.get(path)
        bits = _PLAIN[mode] if extra is None else int(str(extra[1]))
        manifest[path] = PathEntry("link" if mode == _LINK else "file", bits, content)
    for path, extra in extras.items():
        if path not in manifest:
            kinds: dict[object, EntryKind] = {"folder": "folder", "moved": "moved"}
            manifest[path] = PathEntry(kinds.get(extra[0], "unkept"), int(str(extra[1])), str(extra[2]))
    return manifest


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait for a process that was killed or has ended, even while being cancelled."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await waiting
        raise
