"""Records of tasks: what was given to whom, where it stands, and what came of it; as files that outlive us.

<id>.json   the record, always whole
<id>.txt    the whole answer
<id>.lock   held by the process that works on it, so it is known when that has ended
<id>.kill   somebody wants it stopped
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError, PureAgentLoopError, SessionLockedError, SessionWriteError
from pure_agent_loop.events import TaskState
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.writer_lock import SessionLock, take_lock

ENDED = frozenset({"completed", "failed", "cancelled", "killed"})
_STOPPED = frozenset({"failed", "cancelled", "killed"})
# From each state to those that may follow. What has ended, or waits, can be taken up again: it is pending.
TRANSITIONS: dict[str, frozenset[str]] = {
    "pending": frozenset({"running", "backgrounded"}) | _STOPPED,
    "running": frozenset({"waiting_permission", "backgrounded", "completed"}) | _STOPPED,
    "backgrounded": frozenset({"waiting_permission", "running", "completed"}) | _STOPPED,
    "waiting_permission": frozenset({"running", "backgrounded", "pending"}) | _STOPPED,
    **{state: frozenset({"pending"}) for state in ENDED},
}
_ID = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_POLL_SECONDS = 0.05


class TaskTransitionError(PureAgentLoopError, ValueError):
    """A task cannot go from one state to another."""


class TaskNotFoundError(PureAgentLoopError, LookupError):
    """There is no task of that id."""


@dataclass(slots=True)
class TaskRecord:
    """One task of a subagent.

    Args:
        id: Its id; the agent's name is the beginning of it.
        agent: The subagent.
        prompt: What it was asked.
        state: See `TRANSITIONS`.
        parent: The session that gave the task; empty for none.
        session_id: The session of the subagent itself; empty for none.
        background: It goes on beside the agent that gave it.
        step: The step in which it was given.
        resumes: It is the work of a call that is made again, and takes it up, when the program was killed.
        created: When it was given, in seconds since the epoch.
        started: When work on it began; 0 if it has not.
        ended: When it ended; 0 if it has not.
        calls: Tool calls made.
        tokens: Tokens used.
        cost: Money spent.
        last_activity: When something happened in it last.
        last_tool: The tool called last.
        stop_reason: Why the subagent's run ended.
        result: Its answer, cut.
        error: What went wrong.
        output: The file with its whole answer; empty for none.
        place: The folder it worked in, if that is kept.
        delivered: The agent that gave it knows how it ended.
        call_id: The call that gave it.
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
        """Change the state, and note when.

        Raises:
            TaskTransitionError: This cannot follow.
        """
        if state not in TRANSITIONS[self.state]:
            raise TaskTransitionError(f"The task {self.id} cannot go from {self.state!r} to {state!r}.")
        self.state, self.last_activity = state, time.time()
        if state in ENDED:
            self.ended = self.last_activity
        elif state == "pending":
            self.started = self.ended = 0.0
        elif not self.started:
            self.started = self.last_activity

    @property
    def is_over(self) -> bool:
        """True if nothing more will happen by itself."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskRecord:
        """The reverse of :meth:`to_dict`; what is not known is passed over.

        Raises:
            ConfigError: It is no such form.
        """
        try:
            record = cls(**{name: data[name] for name in _NAMES if name in data})
        except (TypeError, KeyError) as error:
            raise ConfigError(f"This is no record of a task: {error}") from error
        wrong = [name for name, kinds in _KINDS.items() if not isinstance(getattr(record, name), kinds)]
        if wrong:
            raise ConfigError(
                f"This is no record of a task: its {wrong[0]} is {getattr(record, wrong[0])!r:.40}."
            )
        if record.state not in TRANSITIONS:
            raise ConfigError(f"This is no record of a task: its state is {record.state!r:.40}.")
        return record


_NAMES = tuple(each.name for each in fields(TaskRecord))
_KINDS: dict[str, tuple[type, ...]] = {  # a time may be a whole number
    name: (float, int) if isinstance(value, float) else (type(value),)
    for name, value in asdict(TaskRecord("", "", "")).items()
}


class TaskStore:
    """The records of tasks, in a folder.

    Args:
        folder: Where; beside the sessions in the data folder if None. It is made when it is needed.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        given = data_folder() / "sessions" / "agents" if folder is None else Path(folder)
        self.folder = given.expanduser().absolute()

    def new_id(self, agent: str) -> str:
        """An id that no task has: the agent's name and something random."""
        while True:
            made = f"{agent}-{secrets.token_hex(3)}"
            if not self._path(made, "json").exists():
                return made

    def save(self, record: TaskRecord) -> None:
        """Write a record, wholly or not at all.

        Raises:
            SessionWriteError: It cannot be written.
        """
        self._write(record.id, "json", json.dumps(record.to_dict(), ensure_ascii=False))

    def keep_output(self, task_id: str, text: str) -> Path:
        """Write down a whole answer.

        Returns:
            Where it is.

        Raises:
            SessionWriteError: It cannot be written.
        """
        return self._write(task_id, "txt", text)

    def output(self, task_id: str) -> str:
        """The whole answer of a task; empty if it gave none."""
        try:
            return self._path(task_id, "txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def get(self, task_id: str) -> TaskRecord:
        """A record. One whose process has ended while it was at work is shown as ``killed``.

        Raises:
            TaskNotFoundError: There is none, or it cannot be read.
        """
        try:
            record = self._read(task_id)
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise TaskNotFoundError(f"There is no task {task_id!r} in {self.folder}.") from error
        if record.state in ("pending", "running", "backgrounded") and not self.is_running(task_id):
            with contextlib.suppress(OSError, ValueError):  # it may have ended between the two looks
                record = self._read(task_id)
            if record.state in ("pending", "running", "backgrounded"):
                record.to("killed")
                record.ended, record.error = record.last_activity, "its process ended"
        return record

    def _read(self, task_id: str) -> TaskRecord:
        record = TaskRecord.from_dict(json.loads(self._path(task_id, "json").read_text(encoding="utf-8")))
        if record.id != task_id:
            raise ConfigError(f"This is no record of the task {task_id}: its id is {record.id!r:.40}.")
        return record

    def list(self, parent: str | None = None) -> list[TaskRecord]:
        """Every record, the newest first; damaged ones are passed over.

        Args:
            parent: Only of this session.
        """
        found = []
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(TaskNotFoundError, ConfigError):
                found.append(self.get(path.stem))
        wanted = [record for record in found if parent is None or record.parent == parent]
        return sorted(wanted, key=lambda record: (-record.created, record.id))

    def claim(self, task_id: str) -> SessionLock:
        """Say that this process works on a task, until the lock is released.

        Raises:
            SessionLockedError: Another process does.
            SessionWriteError: The lock cannot be made.
        """
        try:
            self._made()
            self._path(task_id, "kill").unlink(missing_ok=True)
            return take_lock(self._path(task_id, "lock"), task_id)
        except OSError as error:
            raise SessionWriteError(self.folder, error.strerror or error) from error

    def is_running(self, task_id: str) -> bool:
        """True if a process, this one or another, works on a task."""
        path = self._path(task_id, "lock")
        if not path.exists():
            return False
        try:
            take_lock(path, task_id).release()
        except SessionLockedError:
            return True
        except OSError:
            return False
        return False

    def kill(self, task_id: str, *, patience: float = 10.0) -> TaskRecord:
        """Stop a task, in whatever process it is.

        Args:
            task_id: Which one.
            patience: Seconds to wait for it to stop.

        Returns:
            Its record; still at work if its process did not stop it in time.

        Raises:
            TaskNotFoundError: There is none.
            SessionWriteError: Nothing can be written.
        """
        record = self.get(task_id)
        if not self.is_running(task_id):
            if not record.is_over:  # it waits for a permission, and nobody works on it
                record.to("killed")
            self.save(record)
            return record
        self._write(task_id, "kill", "")
        until = time.monotonic() + patience
        while self.is_running(task_id) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return self.get(task_id)

    def is_to_be_killed(self, task_id: str) -> bool:
        """True if somebody asked for a task to be stopped."""
        return self._path(task_id, "kill").exists()

    def forget_kill(self, task_id: str) -> None:
        """The task has ended: nothing is left to be stopped."""
        with contextlib.suppress(OSError):
            self._path(task_id, "kill").unlink(missing_ok=True)

    def _path(self, task_id: str, suffix: str) -> Path:
        if not _ID.fullmatch(task_id):
            raise TaskNotFoundError(f"There is no task {safe_str(task_id)!r:.80}.")
        return self.folder / f"{task_id}.{suffix}"

    def _made(self) -> Path:
        return self.folder if self.folder.is_dir() else private_folder(self.folder)

    def _write(self, task_id: str, suffix: str, text: str) -> Path:
        path = self._path(task_id, suffix)
        try:
            handle, temporary = tempfile.mkstemp(dir=self._made(), prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode("utf-8", "replace"))
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise SessionWriteError(error.filename or path, error.strerror or error) from error
        return path


# As `SubagentWords` writes it, in both languages.
_MARK = re.compile(r"[\[【]task ([a-z][a-z0-9_-]{0,40}) (\w+)[\]】]")
_OPEN = ("pending", "backgrounded")


def task_states(texts: Iterable[str]) -> set[tuple[str, str]]:
    """Tasks and their states, as far as texts say them."""
    return {(name, state) for text in texts for name, state in _MARK.findall(text)}


def unreported(messages: Sequence[Message], states: Iterable[tuple[str, str]]) -> list[str]:
    """Tasks that were begun beside the run, and of which nothing was heard after that.

    Args:
        states: What it says of tasks; see `task_states`.
    """
    results = [str(each.get("content")) for each in messages if each["role"] == "tool"]
    begun = [found for text in results if (found := _MARK.match(text)) and found[2] in _OPEN]
    ended = {name for name, state in states if state not in _OPEN}
    return [name for name in dict.fromkeys(each[1] for each in begun) if name not in ended]
