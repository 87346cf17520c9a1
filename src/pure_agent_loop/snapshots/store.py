"""Where contents and manifests are kept; and the plain store, for machines without git."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.snapshots.values import (
    Entry,
    Manifest,
    ObjectsMissingError,
    SnapshotError,
    manifest_from_json,
    manifest_to_json,
)
from pure_agent_loop.support.paths import private_folder
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.support.writer_lock import take_lock

DEADLINE = 120.0  # seconds for one thing that a store does
_LOCK_PAUSE = 0.02
T = TypeVar("T")


class Writer(Protocol):
    """A store that is being written to."""

    async def blob(self, content: str, data: bytes) -> None:
        """Keep a content.

        Args:
            content: Its id.
            data: It.
        """
        ...

    async def snapshot(self, name: str, manifest: Mapping[str, Entry]) -> None:
        """Keep a manifest, and finish.

        Args:
            name: Its name.
            manifest: It.

        Raises:
            ObjectsMissingError: Contents it names are not there.
        """
        ...


class Store(Protocol):
    """Keeps contents and manifests. All its writing happens under one lock."""

    def content_id(self, data: bytes) -> str:
        """The id of a content."""
        ...

    async def has(self, name: str) -> bool:
        """True if there is a snapshot of that name."""
        ...

    def writing(self) -> contextlib.AbstractAsyncContextManager[Writer]:
        """Begin to write; other writers wait."""
        ...

    async def manifest(self, name: str) -> Manifest:
        """Read a snapshot.

        Raises:
            ObjectsMissingError: There is none.
        """
        ...

    def contents(self, ids: Iterable[str]) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read contents, in the given order.

        Raises:
            ObjectsMissingError: One is not there.
        """
        ...

    async def prune(self, keep: frozenset[str]) -> int:
        """Forget all other snapshots, and the contents that only they need. Returns how many snapshots."""
        ...


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
    temporary = path.with_name(f"tmp-{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class CopyStore:
    """Contents as files named by their SHA-256.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)
        self._objects = private_folder(folder / "objects")
        self._snapshots = private_folder(folder / "snapshots")

    def content_id(self, data: bytes) -> str:
        """The id of a content."""
        return hashlib.sha256(data).hexdigest()

    def _object(self, content: str) -> Path:
        return self._objects / content[:2] / content[2:]

    async def has(self, name: str) -> bool:
        """True if there is a snapshot of that name."""
        return (self._snapshots / name).exists()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Writer]:
        """Begin to write; other writers wait."""
        async with locked(self.folder):
            yield _CopyWriter(self._object, self._snapshots)

    async def manifest(self, name: str) -> Manifest:
        """Read a snapshot.

        Raises:
            ObjectsMissingError: There is none.
        """
        try:
            return await in_thread(
                lambda: manifest_from_json(zlib.decompress((self._snapshots / name).read_bytes()))
            )
        except (OSError, ValueError, zlib.error) as error:
            raise ObjectsMissingError("That snapshot is no longer kept.") from error

    @contextlib.asynccontextmanager
    async def contents(self, ids: Iterable[str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read contents, in the given order."""
        yield self._each(ids)

    async def _each(self, ids: Iterable[str]) -> AsyncIterator[bytes]:
        try:
            for each in ids:
                yield await in_thread(self._object(each).read_bytes)
        except OSError as error:
            raise ObjectsMissingError("A content of that snapshot is no longer kept.") from error

    async def prune(self, keep: frozenset[str]) -> int:
        """Forget all other snapshots, and the contents that only they need."""
        async with locked(self.folder):
            return await in_thread(lambda: self._prune(keep))

    def _prune(self, keep: frozenset[str]) -> int:
        gone, used = 0, set()
        for path in self._snapshots.iterdir():
            if path.name in keep:
                used |= {e.content for e in manifest_from_json(zlib.decompress(path.read_bytes())).values()}
            else:
                path.unlink()
                gone += not path.name.startswith("tmp-")
        for path in self._objects.glob("*/*"):
            if path.parent.name + path.name not in used:
                path.unlink()
        return gone


class _CopyWriter:
    def __init__(self, place: Callable[[str], Path], snapshots: Path) -> None:
        self._place = place
        self._snapshots = snapshots

    async def blob(self, content: str, data: bytes) -> None:
        path = self._place(content)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            await in_thread(lambda: write_whole(path, data))

    async def snapshot(self, name: str, manifest: Mapping[str, Entry]) -> None:
        def write() -> None:
            needed = {entry.content for entry in manifest.values() if entry.kind in ("file", "link")}
            if not all(self._place(content).exists() for content in needed):
                raise ObjectsMissingError("Contents are no longer kept.")
            write_whole(self._snapshots / name, zlib.compress(manifest_to_json(manifest)))

        await in_thread(write)
