"""Take a snapshot: scan the workspace, store new contents, and name the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pure_agent_loop.snapshots.scan import (
    KnownFile,
    Scanner,
    ScanResult,
    ScanRules,
    batches,
    birth_ns,
    kept_entry,
    signature,
    unkept_entry,
)
from pure_agent_loop.snapshots.store import Store, Writer
from pure_agent_loop.snapshots.values import (
    Manifest,
    ObjectsMissingError,
    PathEntry,
    SnapshotError,
    manifest_name,
)
from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.support.threads import in_thread

BATCH_BYTES, BATCH_FILES = 16 << 20, 256
REMEMBERED = 4  # manifests kept in memory


@dataclass(frozen=True, slots=True)
class ScanScope:
    """Scope of a scan that uses earlier rules or covers only some paths.

    Args:
        only: Paths to scan, whatever the rules are.
        since: Start time of the scan, in seconds since 1970.
    """

    view: ScanRules | None = None
    only: Collection[str] | None = None
    before: Manifest | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that was taken.

    Args:
        scope: The scope of the scan; a later snapshot can use the same scope.
    """

    scope: ScanScope
    name: str
    manifest: Manifest
    scan: ScanResult


@dataclass(frozen=True, slots=True)
class _Read:
    path: str
    entry: PathEntry
    known: KnownFile | None
    data: bytes


class SnapshotTaker:
    """Takes snapshots of one workspace.

    Args:
        memory: File that caches the ids of file contents, with the signatures of the files.
    """

    def __init__(self, scanner: Scanner, store: Store, memory: Path) -> None:
        self._scanner = scanner
        self._store = store
        self._memory = memory
        self._known: dict[str, KnownFile] | None = None
        self._manifests: dict[str, Manifest] = {}
        self._loop_lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def take(self, scope: ScanScope = ScanScope()) -> Snapshot:
        """Take a snapshot.

        Raises:
            SnapshotError: The snapshot cannot be taken.
        """
        async with self._own_lock():
            if self._known is None:
                self._known = await in_thread(lambda: _load(self._memory))
            try:
                return await self._take(self._known, scope)
            except ObjectsMissingError:  # pruned by another process: the cache is out of date
                return await self._take({}, scope)
            except OSError as error:
                raise SnapshotError(
                    notice("library.snapshot_not_stored", error=error.strerror or error)
                ) from error

    async def manifest(self, name: str) -> Manifest:
        """Return the manifest of a snapshot.

        Raises:
            SnapshotError: The snapshot is no longer stored.
        """
        if name not in self._manifests:
            put_bounded(self._manifests, name, await self._store.manifest(name), REMEMBERED)
        return self._manifests[name]

    def forget(self) -> None:
        """Clear the cache, so that the next snapshot reads every file."""
        self._known = None
        self._manifests.clear()
        self._memory.unlink(missing_ok=True)

    def _own_lock(self) -> asyncio.Lock:
        """Return a lock for the running event loop; this object may be used in one loop after another."""
        loop = asyncio.get_running_loop()
        if self._loop_lock is None or self._loop_lock[0] is not loop:
            self._loop_lock = loop, asyncio.Lock()
        return self._loop_lock[1]

    async def _take(self, known: dict[str, KnownFile], scope: ScanScope) -> Snapshot:
        scan = await in_thread(lambda: self._scanner.scan(known, scope.view, scope.only))
        new_known: dict[str, KnownFile] = {}
        async with contextlib.AsyncExitStack() as stack:
            writer: Writer | None = None
            stored = {known_file.content for known_file in known.values()}
            async for read in self._contents(scan):
                if read.known is not None:
                    new_known[read.path] = read.known
                    if read.entry.content not in stored:
                        if writer is None:
                            writer = await stack.enter_async_context(self._store.writing())
                        await writer.blob(read.data)
                        stored.add(read.entry.content)
                scan.manifest[read.path] = read.entry
            if scope.before is not None:
                await in_thread(partial(self._mark_moved, scan, known, scope, scope.before))
            manifest = scan.manifest
            same_names = [name for name, other in self._manifests.items() if other == manifest]
            name = same_names[0] if same_names else await in_thread(lambda: manifest_name(manifest))
            if not self._store.has(name):
                if writer is None:
                    writer = await stack.enter_async_context(self._store.writing())
                await writer.snapshot(name, manifest)
        await self._keep_known(known, new_known, scan)
        put_bounded(self._manifests, name, manifest, REMEMBERED)
        return Snapshot(scope, name, manifest, scan)

    def _mark_moved(
        self, scan: ScanResult, known: dict[str, KnownFile], scope: ScanScope, before: Manifest
    ) -> None:
        """Mark files that are older than the step but were not in the scan before it.

        Such a file may be the only copy of something that was moved from an ignored path.
        """
        seen = {file.signature[3] for file in known.values()}
        for path, entry in scan.manifest.items():
            old = before.get(path)
            if entry == old or entry.kind not in ("file", "unkept") or scan.signatures[path][3] in seen:
                continue
            if path in scan.links or (old is not None and path not in known):
                continue
            with contextlib.suppress(OSError):
                if birth_ns(self._scanner.root / path) <= scope.since * 1e9:
                    scan.manifest[path] = PathEntry("moved", entry.mode)

    async def _contents(self, scan: ScanResult) -> AsyncIterator[_Read]:
        sized = [(path, status.st_size) for path, status in scan.unread.items()]
        for group in batches(sized, BATCH_BYTES, BATCH_FILES):
            for file in await in_thread(partial(self._read, scan, group)):
                yield file

    def _read(self, scan: ScanResult, paths: Sequence[str]) -> list[_Read]:
        files = []
        for path in paths:
            read_ns = time.time_ns()  # comparable with file times
            try:
                content = self._scanner.read(path, scan.view.max_file_bytes)
            except OSError as error:
                scan.left_out.append(f"{quoted_path(path)} ({error.strerror})")
                files.append(_Read(path, unkept_entry(scan.unread[path]), None, b""))
                continue
            if content is None:  # the file was removed or has grown in the meantime
                scan.signatures.pop(path, None)
                continue
            data, status = content
            entry = kept_entry(status, self._store.content_id(data))
            scan.signatures[path] = signature(status)
            files.append(_Read(path, entry, KnownFile(signature(status), read_ns, entry.content), data))
        return files

    async def _keep_known(
        self, known: dict[str, KnownFile], new_known: dict[str, KnownFile], scan: ScanResult
    ) -> None:
        removed = known.keys() - scan.signatures.keys() if scan.only is None else set()
        if self._known is known and not new_known and not removed:
            return
        kept = {path: file for path, file in known.items() if path not in removed}
        self._known = merged = {**kept, **new_known}
        with contextlib.suppress(OSError):  # only a cache
            await in_thread(lambda: _save(self._memory, merged))


def _load(path: Path) -> dict[str, KnownFile]:
    try:
        rows = read_json(path.read_bytes())
        return {row[0]: KnownFile((row[1], row[2], row[3], row[4], row[5]), row[6], row[7]) for row in rows}
    except (OSError, ValueError, TypeError, IndexError):
        return {}


def _save(path: Path, known: dict[str, KnownFile]) -> None:
    rows = [[name, *file.signature, file.read_ns, file.content] for name, file in known.items()]
    write_whole(path, json.dumps(rows, separators=(",", ":")).encode("ascii"))
