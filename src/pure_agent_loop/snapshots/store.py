"""Where contents and manifests are kept: by git, packed, compressed, and readable with any git.

It is a bare repository of our own. git never sees the workspace: contents are fed to ``fast-import`` and
read from ``cat-file``, so that no attribute, filter, hook, index or setting of the workspace, of its
repository or of the user can have a part in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pure_agent_loop.errors import ConfigError, SessionLockedError
from pure_agent_loop.snapshots.values import (
    Entry,
    EntryKind,
    Manifest,
    ObjectsMissingError,
    SnapshotError,
)
from pure_agent_loop.support.child import child_environment, communicate, find_program, write_to
from pure_agent_loop.support.paths import private_folder
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.support.writer_lock import take_lock

DEADLINE = 120.0  # seconds for one thing that a store does
_LOCK_PAUSE = 0.02
T = TypeVar("T")

REFS = "refs/snapshots/"
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.protectNTFS": "false",  # any name that the workspace can hold is fine here
    "core.protectHFS": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_COMMITTER = "pure-agent-loop <snapshots@localhost> 0 +0000"
_LINK, _FILE, _EXECUTABLE = "120000", "100644", "100755"
_PLAIN = {_FILE: 0o644, _EXECUTABLE: 0o755, _LINK: 0o777}


async def in_thread(function: Callable[[], T]) -> T:
    """Run something that blocks."""
    outcome = await run_in_thread(function)
    if isinstance(outcome, Raised):
        raise outcome.error
    result: T = outcome
    return result


@contextlib.asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of a store.

    Raises:
        SnapshotError: Another process has it for too long.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + DEADLINE
    while True:
        try:
            lock = take_lock(folder / "lock", "snapshots")
            break
        except SessionLockedError as error:
            if loop.time() > until:
                words = str(error)
                raise SnapshotError(f"The snapshots of this workspace are in use: {words}") from error
            await asyncio.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        lock.release()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there wholly or not at all."""
    temporary = path.with_name(f"tmp-{os.urandom(16).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class Store:
    """Contents and manifests in a bare repository. All writing happens under one lock.

    Raises:
        ConfigError: This machine has no git.
    """

    def __init__(self, folder: Path) -> None:
        git = find_program("git")
        if git is None:
            raise ConfigError("Snapshots need git. Install it, or run without snapshots.")
        self.folder = private_folder(folder)
        self._git = git
        self._repository = self.folder / "objects.git"
        self._is_ready = False

    def content_id(self, data: bytes) -> str:
        """The id that git gives to a content."""
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
            "HOME": str(self.folder),  # a git before 2.32 does not know GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(self.folder),
            "LC_ALL": "C",
        }

    @contextlib.asynccontextmanager
    async def _running(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A git process that ends with the block, whatever happens."""
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
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        except OSError as error:
            raise SnapshotError(f"git cannot be started: {error.strerror or error}.") from error
        try:
            yield process
        except (BrokenPipeError, ConnectionResetError) as error:
            raise SnapshotError("git ended too early.") from error
        finally:
            if process.returncode is None:
                _kill(process)
            if process.stdin is not None:
                process.stdin.close()
            await _reaped(process)

    async def _git_says(self, *words: str, data: bytes = b"") -> tuple[int, bytes, str]:
        async with self._running(*words) as process:
            try:
                out, err = await asyncio.wait_for(communicate(process, data), DEADLINE)
            except asyncio.TimeoutError:
                raise SnapshotError(f"git {words[0]} took longer than {DEADLINE:g} s.") from None
            return process.returncode or 0, out, safe_str(err.decode(errors="replace")).strip()

    async def _git_does(self, *words: str, data: bytes = b"") -> bytes:
        code, out, err = await self._git_says(*words, data=data)
        if code:
            raise SnapshotError(f"git {words[0]} failed: {err or code}")
        return out

    async def _prepare(self) -> None:
        """Make the repository, if it is not whole. The lock is held."""
        marker = self.folder / "ready"
        if not self._is_ready and not marker.exists():
            # One that was cut off while it was made has locks that nobody will take away.
            await in_thread(lambda: shutil.rmtree(self._repository, ignore_errors=True))
            await self._git_does("init", "--quiet", "--bare", "--template=", str(self._repository))
            marker.touch(mode=0o600)
        self._is_ready = True

    async def has(self, name: str) -> bool:
        """True if there is a snapshot of that name."""
        if (self._repository / REFS / name).exists():
            return True
        with contextlib.suppress(OSError):  # no process for what two files tell
            return f"{REFS}{name}\n".encode() in (self._repository / "packed-refs").read_bytes()
        return False

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Writer]:
        """Begin to write; other writers wait."""
        async with locked(self.folder):
            await self._prepare()
            await in_thread(self._clear_locks)
            words = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
            async with self._running(*words) as process:
                yield Writer(process)

    def _clear_locks(self) -> None:
        """Whoever left them was killed: we hold the lock that all writers hold."""
        for path in [*self._repository.glob("*.lock"), *(self._repository / REFS).glob("*.lock")]:
            path.unlink(missing_ok=True)

    async def manifest(self, name: str) -> Manifest:
        """Read a snapshot.

        Raises:
            ObjectsMissingError: There is none.
        """
        code, commit, _ = await self._git_says("cat-file", "commit", REFS + name)
        if code:
            raise ObjectsMissingError("That snapshot is no longer kept.")
        listing = await self._git_does("ls-tree", "-r", "-z", "--full-tree", REFS + name)
        return _from_git(listing, json.loads(commit.partition(b"\n\n")[2]))

    @contextlib.asynccontextmanager
    async def contents(self, ids: Iterable[str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read contents, in the given order. One that is not there raises `ObjectsMissingError`."""
        async with self._running("cat-file", "--batch") as process:
            yield self._each(process, ids)

    async def _each(self, process: asyncio.subprocess.Process, ids: Iterable[str]) -> AsyncIterator[bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        for each in ids:
            write_to(process.stdin, f"{each}\n".encode("ascii"))
            try:
                yield await asyncio.wait_for(_one(process.stdin, process.stdout), DEADLINE)
            except asyncio.TimeoutError:
                raise SnapshotError(f"git cat-file took longer than {DEADLINE:g} s.") from None

    async def prune(self, keep: frozenset[str]) -> int:
        """Forget all other snapshots, and the contents that only they need. Returns how many snapshots."""
        async with locked(self.folder):
            await self._prepare()
            await in_thread(self._clear_locks)
            found = (
                (await self._git_does("for-each-ref", "--format=%(refname)", REFS)).decode("ascii").split()
            )
            gone = [ref for ref in found if ref.removeprefix(REFS) not in keep]
            orders = b"".join(f"delete {ref}\0\0".encode("ascii") for ref in gone)
            await self._git_does("update-ref", "-z", "--stdin", data=orders)
            await self._git_does("gc", "--quiet", "--prune=now")
            for path in self._repository.glob("fast_import_crash_*"):
                path.unlink(missing_ok=True)
            return len(gone)


async def _one(stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> bytes:
    await stdin.drain()
    head = (await stdout.readline()).split()
    if len(head) != 3 or head[1] != b"blob":
        raise ObjectsMissingError("A content of that snapshot is no longer kept.")
    return (await stdout.readexactly(int(head[2]) + 1))[:-1]


class Writer:
    """Feeds ``fast-import``. Without the last word nothing becomes visible."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def _feed(self, data: bytes) -> None:
        assert self._process.stdin is not None
        write_to(self._process.stdin, data)
        try:
            await asyncio.wait_for(self._process.stdin.drain(), DEADLINE)
        except asyncio.TimeoutError:
            raise SnapshotError(f"git fast-import took longer than {DEADLINE:g} s.") from None

    async def blob(self, data: bytes) -> None:
        """Keep a content."""
        await self._feed(b"blob\ndata %d\n%b\n" % (len(data), data))

    async def snapshot(self, name: str, manifest: Mapping[str, Entry]) -> None:
        """Keep a manifest under a name, and finish.

        Raises:
            ObjectsMissingError: Contents it names are not there.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it says why on its way out
            await self._feed(_to_git(name, manifest))
        try:
            _, err = await asyncio.wait_for(communicate(self._process, b"done\n"), DEADLINE)
        except asyncio.TimeoutError:
            raise SnapshotError(f"git fast-import took longer than {DEADLINE:g} s.") from None
        if self._process.returncode:
            words = safe_str(err.decode(errors="replace")).strip()
            kind = ObjectsMissingError if "not found" in words else SnapshotError
            raise kind(f"git fast-import failed: {words.splitlines()[0] if words else 'no reason given'}")


def _to_git(name: str, manifest: Mapping[str, Entry]) -> bytes:
    """A commit that says all: the tree what git can express, the message the rest."""
    rest: dict[str, list[object]] = {}
    lines: list[bytes] = []
    for path, entry in manifest.items():
        mode = _git_mode(entry)
        if mode is None:
            rest[path] = [entry.kind, entry.mode, entry.content]
            continue
        lines.append(b"M %b %b %b\n" % (mode.encode(), entry.content.encode("ascii"), _quoted(path)))
        if _PLAIN[mode] != entry.mode:
            rest[path] = [entry.kind, entry.mode]
    message = json.dumps(rest, separators=(",", ":"), sort_keys=True).encode("ascii")
    head = f"commit {REFS}{name}\ncommitter {_COMMITTER}\ndata {len(message)}\n".encode("ascii")
    return head + message + b"\ndeleteall\n" + b"".join(lines) + b"\n"


def _git_mode(entry: Entry) -> str | None:
    if entry.kind == "link":
        return _LINK
    if entry.kind == "file":
        return _EXECUTABLE if entry.mode & 0o100 else _FILE
    return None


def _quoted(path: str) -> bytes:
    raw = os.fsencode(path)
    return b'"%b"' % b"".join(
        bytes([byte]) if 0x20 <= byte < 0x7F and byte not in b'"\\' else b"\\%03o" % byte for byte in raw
    )


def _from_git(listing: bytes, rest: dict[str, list[object]]) -> Manifest:
    manifest: Manifest = {}
    for row in listing.split(b"\0")[:-1]:
        about, _, raw = row.partition(b"\t")
        mode, _, content = about.decode("ascii").split()
        path = os.fsdecode(raw)
        special = rest.get(path)
        bits = _PLAIN[mode] if special is None else int(str(special[1]))
        manifest[path] = Entry("link" if mode == _LINK else "file", bits, content)
    for path, special in rest.items():
        if path not in manifest:
            kind: EntryKind = "folder" if special[0] == "folder" else "unkept"
            manifest[path] = Entry(kind, int(str(special[1])), str(special[2]))
    return manifest


def _kill(process: asyncio.subprocess.Process) -> None:
    """End git and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


async def _reaped(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, even while being cancelled: it is killed or has ended."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await waiting
        raise
