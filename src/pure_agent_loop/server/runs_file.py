"""The runs of a server, and what is kept of them on disk so that another process can go on.

A line for each change; the newest one of a run counts. At the start the file is written anew, without the
oldest runs that have ended. What runs used stands in lines of its own, so that it outlives them.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.durable.guard import Guard
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.locking import OPEN_FLAGS, try_lock

MOST_ENDED = 5_000
WORKING = ("pending", "running")
_KEPT = 24 * 3_600.0  # seconds that an idempotency key holds


@dataclass
class RunInfo:
    """A run, as it stands.

    Args:
        id: The session and the number of the event it began with: ``SESSION:NUMBER``.
        session: The session.
        agent: The name of the agent.
        owner: The name of the person who began it.
        task: What was asked.
        state: One of `pure_agent_loop.events.TASK_STATES`, or ``waiting_tool``.
        stop_reason: Why it ended or waits; empty before.
        content: The answer, once there is one.
        error: What went wrong, if something did.
        steps: Steps so far.
        tokens: Tokens so far.
        cost: What they cost, if the agent knows prices.
        attempt: How often it was begun or gone on with.
        created: When, in seconds since the epoch.
        updated: When its state changed last.
        key: The idempotency key it was begun with and what was asked, as two hashes with a colon between
            them; empty for none.
        durable: The id of the run in the engine; empty for one of this process.
    """

    id: str
    session: str
    agent: str
    owner: str
    task: str
    state: str = "running"
    stop_reason: str = ""
    content: str = ""
    error: str = ""
    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    attempt: int = 1
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    key: str = ""
    durable: str = ""

    @property
    def is_working(self) -> bool:
        """True if somebody works on it."""
        return self.state in WORKING

    @property
    def is_open(self) -> bool:
        """True if it has not ended."""
        return self.is_working or self.state in WAITING


@dataclass(eq=False)
class Live:
    """What a run has while this process works on it.

    Args:
        info: The run.
        media: Parts that came with the task.
        task: What works on it.
        asked: Questions of tools at work, which wait in memory.
        tell: Adds an event of the server itself.
    """

    info: RunInfo
    media: Sequence[Any] = ()
    token: CancelToken = field(default_factory=CancelToken)
    inbox: Inbox = field(default_factory=Inbox)
    guard: Guard = field(default_factory=Guard)
    task: asyncio.Task[None] | None = None
    asked: dict[str, tuple[PermissionRequest, asyncio.Future[Permission]]] = field(default_factory=dict)
    tell: Callable[[Mapping[str, Any]], object] = lambda _: None


LIVE: ContextVar[Live | None] = ContextVar("pure_agent_loop_live_run", default=None)  # of this task


class RunsFile:
    """The runs that a server knows, in memory and in a folder that only it may use.

    Args:
        folder: The folder.

    Raises:
        ConfigError: Another server uses it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "runs.jsonl"
        self._lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        if not try_lock(self._lock):
            os.close(self._lock)
            raise ConfigError(
                f"Another server works in {folder}. Give this one a folder of its own: folder= (--folder)."
            )
        self.sums: dict[tuple[str, str], tuple[int, int, float]] = {}
        self.folders: dict[str, str] = {}
        self.runs: dict[str, RunInfo] = self._read()
        self._by_session: dict[str, list[RunInfo]] = defaultdict(list)
        for each in self.runs.values():
            self._by_session[each.session].append(each)
        self._by_key = {_place(each): each for each in self.runs.values() if each.key}
        self._file = self._rewritten()

    def _read(self) -> dict[str, RunInfo]:
        found: dict[str, RunInfo] = {}
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            try:
                about = json.loads(line)
                if "used" in about:
                    self._add_up(*about["used"])
                    continue
                if "folder" in about:
                    self._put_in_folder(*about["folder"])
                    continue
                info = RunInfo(**about)
            except (ValueError, TypeError):
                continue  # torn when the process was killed
            found.pop(info.id, None)
            found[info.id] = info
        ended = [each.id for each in found.values() if not each.is_open]
        for run_id in ended[: max(0, len(ended) - MOST_ENDED)]:
            del found[run_id]
        return found

    def _rewritten(self) -> Any:
        new = self._path.with_suffix(".new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_FLAGS, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.writelines(_line(each) for each in self.runs.values())
            file.writelines(_other("used", *name, *used) for name, used in self.sums.items())
            file.writelines(_other("folder", *each) for each in self.folders.items())
        new.replace(self._path)
        return self._path.open("ab", buffering=0)

    def put(self, info: RunInfo) -> None:
        """Keep a run as it stands now.

        Raises:
            OSError: It cannot be written.
        """
        info.updated = time.time()
        self._file.write(_line(info))
        if info.id not in self.runs:
            self._by_session[info.session].append(info)
        self.runs[info.id] = info
        if info.key:
            self._by_key[_place(info)] = info
        if len(self.runs) > 2 * MOST_ENDED:
            self._forget()

    def add_up(self, info: RunInfo) -> None:
        """Keep what a run used that has ended.

        Raises:
            OSError: It cannot be written.
        """
        used = (info.agent, info.owner, 1, info.tokens, info.cost)
        self._add_up(*used)
        self._file.write(_other("used", *used))

    def put_in_folder(self, session: str, folder: str) -> None:
        """Keep in which folder a session is; empty for none.

        Raises:
            OSError: It cannot be written.
        """
        self._put_in_folder(session, folder)
        self._file.write(_other("folder", session, folder))

    def _put_in_folder(self, session: str, folder: str) -> None:
        if folder:
            self.folders[session] = folder
        else:
            self.folders.pop(session, None)

    def _add_up(self, agent: str, owner: str, runs: int, tokens: int, cost: float) -> None:
        before = self.sums.get((agent, owner), (0, 0, 0.0))
        self.sums[agent, owner] = (before[0] + runs, before[1] + tokens, before[2] + cost)

    def begun_with(self, place: str) -> RunInfo | None:
        """The run that was begun with an idempotency key, within a day.

        Args:
            place: The part of it before the colon.
        """
        found = self._by_key.get(place)
        return found if found is not None and time.time() - found.created < _KEPT else None

    def of_session(self, session: str) -> list[RunInfo]:
        """The runs of a session, oldest first."""
        return list(self._by_session.get(session, ()))

    def forget_session(self, session: str) -> None:
        """A session was deleted."""
        self._drop(self.of_session(session))
        self.folders.pop(session, None)
        self._file.close()
        self._file = self._rewritten()

    def _forget(self) -> None:
        ended = [each for each in self.runs.values() if not each.is_open]
        self._drop(ended[:-MOST_ENDED])

    def _drop(self, runs: Iterable[RunInfo]) -> None:
        for each in runs:
            self.runs.pop(each.id, None)
            self._by_key.pop(_place(each), None)
            left = self._by_session[each.session]
            left.remove(each)
            if not left:
                del self._by_session[each.session]

    def close(self) -> None:
        """Let another server use the folder."""
        self._file.close()
        os.close(self._lock)


def _place(info: RunInfo) -> str:
    return info.key.partition(":")[0]


def _other(kind: str, *values: str | float) -> bytes:
    return json.dumps({kind: values}, separators=(",", ":")).encode() + b"\n"


def _line(info: RunInfo) -> bytes:
    return json.dumps(asdict(info), separators=(",", ":")).encode() + b"\n"
