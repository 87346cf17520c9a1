"""Runs of a server, persisted so that the next process can resume them.

``runs.jsonl`` gets a line per change; only a run's newest line is used. Each start rewrites the file without
the oldest ended runs. Usage totals are in separate lines, which are kept longer than the runs.
"""

from __future__ import annotations

import asyncio
import hashlib
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
from pure_agent_loop.durable.attempt import Guard
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.server.labels import RUNS_FILE, read_labels
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import OPEN_FLAGS, try_lock, write_whole
from pure_agent_loop.support.parsing import read_json

MAX_ENDED = 5_000
WORKING = ("pending", "running")
_KEY_SECONDS = 24 * 3_600.0  # lifetime of an idempotency key
CURRENT_RUN: ContextVar[ActiveRun | None] = ContextVar("pure_agent_loop_live_run", default=None)


@dataclass
class RunInfo:
    """The current state of a run.

    Args:
        id: The session and the number of the run's first event: ``SESSION:NUMBER``.
        session: The session's id.
        owner: The name of the person who started the run.
        state: One of `pure_agent_loop.durable.TASK_STATES`.
        stop_reason: Why the run ended or suspended; empty while it is running.
        content: The answer, if any.
        error: The error, if any.
        cost: Cost so far; None if it is unknown.
        attempt: Number of times the run has been started or resumed.
        created: Start time in seconds since the epoch.
        updated: Time of the last change in seconds since the epoch.
        key: Hashes of the idempotency key and of the request, separated by a colon; empty for none.
        durable: The run's id in the engine; empty for a run in this process.
        model: The model chosen for the run; empty for the agent's own.
        shown: The task as viewers see it, if different.
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
    cost: float | None = 0.0
    attempt: int = 1
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    key: str = ""
    durable: str = ""
    model: str = ""
    shown: str = ""

    @property
    def is_working(self) -> bool:
        """True if the run is pending or running."""
        return self.state in WORKING

    @property
    def is_open(self) -> bool:
        """True if the run has not ended."""
        return self.is_working or self.state in WAITING


@dataclass(eq=False)
class ActiveRun:
    """A run that this process executes.

    Args:
        asked: Pending questions from running tools, by call id; kept in memory only.
        settled: Answers to questions from running tools, by call id: person, permission, time.
    """

    info: RunInfo
    media: Sequence[Any] = ()
    token: CancelToken = field(default_factory=CancelToken)
    inbox: Inbox = field(default_factory=Inbox)
    guard: Guard = field(default_factory=Guard)
    task: asyncio.Task[None] | None = None
    asked: dict[str, tuple[PermissionRequest, asyncio.Future[Permission]]] = field(default_factory=dict)
    settled: dict[str, tuple[str, Permission, float]] = field(default_factory=dict)
    emit: Callable[[Mapping[str, Any]], object] = lambda _: None


class RunsFile:
    """All runs of a server, in memory and in its private folder.

    Raises:
        ConfigError: Another server is using the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / RUNS_FILE
        self._lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        if not try_lock(self._lock):
            os.close(self._lock)
            raise ConfigError(notice("library.server_folder", folder=str(folder)))
        # Runs, tokens and known cost of all ended runs, by agent and person.
        self.totals: dict[tuple[str, str], tuple[int, int, float]] = {}
        # Names, folders, pins and origins of sessions: kind -> session id -> text.
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        self.labels = read_labels(lines)
        self.runs = self._read(lines)
        self._by_session: dict[str, list[RunInfo]] = defaultdict(list)
        for info in self.runs.values():
            self._by_session[info.session].append(info)
        self._by_key = {_key_hash(info): info for info in self.runs.values() if info.key}
        self._file = self._rewrite()

    def _read(self, lines: Sequence[bytes]) -> dict[str, RunInfo]:
        runs: dict[str, RunInfo] = {}
        for line in lines:
            try:
                fields = read_json(line)
                if "used" in fields:
                    self._add_totals(*fields["used"])
                    continue
                info = RunInfo(**fields)
            except (ValueError, TypeError):
                continue  # a label, or a line cut off when the process was killed
            runs.pop(info.id, None)
            runs[info.id] = info
        ended = [info.id for info in runs.values() if not info.is_open]
        for run_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del runs[run_id]
        return runs

    def _rewrite(self) -> Any:
        lines = [_run_line(info) for info in self.runs.values()]
        lines += [_line("used", *key, *usage) for key, usage in self.totals.items()]
        for kind, labels in self.labels.items():
            lines += [_line(kind, *item) for item in labels.items()]
        write_whole(self._path, b"".join(lines))
        return self._path.open("ab", buffering=0)

    def put(self, info: RunInfo) -> None:
        """Save a run's current state.

        Raises:
            OSError: The file cannot be written.
        """
        info.updated = time.time()
        self._file.write(_run_line(info))
        if info.id not in self.runs:
            self._by_session[info.session].append(info)
        self.runs[info.id] = info
        if info.key:
            self._by_key[_key_hash(info)] = info
        if len(self.runs) > 2 * MAX_ENDED:
            ended = [info for info in self.runs.values() if not info.is_open]
            self._drop(ended[:-MAX_ENDED])  # the oldest

    def keep_media(self, info: RunInfo, media: Sequence[Any]) -> None:
        """Save a task's media until the run ends: the process may die before they are in the session.

        Raises:
            OSError: The file cannot be written.
        """
        if media:
            private_folder(self._media(info).parent)
            write_whole(self._media(info), json.dumps(list(media)).encode())

    def media_of(self, info: RunInfo) -> list[Any]:
        """Return the saved media of a run's task."""
        path = self._media(info)
        return list(read_json(path.read_bytes())) if path.exists() else []

    def drop_media(self, info: RunInfo) -> None:
        """Delete the saved media of a run."""
        self._media(info).unlink(missing_ok=True)

    def _media(self, info: RunInfo) -> Path:
        return self._path.parent / "media" / f"{hashlib.sha256(info.id.encode()).hexdigest()}.json"

    def add_totals(self, info: RunInfo) -> None:
        """Add the usage of an ended run to the totals.

        Raises:
            OSError: The file cannot be written.
        """
        used = (info.agent, info.owner, 1, info.tokens, info.cost or 0.0)
        self._add_totals(*used)
        self._file.write(_line("used", *used))

    def label(self, kind: str, session: str, text: str) -> None:
        """Set or remove a label of a session.

        Args:
            kind: One of `LABELS`.
            text: The label; empty to remove it.

        Raises:
            OSError: The file cannot be written.
        """
        if text:
            self.labels[kind][session] = text
        else:
            self.labels[kind].pop(session, None)
        self._file.write(_line(kind, session, text))

    def _add_totals(self, agent: str, owner: str, runs: int, tokens: int, cost: float) -> None:
        before = self.totals.get((agent, owner), (0, 0, 0.0))
        self.totals[agent, owner] = (before[0] + runs, before[1] + tokens, before[2] + cost)

    def find_by_key(self, key_hash: str) -> RunInfo | None:
        """Return the run started with an idempotency key in the last 24 hours.

        Args:
            key_hash: The part of `RunInfo.key` before the colon.
        """
        info = self._by_key.get(key_hash)
        return info if info is not None and time.time() - info.created < _KEY_SECONDS else None

    def of_session(self, session: str) -> list[RunInfo]:
        """Return the runs of a session, oldest first."""
        return list(self._by_session.get(session, ()))

    def forget_session(self, session: str) -> None:
        """Remove the runs and labels of a deleted session."""
        self._drop(self.of_session(session))
        for labels in self.labels.values():
            labels.pop(session, None)
        self._file.close()
        self._file = self._rewrite()

    def _drop(self, runs: Iterable[RunInfo]) -> None:
        for info in runs:
            self.runs.pop(info.id, None)
            self._by_key.pop(_key_hash(info), None)
            siblings = self._by_session[info.session]
            siblings.remove(info)
            if not siblings:
                del self._by_session[info.session]

    def close(self) -> None:
        """Close the file and release the folder's lock."""
        self._file.close()
        os.close(self._lock)


def _key_hash(info: RunInfo) -> str:
    return info.key.partition(":")[0]


def _line(kind: str, *values: str | float) -> bytes:
    return json.dumps({kind: values}, separators=(",", ":")).encode() + b"\n"


def _run_line(info: RunInfo) -> bytes:
    return json.dumps(asdict(info), separators=(",", ":")).encode() + b"\n"
