"""What stands behind the protocol: somebody who opens folders, and the work that goes on in one.

The command line is one such host; see `cli.protocols.acp`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Event
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.sessions.story import Entry

Attach = Callable[[str, Mapping[str, Any]], None]


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


class Editor(Protocol):
    """The files of the other side, unsaved ones too. Called from threads of tools, never from the loop."""

    @property
    def reads(self) -> bool:
        """Whether it lends what it has open."""
        ...

    @property
    def writes(self) -> bool:
        """Whether it writes files."""
        ...

    @property
    def runs(self) -> bool:
        """Whether it lends terminals."""
        ...

    async def terminal(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Ask for something of a terminal; from the loop.

        Args:
            method: What stands behind ``terminal/``.
            params: As the protocol has them.

        Raises:
            RpcError: The editor does not.
        """
        ...

    def read(self, path: str) -> str:
        """The text of a file as the editor has it.

        Args:
            path: Absolute.

        Raises:
            RpcError: The editor does not say.
        """
        ...

    def write(self, path: str, text: str) -> None:
        """Put a text into a file.

        Args:
            path: Absolute.
            text: All of it.

        Raises:
            RpcError: The editor did not.
        """
        ...


class Asker(Protocol):
    """The person at the editor."""

    async def ask(self, request: PermissionRequest) -> Permission:
        """May this call be made?"""
        ...

    async def confirm(self, text: str) -> bool:
        """A question of ours; only a yes is one."""
        ...

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show something with a call, as the protocol writes it; from any thread."""
        ...


class Work(Protocol):
    """What goes on in one session."""

    mode: str
    """The permission mode; it may be changed at any time."""

    @property
    def folder(self) -> Path:
        """Where it goes on."""
        ...

    async def begin(self) -> None:
        """Get ready for the first task: the person may be asked whether the folder is trusted.

        Raises:
            PureAgentLoopError: It cannot begin.
        """
        ...

    def run(self, task: str | None, media: Sequence[MediaItem]) -> AsyncGenerator[Event, None]:
        """Do a task; None goes on with what was being done."""
        ...

    def stop(self) -> None:
        """End the run soon; what was said stays."""
        ...

    def suggest(self, request: PermissionRequest) -> Permission:
        """What the rules of now say about a call that is asked about."""
        ...

    def question(self, request: PermissionRequest, *, has_diff: bool) -> str:
        """All that is asked, for people, but what a diff shows."""
        ...

    def kinds(self, request: PermissionRequest) -> list[str]:
        """Rules for calls of this kind; none if no rule says it narrowly enough."""
        ...

    def add_rules(self, behavior: str, rules: list[str]) -> None:
        """Let rules hold for this session."""
        ...

    def keep_rules(self, rules: list[str]) -> None:
        """Let calls be allowed in this folder from now on.

        Raises:
            ConfigError: They cannot be written down.
        """
        ...

    def planned(self, tool: str, args: Mapping[str, Any]) -> Planned | None:
        """What a call would change in a file, if that can be said for sure."""
        ...

    def history(self) -> Iterable[Entry]:
        """What was said and done in the session so far."""
        ...

    def commands(self) -> Iterable[tuple[str, str]]:
        """What can be typed behind a slash, and what each is for."""
        ...

    async def command(self, name: str, words: str) -> tuple[str, str | None, bool]:
        """Do what stands behind a slash.

        Returns:
            What is said; the task it stands for, if it does; whether the work is to go on with what it did.

        Raises:
            PureAgentLoopError: It cannot be done.
        """
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


class Host(Protocol):
    """Opens folders."""

    modes: Mapping[str, str]
    """The permission modes, each with what it means."""
    has_mcp: bool
    """Whether it takes MCP servers of the editor."""

    async def check(self) -> None:
        """Is there a model to use?

        Raises:
            NoModelError: There is none.
        """
        ...

    async def open(
        self,
        folder: Path,
        session_id: str | None,
        servers: Sequence[Mapping[str, Any]],
        asker: Asker,
        editor: Editor,
    ) -> tuple[str, Work]:
        """Open a session: a new one, or one of before.

        Args:
            folder: Where it is.
            session_id: One of before; None for a new one.
            servers: MCP servers of the editor, as the protocol describes them.
            asker: The person; asked only once the session is open. It shows what calls do.
            editor: Its files.

        Raises:
            NoModelError: There is no model to use in this folder.
            SessionNotFoundError: There is no such session in this folder.
            PureAgentLoopError: Something cannot work.
        """
        ...

    async def sessions(self, folder: Path | None, start: int, count: int) -> Sequence[Known]:
        """So many sessions of a folder, or of all, from a place on; the one used last first."""
        ...

    def delete(self, session_id: str) -> None:
        """Take a session away.

        Raises:
            SessionError: It cannot be.
        """
        ...
