"""What stands behind the protocol: somebody who opens folders, and the work that goes on in one.

The command line is one such host; see `cli.protocols.acp`.
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
    """There is no model to use. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """A session of before.

    Args:
        id: Its name.
        folder: Where it began.
        title: What it was asked first.
        updated: When it was used last, in seconds since the epoch.
    """

    id: str
    folder: str
    title: str
    updated: float


@dataclass(frozen=True, slots=True)
class Planned:
    """What a call would change in a file.

    Args:
        path: The file, as the call names it.
        before: What is in it; None if it is new.
        after: What would be.
    """

    path: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person has to know to decide about a call.

    Args:
        text: All that is asked, but what a diff shows.
        planned: What it would change in a file, if that can be said for sure.
        rules: Rules for calls of this kind; none if no rule says it narrowly enough.
    """

    text: str
    planned: Planned | None
    rules: list[str]


@dataclass(frozen=True, slots=True)
class Option:
    """What a person may choose for a session.

    Args:
        value: What holds.
        values: What there is, each with what it means.
    """

    value: str
    values: Mapping[str, str]


class Editor(Protocol):
    """The other side of a session: its person, its files, unsaved ones too, and its terminals."""

    reads: bool
    """Whether it lends what it has open."""
    writes: bool
    """Whether it writes files."""
    runs: bool
    """Whether it lends terminals."""

    def read(self, path: str) -> str:
        """The text of a file, by its absolute path; from a thread of a tool, never from the loop.

        Raises:
            RpcError: The editor does not say.
        """

    def write(self, path: str, text: str) -> None:
        """Put a text into a file; called as `read`.

        Raises:
            RpcError: The editor did not.
        """

    async def terminal(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Ask for something of a terminal; from the loop.

        Args:
            method: What stands behind ``terminal/``.
            params: As the protocol has them.

        Raises:
            RpcError: The editor does not.
        """

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show something with a call, as the protocol writes it; from any thread."""

    async def ask(self, request: PermissionRequest) -> Permission:
        """Have the person decide about a call."""

    async def confirm(self, text: str) -> bool:
        """Put a question of ours; only a yes is one."""

    async def note(self, text: str) -> None:
        """Tell the person something of ours."""


class Work(Protocol):
    """What goes on in one session."""

    @property
    def folder(self) -> Path:
        """Where it goes on."""

    @property
    def options(self) -> Mapping[str, Option]:
        """What can be chosen, by its category in the protocol; the permission mode is ``mode``."""

    async def choose(self, option: str, value: str) -> None:
        """Let one of the values of an option hold, from the next question or task on.

        Raises:
            PureAgentLoopError: It cannot be used.
        """

    async def begin(self) -> None:
        """Get ready for the first task: the person may be asked whether the folder is trusted.

        Raises:
            PureAgentLoopError: It cannot begin.
        """

    def run(self, task: str | None, media: Sequence[MediaItem]) -> AsyncGenerator[Event, None]:
        """Do a task; None goes on with what was being done."""

    def stop(self) -> None:
        """End the run soon; what was said stays."""

    def suggest(self, request: PermissionRequest) -> Permission:
        """What the rules of now say about a call that is asked about."""

    def asked(self, request: PermissionRequest) -> Asked:
        """What a person has to know to decide about a call; from a thread."""

    def add_rules(self, behavior: str, rules: list[str]) -> None:
        """Let rules hold for this session."""

    def keep_rules(self, rules: list[str]) -> None:
        """Let calls be allowed in this folder from now on.

        Raises:
            ConfigError: They cannot be written down.
        """

    def history(self) -> Iterable[Entry]:
        """What was said and done in the session so far."""

    def commands(self) -> Iterable[tuple[str, str]]:
        """What can be typed behind a slash, and what each is for."""

    async def command(self, name: str, words: str) -> tuple[str, str | None, bool]:
        """Do what stands behind a slash.

        Returns:
            What is said; the task it stands for, if it does; whether the work is to go on with what it did.

        Raises:
            PureAgentLoopError: It cannot be done.
        """

    async def close(self) -> None:
        """Give everything back."""


class Host(Protocol):
    """Opens folders."""

    has_mcp: bool
    """Whether it takes MCP servers of the editor."""

    async def check(self) -> None:
        """Is there a model to use?

        Raises:
            NoModelError: There is none.
        """

    async def open(
        self, folder: Path, session_id: str | None, servers: Sequence[Mapping[str, Any]], editor: Editor
    ) -> tuple[str, Work]:
        """Open a session.

        Args:
            folder: Where it is.
            session_id: One of before; None for a new one.
            servers: MCP servers of the editor, as the protocol describes them.
            editor: The other side; asked only once the session is open.

        Raises:
            NoModelError: There is no model to use in this folder.
            SessionNotFoundError: There is no such session in this folder.
            PureAgentLoopError: Something cannot work.
        """

    async def sessions(self, folder: Path | None, start: int, count: int) -> Sequence[Known]:
        """So many sessions of a folder, or of all, from a place on; the one used last first."""

    def delete(self, session_id: str) -> None:
        """Take a session away.

        Raises:
            SessionError: It cannot be.
        """
