"""Interfaces between the protocol and the application: `Host`, `Work` and `Editor`.

The command line implements `Host` and `Work` in `cli.protocols.acp`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Event
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.sessions.story import Entry


class NoModelError(PureAgentLoopError):
    """No model is configured. The error message explains how to configure one."""


@dataclass(frozen=True, slots=True)
class Known:
    """A stored session.

    Args:
        id: The session's id.
        folder: The folder in which the session was started.
        title: Text of the session's first task.
        updated: Time of the session's last use, in seconds since the epoch.
    """

    id: str
    folder: str
    title: str
    updated: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned change of a file.

    Args:
        path: The file, as in the call's arguments.
        before: The current content; None for a new file.
        after: The planned content.
    """

    path: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The content of a question about a call.

    Args:
        text: The question, without the diff.
        planned: The planned change of a file; None if it cannot be predicted.
        rules: Rules that would cover similar calls; empty if every such rule would be too broad.
    """

    text: str
    planned: Planned | None
    rules: list[str]


@dataclass(frozen=True, slots=True)
class Option:
    """A session option.

    Args:
        value: The current value.
        values: The possible values with their descriptions.
    """

    value: str
    values: Mapping[str, str]


class Editor(Protocol):
    """Access to an editor: questions and notices to its user, files with unsaved changes, and terminals."""

    reads: bool
    """True if the editor reads files."""
    writes: bool
    """True if the editor writes files."""
    runs: bool
    """True if the editor runs terminals."""

    def read(self, path: str) -> str:
        """Return the text of the file at an absolute path. Call this method only from a tool's thread.

        Raises:
            RpcError: The editor cannot read the file.
        """

    def write(self, path: str, text: str) -> None:
        """Write a file. Call this method only from a tool's thread, like `read`.

        Raises:
            RpcError: The editor cannot write the file.
        """

    async def terminal(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Call a terminal method. Call this method only from the event loop.

        Args:
            method: The method's name without ``terminal/``.
            params: The method's parameters.

        Raises:
            RpcError: The method failed.
        """

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show protocol content in a call. This method can be called from any thread."""

    async def ask(self, request: PermissionRequest) -> Permission:
        """Ask the user to decide about a call."""

    async def confirm(self, text: str) -> bool:
        """Ask the user a yes/no question. Any answer other than yes counts as no."""

    async def note(self, text: str) -> None:
        """Show the user a notice."""


class Work(Protocol):
    """Executes the tasks and commands of one session."""

    @property
    def folder(self) -> Path:
        """The session's folder."""

    @property
    def options(self) -> Mapping[str, Option]:
        """The options by protocol category; ``mode`` is the permission mode."""

    async def choose(self, option: str, value: str) -> None:
        """Set an option; the new value applies from the next question or task.

        Raises:
            PureAgentLoopError: The value cannot be used.
        """

    async def begin(self) -> None:
        """Prepare the first task. May ask the user whether to trust the folder.

        Raises:
            PureAgentLoopError: The work cannot start.
        """

    def run(self, task: str | None, media: Sequence[MediaItem]) -> AsyncGenerator[Event, None]:
        """Run a task; if it is None, resume the interrupted task."""

    def stop(self) -> None:
        """Stop the run soon and keep the history."""

    def suggest(self, request: PermissionRequest) -> Permission:
        """Return what the current rules decide about a call; ``ask`` if the user must be asked."""

    def asked(self, request: PermissionRequest) -> Asked:
        """Return the content of a question about a call. Called from a worker thread."""

    def add_rules(self, behavior: str, rules: list[str]) -> None:
        """Add rules for this session."""

    def keep_rules(self, rules: list[str]) -> None:
        """Save rules that allow calls in this folder.

        Raises:
            ConfigError: The rules cannot be saved.
        """

    def history(self) -> Iterable[Entry]:
        """Return the session's history."""

    def commands(self) -> Iterable[tuple[str, str]]:
        """Return the slash commands with their descriptions."""

    async def command(self, name: str, words: str) -> tuple[str, str | None, bool]:
        """Execute a slash command.

        Returns:
            The output, the task that the command expands to (if any), and whether a run follows.

        Raises:
            PureAgentLoopError: The command failed.
        """

    async def close(self) -> None:
        """Release all resources."""


class Host(Protocol):
    """The application: opens sessions."""

    has_mcp: bool
    """True if MCP servers of the editor are supported."""

    async def check(self) -> None:
        """Check that a model is available.

        Raises:
            NoModelError: No model is available.
        """

    async def open(
        self, folder: Path, session_id: str | None, servers: Sequence[Mapping[str, Any]], editor: Editor
    ) -> tuple[str, Work]:
        """Open a session.

        Args:
            folder: The session's folder.
            session_id: A stored session; None for a new one.
            servers: The editor's MCP servers, as in the protocol.
            editor: The editor. The editor cannot be used before the session is open.

        Raises:
            NoModelError: No model is available in this folder.
            SessionNotFoundError: The folder has no such session.
            PureAgentLoopError: The session cannot be opened.
        """

    async def sessions(self, folder: Path | None, start: int, count: int) -> Sequence[Known]:
        """Return `count` sessions of a folder (None for all), last used first, skipping the first `start`."""

    def delete(self, session_id: str) -> None:
        """Delete a session.

        Raises:
            SessionError: The session cannot be deleted.
        """
