"""Remember each file's state at the model's last read or write, because the user may change the file.

The states belong to the model's history: those of a session are kept on disk, and those of a run without a
session end with the run. Outside of runs, and where each call is a separate run, they belong to the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.tool_context import current_call, current_run, memory_owner

# Maximum size of a file compared by hash; larger files are compared by size and date.
MAX_HASHED_BYTES = 10_000_000
MAX_FILES = 1_000  # maximum files per session; the oldest are dropped first
MAX_TEXTS, MAX_TEXT_BYTES = 100, 100_000  # limits of the file contents kept in memory to show what changed
_KEEP_SECONDS = 30 * 86_400.0

ABSENT = ""
_Rows = dict[str, str]


def state_of(data: bytes, status: os.stat_result) -> str:
    """Return the state of a file: a hash of its content, so that a new time alone does not count as a change.

    Args:
        data: The content, read up to one byte over `MAX_HASHED_BYTES`.
        status: The status of the file, used instead of content that is longer.
    """
    too_long = len(data) > MAX_HASHED_BYTES
    return f"{status.st_size}-{status.st_mtime_ns}" if too_long else written_state(data)


def written_state(data: bytes) -> str:
    """Return the state of a file with this content."""
    return f"{len(data)}-{hashlib.sha256(data).hexdigest()}"


def size_of(state: str) -> int:
    """Return the file size in bytes that a state contains."""
    return int(state.partition("-")[0])


class KnownFiles:
    """The states that the model has seen of one workspace's files."""

    def __init__(self, root: Path) -> None:
        self.is_readable = False
        """True once the workspace has tools that read files."""
        self._folder = hashlib.sha256(os.fsencode(root)).hexdigest()[:24]
        self._process: _Rows = {}
        self._runs: WeakKeyDictionary[Any, _Rows] = WeakKeyDictionary()
        self._by_call: _Rows = {}  # states by call id, so that a run that continues the history finds them
        self._texts: dict[str, bytes] = {}

    @property
    def has_reader(self) -> bool:
        """True if the model has a tool to read files."""
        run = None if memory_owner() is None else current_run().run
        return self.is_readable if run is None else run.has_tool("read_file")

    def note(self, path: str, state: str, data: bytes) -> None:
        """Record that the model has read or written a file.

        Args:
            path: Relative to the workspace, with slashes.
            state: See `state_of`.
        """
        if len(data) <= MAX_TEXT_BYTES:
            put_bounded(self._texts, state, data, MAX_TEXTS)
        call = current_call()
        if call is not None:
            put_bounded(self._by_call, f"{call.call_id}:{path}", state, MAX_FILES)
        self._keep(path, state)

    def note_change(self, path: str, before: str, after: str) -> None:
        """Record a change by the model: pending questions about the old state now refer to the new one."""
        for key, state in list(self._rows().items()):
            if key.startswith(f"?{path}?") and state == before:
                self._keep(key, after)

    def note_question(self, path: str, texts: Sequence[str], state: str) -> None:
        """Record that a person is being asked about a call that would change a file.

        Args:
            path: Relative to the workspace, with slashes.
            state: The state of the file; `ABSENT` if missing.
        """
        self._keep(_question_key(path, texts), state)

    def state(self, path: str) -> str | None:
        """Return the state at the model's last read or write; None if there was none."""
        state = self._rows().get(path)
        return self._state_in_history(path) if state is None else state

    def take_question(self, path: str, texts: Sequence[str]) -> str | None:
        """Remove and return the state recorded when a person was asked about this call, or None."""
        key = _question_key(path, texts)
        state = self._rows().get(key)
        if state is not None:
            self._keep(key, None)
        return state

    def text(self, state: str) -> bytes | None:
        """Return the file content for a state, if it was kept."""
        return self._texts.get(state)

    def _state_in_history(self, path: str) -> str | None:
        """Find a state in the run's history, which may come from another run in this process."""
        own = current_call()  # skip this call: it has no state yet, and another run may have used its id
        with suppress(ConfigError):  # raised outside of a run
            for message in reversed(current_run().messages):
                for call in message.get("tool_calls") or ():
                    state = self._by_call.get(f"{call['id']}:{path}")
                    is_own = own is not None and own.call_id == call["id"]
                    if state is not None and not is_own and path.rpartition("/")[2] in str(call):
                        return state
        return None

    def _rows(self) -> _Rows:
        owner = memory_owner()
        if owner is None:
            return self._process
        if isinstance(owner, str):
            with suppress(OSError, ValueError):
                rows = read_json(self._file(owner).read_bytes())
                return {str(path): str(state) for path, state in rows.items()}
            return {}
        return self._runs.setdefault(owner, {})

    def _keep(self, path: str, state: str | None) -> None:
        rows, owner = self._rows(), memory_owner()
        if rows.get(path) == state:
            return
        if state is None:
            del rows[path]
        else:
            put_bounded(rows, path, state, MAX_FILES)
        if isinstance(owner, str):
            with suppress(OSError):  # then the state will be lost on restart
                self._save(self._file(owner), rows)

    def _file(self, session_id: str) -> Path:
        name = hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:24]
        return data_folder() / "known-files" / self._folder / f"{name}.json"

    def _save(self, path: Path, rows: _Rows) -> None:
        if not path.exists():
            private_folder(path.parent.parent)
            for old in private_folder(path.parent).iterdir():
                if time.time() - old.stat().st_mtime > _KEEP_SECONDS:
                    old.unlink()
        write_whole(path, json.dumps(rows).encode("ascii"))


def _question_key(path: str, texts: Sequence[str]) -> str:
    return f"?{path}?{hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()}"
