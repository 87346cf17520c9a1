"""Completion of commands, of files behind ``@``, and of what a command takes."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pure_agent_loop.cli.chat.custom import command_in
from pure_agent_loop.cli.chat.safe import THEMES, one_line
from pure_agent_loop.cli.choose import models_at, plan_for
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.snapshots.ignore import Rules, is_left_out

if TYPE_CHECKING:
    from pure_agent_loop.cli.chat.talk import Talk

MOST_FILES, MOST_SHOWN, FRESH_SECONDS = 20_000, 50, 5.0
ASK_SECONDS = 10.0  # for a server, which may have to start
_AT = re.compile(r"(?:^|\s)@(\S*)$")
_NEVER = (".git", "node_modules", ".venv", "__pycache__")
_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "mode": PERMISSION_MODES,
    "theme": tuple(THEMES),
    "keys": ("vi", "emacs"),
    "undo": ("yes", "force"),
}
Known = Callable[[], Iterable[tuple[str, str]]]  # names, each with a word about it


class Found(NamedTuple):
    """What typed text may become.

    Args:
        name: It is put in the place of what was typed.
        replaces: So many characters before the cursor.
        shown: The name, for the terminal.
        about: A word about it, for the terminal.
    """

    name: str
    replaces: int
    shown: str
    about: str


class Completions:
    """Knows what typed text may become.

    Args:
        workspace: The folder whose files are named.
        commands: The commands, without their slash.
        arguments: What a command may be followed by.
    """

    def __init__(self, workspace: Path, commands: Known, arguments: Arguments) -> None:
        self._workspace, self._commands, self._arguments = workspace, commands, arguments
        self._files: list[str] = []
        self._looked = -FRESH_SECONDS

    def of(self, text: str) -> Iterator[Found]:
        """What the text before the cursor may become, the best first."""
        if found := _AT.search(text):
            yield from _fitting(((path, "") for path in self._paths()), found[1])
        elif text.startswith("/") and " " in text:
            command, _, typed = text[1:].partition(" ")
            yield from _fitting(self._arguments.of(command), typed)
        elif text.startswith("/"):
            yield from _fitting(self._commands(), text[1:])

    async def asked(self, text: str) -> Sequence[Found]:
        """What servers say that the text may become: the words behind a prompt of theirs.

        Which prompts there are is known then, too: a server is first asked when its name is typed.
        """
        command = None if _AT.search(text) else command_in(text)
        if command is None or ":" not in command[0]:
            return []
        words = text.split()[1:] if not text[-1].isspace() else [*text.split()[1:], ""]
        with suppress(PureAgentLoopError, asyncio.TimeoutError):
            found = await asyncio.wait_for(self._arguments.endings(command[0], words), ASK_SECONDS)
            return [Found(each, len(words[-1]), one_line(each, 60), "") for each in found if each]
        return []

    def _paths(self) -> list[str]:
        if time.monotonic() - self._looked > FRESH_SECONDS:
            self._files = list(files_in(self._workspace))
            self._looked = time.monotonic()
        return self._files


class Arguments:
    """What a command may be followed by.

    Args:
        talk: The conversation.
        sessions: Those of the folder.
    """

    def __init__(self, talk: Talk, sessions: Known) -> None:
        self._talk, self._sessions = talk, sessions
        self._models: list[str] | None = None

    def of(self, command: str) -> Iterable[tuple[str, str]]:
        """The words, each with a word about it.

        Args:
            command: The name of the command.
        """
        if command in ("sessions", "resume"):
            return self._sessions()
        return [(name, "") for name in self._words(command)]

    async def endings(self, name: str, words: Sequence[str]) -> Sequence[str]:
        """What the last of the words behind a prompt may go on to, as its server says.

        Args:
            name: Of the prompt, with that of its server.
            words: Those behind it; if there are none yet, the server is asked for its prompts.
        """
        servers, (start, _, prompt) = await self._talk.servers(), name.partition(":")
        server = None if servers is None else servers.get(start)
        if server is None:
            return []
        if words:
            from pure_agent_loop.mcp.mentions import endings

            return await endings(server, prompt, words)
        if not server.known_prompts:
            await server.prompts()
        return []

    def _words(self, command: str) -> Iterable[str]:
        shared = self._talk.shared
        if command == "permissions":
            return [f"remove {rule}" for rule in shared.options.allow]
        if command == "model":
            return self._known_models()
        if command in ("fork", "diff", "rewind"):
            return map(str, sorted({each.step for each in self._talk.story().entries if each.step}))
        if command == "export":
            return (name for name in files_in(shared.workspace) if name.endswith((".md", ".html")))
        return _ARGUMENTS.get(command, ())

    def _known_models(self) -> list[str]:
        """The server is asked once, in the thread of the completion."""
        if self._models is None:
            options = self._talk.shared.options
            plan = plan_for(options.model, options.base_url, os.environ, options.configured)
            self._models = models_at(plan)
        return self._models


def _fitting(known: Iterable[tuple[str, str]], typed: str) -> Iterator[Found]:
    rated = [
        (rating, len(name), name, about) for name, about in known if (rating := rate(typed, name)) is not None
    ]
    for _, _, name, about in sorted(rated)[:MOST_SHOWN]:
        yield Found(name, len(typed), one_line(name, 60), one_line(about, 60))


def rate(typed: str, name: str) -> int | None:
    """How well a name fits what was typed, 0 best; None if its letters are not there in this order.

    Args:
        typed: Some letters.
        name: The name.
    """
    typed, name = typed.lower(), name.lower()
    last = name.rpartition("/")[2]
    for rating, fits in enumerate((name.startswith(typed), last.startswith(typed), typed in name)):
        if fits:
            return rating
    letters = iter(name)
    return 3 if all(letter in letters for letter in typed) else None


def files_in(folder: Path) -> Iterator[str]:
    """The files of a folder, without those that ``.gitignore`` leaves out.

    Args:
        folder: The folder.
    """
    waiting: list[tuple[str, list[Rules]]] = [("", [])]
    left = MOST_FILES
    while waiting:
        base, rules = waiting.pop()
        rules = [*rules, *_rules_of(folder, base)]
        try:
            entries = sorted(os.scandir(folder / base), key=lambda each: each.name)
        except OSError:
            continue
        for entry in entries:
            path, is_folder = f"{base}{entry.name}", entry.is_dir(follow_symlinks=False)
            if entry.name in _NEVER or is_left_out(rules, path, is_folder=is_folder):
                continue
            if is_folder:
                waiting.append((f"{path}/", rules))
            elif path.isprintable() and " " not in path:
                yield path
            left -= 1
            if left <= 0:
                return


def _rules_of(folder: Path, base: str) -> list[Rules]:
    try:
        text = (folder / base / ".gitignore").read_text("utf-8", "replace")
    except OSError:
        return []
    return [Rules(base, text.splitlines())]
