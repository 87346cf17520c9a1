"""A workspace, snapshots of it, and ways to look at both."""

from __future__ import annotations

import asyncio
import hashlib
import stat
import sys
from pathlib import Path

import pytest

from pure_agent_loop.snapshots import WorkspaceSnapshots


def tree(root: Path) -> dict[str, tuple]:
    """Everything below a folder: kind, permission bits, content."""
    found = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("folder",)
        else:
            found[name] = ("file", oct(stat.S_IMODE(status.st_mode)), path.read_bytes())
    return found


def digest(root: Path) -> str:
    return hashlib.sha256(repr(tree(root)).encode()).hexdigest()


class Lab:
    """A workspace with snapshots; each call is an event loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.store = folder / "work", folder / "store"
        self.root.mkdir(parents=True)
        self.shots = self.fresh()

    def fresh(self, **options) -> WorkspaceSnapshots:
        """As another process would see it."""
        return WorkspaceSnapshots(self.root, store=self.store, **options)

    def step(self, number: int, act, session: str = "s"):
        """A step in which `act` happens."""

        async def run():
            await self.shots.before(session, number)
            act()
            return await self.shots.after(session, number)

        return asyncio.run(run())

    def undo(self, session: str = "s", **options):
        return asyncio.run(self.shots.undo(session, **options))

    def redo(self, session: str = "s", **options):
        return asyncio.run(self.shots.redo(session, **options))

    def write(self, name: str, data: str | bytes = "text\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def read(self, name: str) -> str:
        return (self.root / name).read_text()


@pytest.fixture
def lab(tmp_path) -> Lab:
    return Lab(tmp_path)


posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and modes")
