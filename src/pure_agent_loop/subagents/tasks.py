"""Task records, stored as files.

<id>.json   the record, replaced atomically
<id>.txt    the full answer
<id>.lock   held by the process that is running the task, so that its death is noticed
<id>.kill   request to stop the task
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, PureAgentLoopError, SessionWriteError
from pure_agent_loop.events import TaskState
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.locking import SessionLock, is_locked, take_lock, write_whole
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import PlainForm, safe_str

if TYPE_CHECKING:
    from typing_extensions import Self

    from pure_agent_loop.llm.message_types import HistoryMessage

ENDED = frozenset({"completed", "failed", "cancelled", "killed"})
_STOPPED = frozenset({"failed", "cancelled", "killed"})
# Allowed transitions. A task that has ended or needs a permission can be resumed, which makes it pending.
TRANSITIONS: dict[str, frozenset[str]] = {
    "pending": frozenset({"running", "backgrounded"}) | _STOPPED,
    "running": frozenset({"waiting_permission", "backgrounded", "completed"}) | _STOPPED,
    "backgrounded": frozenset({"waiting_permission", "running", "completed"}) | _STOPPED,
    "waiting_permission": frozenset({"running", "backgrounded", "pending"}) | _STOPPED,
    **{state: frozenset({"pending"}) for state in ENDED},
}
_ID = re.compile(r"[a-z][a-z0-9_-]{0,40}")
# Matches the message `headline` in both languages.
_HEADLINE = re.compile(r"[\[【]task ([a-z][a-z0-9_-]{0,40}) (\w+)[\]】]")
_OPEN_STATES = ("pending", "backgrounded")


class TaskTransitionError(PureAgentLoopError, ValueError):
    """A task cannot go from its current state to the new one."""


class TaskNotFoundError(PureAgentLoopError, LookupError):
    """No task has the given id."""


@dataclass(slots=True)
class TaskRecord(PlainForm):
    """Record of one subagent task.

    Args:
        id: Task id; starts with the agent's name.
        agent: Name of the subagent.
        prompt: The task's text.
        state: See `TRANSITIONS`.
        parent: Session id of the parent; empty if there is none.
        session_id: Session id of the subagent; empty if there is none.
        background: True for a background task.
        step: The parent's step that started the task.
        resumes: True if, after a crash, the call that started the task is repeated and continues the task.
        created: Creation time, in seconds since the epoch.
        started: Start time, in seconds since the epoch; 0 if not started.
        ended: End time, in seconds since the epoch; 0 if not ended.
        calls: Tool calls made.
        tokens: Tokens used.
        cost: Money spent.
        last_activity: Time of the task's last event, in seconds since the epoch.
        last_tool: The tool called last.
        stop_reason: Stop reason of the subagent's run.
        result: The answer, truncated.
        error: Error message.
        output: File with the full answer; empty if there is none.
        place: The task's separate folder, if it is kept; otherwise empty.
        delivered: True once the parent has received the outcome.
        call_id: Id of the parent's call that started the task.
    """

    id: str
    agent: str
    prompt: str
    state: str = "pending"
    parent: str = ""
    session_id: str = ""
    background: bool = False
    step: int = 0
    resumes: bool = False
    created: float = field(default_factory=time.time)
    started: float = 0.0
    ended: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    last_activity: float = 0.0
    last_tool: str = ""
    stop_reason: str = ""
    result: str = ""
    error: str = ""
    output: str = ""
    place: str = ""
    delivered: bool = False
    call_id: str = ""

    def to(self, state: TaskState) -> None:
        """Change the state and record the time.

        Raises:
            TaskTransitionError: The task cannot go from its current state to this one.
        """
        if state not in TRANSITIONS[self.state]:
            raise TaskTransitionError(f"Task {self.id} cannot change from {self.state!r} to {state!r}.")
        self.state, self.last_activity = state, time.time()
        if state in ENDED:
            self.ended = self.last_activity
        elif state == "pending":
            self.started = self.ended = 0.0
        elif not self.started:
            self.started = self.last_activity

    @property
    def is_over(self) -> bool:
        """True if the task has ended."""
        return self.state in ENDED

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskRecord:
        """Create a record from its JSON form; unknown fields are ignored.

        Raises:
            ConfigError: The data is not a task record.
        """
        try:
            record = cls(**{name: data[name] for name in _NAMES if name in data})
        except (TypeError, KeyError) as error:
            raise ConfigError(f"Invalid task record: {error}") from error
        wrong = [name for name, kinds in _KINDS.items() if not isinstance(getattr(record, name), kinds)]
        if wrong:
            raise ConfigError(f"Invalid task record: {wrong[0]}={getattr(record, wrong[0])!r:.40}.")
        if record.state not in TRANSITIONS:
            raise ConfigError(f"Invalid task record: unknown state={record.state!r:.40}.")
        return record


_NAMES = tuple(field.name for field in fields(TaskRecord))
_KINDS: dict[str, tuple[type, ...]] = {  # JSON may contain a time as an integer
    name: (float, int) if isinstance(value, float) else (type(value),)
    for name, value in asdict(TaskRecord("", "", "")).items()
}


class TaskStore:
    """Store of task records, in a folder.

    Args:
        folder: The folder, created when needed; None for a folder next to the sessions in the data folder.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        path = data_folder() / "sessions" / "agents" if folder is None else Path(folder)
        self.folder = path.expanduser().absolute()

    @classmethod
    def beside(cls, sessions: object) -> Self:
        """Return the store in a session store's folder; the default store if that has no folder."""
        folder = getattr(sessions, "folder", None)
        return cls(None if folder is None else Path(folder) / "agents")

    def new_id(self, agent: str) -> str:
        """Return an unused id: the agent's name and random digits."""
        while True:
            task_id = f"{agent}-{secrets.token_hex(3)}"
            if not self._path(task_id, "json").exists():
                return task_id

    def save(self, record: TaskRecord) -> None:
        """Write a record atomically.

        Raises:
            SessionWriteError: The record cannot be written.
        """
        self._write(record.id, "json", json.dumps(record.to_dict(), ensure_ascii=False))

    def keep_output(self, task_id: str, text: str) -> Path:
        """Write the full answer of a task.

        Returns:
            The file.

        Raises:
            SessionWriteError: The answer cannot be written.
        """
        return self._write(task_id, "txt", text)

    def output(self, task_id: str) -> str:
        """Return the full answer of a task; empty if it has none."""
        try:
            return self._path(task_id, "txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def get(self, task_id: str) -> TaskRecord:
        """Return a record; a running task whose process has died is returned as ``killed``.

        Raises:
            TaskNotFoundError: The record is missing or cannot be read.
        """
        try:
            record = self._read(task_id)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise TaskNotFoundError(f"Task {task_id!r} not found in {self.folder}.") from error
        if record.state in ("pending", "running", "backgrounded") and not self.is_running(task_id):
            with contextlib.suppress(OSError, ValueError):  # the task may have ended between the two checks
                record = self._read(task_id)
            if record.state in ("pending", "running", "backgrounded"):
                record.to("killed")
                record.ended, record.error = record.last_activity, "its process ended"
        return record

    def _read(self, task_id: str) -> TaskRecord:
        record = TaskRecord.from_dict(read_json(self._path(task_id, "json").read_text(encoding="utf-8")))
        if record.id != task_id:
            raise ConfigError(f"Invalid record of task {task_id}: id={record.id!r:.40}.")
        return record

    def list(self, parent: str | None = None) -> list[TaskRecord]:
        """Return the records, newest first; damaged records are skipped.

        Args:
            parent: Return only the tasks of this session.
        """
        records = []
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(TaskNotFoundError, ConfigError):
                records.append(self.get(path.stem))
        selected = [record for record in records if parent is None or record.parent == parent]
        return sorted(selected, key=lambda record: (-record.created, record.id))

    def claim(self, task_id: str) -> SessionLock:
        """Lock a task for this process, until the lock is released.

        Raises:
            SessionLockedError: Another process holds the lock.
            SessionWriteError: The lock file cannot be created.
        """
        try:
            self._ensure_folder()
            self._path(task_id, "kill").unlink(missing_ok=True)
            return take_lock(self._path(task_id, "lock"), task_id)
        except OSError as error:
            raise SessionWriteError(self.folder, error.strerror or error) from error

    def is_running(self, task_id: str) -> bool:
        """True if this or another process is running the task."""
        path = self._path(task_id, "lock")
        try:
            return path.exists() and is_locked(path)
        except OSError:
            return False

    def kill(self, task_id: str, *, patience: float = 10.0) -> TaskRecord:
        """Stop a task of this process or another one.

        Args:
            task_id: The task.
            patience: Maximum seconds to wait for the task to stop.

        Returns: The record; the state is unchanged if the task has not stopped in time.

        Raises:
            TaskNotFoundError: The task is missing.
            SessionWriteError: The request cannot be written.
        """
        record = self.get(task_id)
        if not self.is_running(task_id):
            if not record.is_over:  # it is waiting for a permission, so no process is running it
                record.to("killed")
            self.save(record)
            return record
        self._write(task_id, "kill", "")
        until = time.monotonic() + patience
        while self.is_running(task_id) and time.monotonic() < until:
            time.sleep(0.05)
        return self.get(task_id)

    def is_to_be_killed(self, task_id: str) -> bool:
        """True if a request to stop the task is pending."""
        return self._path(task_id, "kill").exists()

    def forget_kill(self, task_id: str) -> None:
        """Delete the stop request of a task that has ended."""
        with contextlib.suppress(OSError):
            self._path(task_id, "kill").unlink(missing_ok=True)

    def delete(self, task_id: str) -> None:
        """Delete the record and the answer of a task."""
        for suffix in ("json", "txt", "kill", "lock"):
            with contextlib.suppress(OSError):
                self._path(task_id, suffix).unlink(missing_ok=True)

    def _path(self, task_id: str, suffix: str) -> Path:
        if not _ID.fullmatch(task_id):
            raise TaskNotFoundError(f"Task {safe_str(task_id)!r:.80} not found: invalid id.")
        return self.folder / f"{task_id}.{suffix}"

    def _ensure_folder(self) -> Path:
        return self.folder if self.folder.is_dir() else private_folder(self.folder)

    def _write(self, task_id: str, suffix: str, text: str) -> Path:
        path = self._path(task_id, suffix)
        try:
            self._ensure_folder()
            write_whole(path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise SessionWriteError(error.filename or path, error.strerror or error) from error
        return path


def task_states(texts: Iterable[str]) -> set[tuple[str, str]]:
    """Return the ids and states of the tasks in texts with headlines."""
    return {(name, state) for text in texts for name, state in _HEADLINE.findall(text)}


def unreported(messages: Sequence[HistoryMessage], states: Iterable[tuple[str, str]]) -> list[str]:
    """Return the ids of background tasks whose end no message has reported yet.

    Args:
        states: States from the messages; see `task_states`.
    """
    results = [str(message.get("content")) for message in messages if message["role"] == "tool"]
    started = [match for text in results if (match := _HEADLINE.match(text)) and match[2] in _OPEN_STATES]
    ended = {name for name, state in states if state not in _OPEN_STATES}
    return [name for name in dict.fromkeys(match[1] for match in started) if name not in ended]
