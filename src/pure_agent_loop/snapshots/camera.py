"""Taking a snapshot: look at the workspace, keep what is new, give it a name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pure_agent_loop.snapshots.scan import Known, Look, Scanner, batches, signature
from pure_agent_loop.snapshots.store import Store, Writer, in_thread, write_whole
from pure_agent_loop.snapshots.values import (
    Entry,
    Manifest,
    ObjectsMissingError,
    SnapshotError,
    manifest_name,
    shown_path,
)

BATCH_BYTES, BATCH_FILES = 16 << 20, 256
REMEMBERED = 4  # manifests held in memory


@dataclass(frozen=True, slots=True)
class Picture:
    """A snapshot that was taken.

    Args:
        name: Its name in the store.
        manifest: What was there.
        look: What was seen on the way.
    """

    name: str
    manifest: Manifest
    look: Look


@dataclass(frozen=True, slots=True)
class _Read:
    path: str
    entry: Entry
    known: Known | None
    data: bytes


class Camera:
    """Takes snapshots of one workspace.

    Args:
        scanner: Looks at it.
        store: Keeps what it sees.
        memory: The file in which is kept what every file was when it was read last.
    """

    def __init__(self, scanner: Scanner, store: Store, memory: Path) -> None:
        self._scanner = scanner
        self._store = store
        self._memory = memory
        self._known: dict[str, Known] | None = None
        self._manifests: dict[str, Manifest] = {}
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def take(self) -> Picture:
        """Take a snapshot.

        Raises:
            SnapshotError: It cannot be taken.
        """
        async with self._my_turn():
            if self._known is None:
                self._known = await in_thread(lambda: _load(self._memory))
            try:
                return await self._take(self._known)
            except ObjectsMissingError:  # somebody has pruned what we thought was kept
                return await self._take({})
            except OSError as error:
                raise SnapshotError(f"The snapshot cannot be kept: {error.strerror or error}.") from error

    async def has(self, name: str) -> bool:
        """True if there is a snapshot of that name."""
        return await self._store.has(name)

    async def manifest(self, name: str) -> Manifest:
        """What was there.

        Raises:
            SnapshotError: It is no longer kept.
        """
        if name not in self._manifests:
            self._remember(name, await self._store.manifest(name))
        return self._manifests[name]

    def forget(self) -> None:
        """Read everything again the next time."""
        self._known = None
        self._manifests.clear()
        self._memory.unlink(missing_ok=True)

    def _my_turn(self) -> asyncio.Lock:
        """One at a time; the object may be used in one event loop after another."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    def _remember(self, name: str, manifest: Manifest) -> None:
        self._manifests.pop(name, None)
        self._manifests[name] = manifest
        while len(self._manifests) > REMEMBERED:
            del self._manifests[next(iter(self._manifests))]

    async def _take(self, known: dict[str, Known]) -> Picture:
        look = await in_thread(lambda: self._scanner.look(known))
        fresh: dict[str, Known] = {}
        async with contextlib.AsyncExitStack() as stack:
            writer: Writer | None = None
            stored = {each.content for each in known.values()}
            async for found in self._contents(look):
                if found.known is not None:
                    fresh[found.path] = found.known
                    if found.entry.content not in stored:
                        if writer is None:
                            writer = await stack.enter_async_context(self._store.writing())
                        await writer.blob(found.data)
                        stored.add(found.entry.content)
                look.manifest[found.path] = found.entry
            manifest = look.manifest
            same = [each for each, known_one in self._manifests.items() if known_one == manifest]
            name = same[0] if same else await in_thread(lambda: manifest_name(manifest))
            if not await self._store.has(name):
                if writer is None:
                    writer = await stack.enter_async_context(self._store.writing())
                await writer.snapshot(name, manifest)
        await self._keep_known(known, fresh, look)
        self._remember(name, manifest)
        return Picture(name, manifest, look)

    async def _contents(self, look: Look) -> AsyncIterator[_Read]:
        sized = [(path, status.st_size) for path, status in look.unread.items()]
        for group in batches(sized, BATCH_BYTES, BATCH_FILES):
            for found in await in_thread(partial(self._read, look, group)):
                yield found

    def _read(self, look: Look, paths: Sequence[str]) -> list[_Read]:
        found = []
        for path in paths:
            read_ns = time.time_ns()  # as file systems tell it
            try:
                content = self._scanner.read(path)
            except OSError as error:
                look.left_out.append(f"{shown_path(path)} ({error.strerror})")
                found.append(_Read(path, _unread(look.unread[path]), None, b""))
                continue
            if content is None:  # gone or grown meanwhile
                look.signatures.pop(path, None)
                continue
            data, status = content
            is_link = stat.S_ISLNK(status.st_mode)
            mode = 0o777 if is_link else stat.S_IMODE(status.st_mode)
            entry = Entry("link" if is_link else "file", mode, self._store.content_id(data))
            look.signatures[path] = signature(status)
            found.append(_Read(path, entry, Known(signature(status), read_ns, entry.content), data))
        return found

    async def _keep_known(self, known: dict[str, Known], fresh: dict[str, Known], look: Look) -> None:
        gone = known.keys() - look.signatures.keys()
        if self._known is known and not fresh and not gone:
            return
        merged = {**{path: each for path, each in known.items() if path not in gone}, **fresh}
        self._known = merged
        with contextlib.suppress(OSError):  # it only saves time
            await in_thread(lambda: _save(self._memory, merged))


def _unread(status: os.stat_result) -> Entry:
    mode = stat.S_IMODE(status.st_mode)
    return Entry("unkept", mode, f"{status.st_size}-{status.st_mtime_ns}")


def _load(path: Path) -> dict[str, Known]:
    try:
        rows = json.loads(path.read_bytes())
        return {row[0]: Known((row[1], row[2], row[3], row[4], row[5]), row[6], row[7]) for row in rows}
    except (OSError, ValueError, TypeError, IndexError):
        return {}


def _save(path: Path, known: dict[str, Known]) -> None:
    rows = [[name, *each.signature, each.read_ns, each.content] for name, each in known.items()]
    write_whole(path, json.dumps(rows, separators=(",", ":")).encode("ascii"))
