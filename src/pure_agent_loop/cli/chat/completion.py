"""Completion of commands, ``@`` files and command arguments."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.cli.chat.custom import command_in
from pure_agent_loop.cli.chat.styling import THEMES, one_line
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.snapshots.ignore import Rules, is_left_out
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.quoted_paths import quoted_path

if TYPE_CHECKING:
    from pure_agent_loop.cli.chat.talk import ChatSession

MAX_FILES, WALK_SECONDS, FRESH_SECONDS = 200_000, 2.0, 5.0
MAX_SHOWN, MAX_TIED = 50, 500
ASK_SECONDS = 10.0  # time limit for an MCP server, which may have to start
_AT = re.compile(r"(?:^|\s)@(\S*)$")
_NEVER = (".git", "node_modules", ".venv", "__pycache__")
_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "mode": PERMISSION_MODES,
    "theme": tuple(THEMES),
    "keys": ("vi", "emacs"),
    "undo": ("yes", "force"),
}
Known = Callable[[], Iterable[tuple[str, str]]]  # pairs of a name and a description


class Candidate(NamedTuple):
    """A completion candidate.

    Args:
        replaces: The number of characters before the cursor to replace.
    """

    name: str
    replaces: int
    shown: str
    about: str


class InputCompletions:
    """Completes the input.

    Args:
        commands: Function that returns the commands, without the slash.
        max_files: Approximate maximum number of files to examine for ``@``.
    """

    def __init__(
        self, workspace: Path, commands: Known, arguments: Arguments, max_files: int = MAX_FILES
    ) -> None:
        self._max_files = max_files
        self._workspace, self._commands, self._arguments = workspace, commands, arguments
        self._files: list[str] = []
        self._is_whole = True
        self._looked = -FRESH_SECONDS

    def of(self, text: str) -> Iterator[Candidate]:
        """Yield candidates for the text before the cursor, best first."""
        if mention := _AT.search(text):
            yield from self._mentioned(mention[1])
        elif text.startswith("/") and " " in text:
            command, _, typed = text[1:].partition(" ")
            yield from _fitting(self._arguments.of(command), typed)
        elif text.startswith("/"):
            yield from _fitting(self._commands(), text[1:])

    async def from_server(self, text: str) -> Sequence[Candidate]:
        """Ask an MCP server to complete the arguments of its prompt.

        The first request to a server also loads the server's prompts.
        """
        command = None if _AT.search(text) else command_in(text)
        if command is None or ":" not in command[0]:
            return []
        from pure_agent_loop.support.clock import within

        words = text.split()[1:] if not text[-1].isspace() else [*text.split()[1:], ""]
        with suppress(PureAgentLoopError, TimeoutError):
            values = await within(ASK_SECONDS, self._arguments.endings(command[0], words))
            return [Candidate(value, len(words[-1]), one_line(value, 60), "") for value in values if value]
        return []

    def _mentioned(self, typed: str) -> Iterator[Candidate]:
        """Yield the files that match; in a large workspace, also search the folder typed so far."""
        base = typed[: typed.rfind("/") + 1]
        if time.monotonic() - self._looked > FRESH_SECONDS:
            self._files, self._is_whole = files_in(self._workspace, most=self._max_files)
            self._looked = time.monotonic()
        files, is_whole = self._files, self._is_whole
        if base and not is_whole and ".." not in base and base[0] != "/":
            nearer, is_whole = files_in(self._workspace, base, self._max_files)
            is_whole = is_whole and bool(nearer)
            files = list(dict.fromkeys([*nearer, *files]))
        yield from _fitting(((path, "") for path in files), typed, self._age)
        if not is_whole:
            yield Candidate(typed, len(typed), "…", user_text("chat.more_files", count=len(files)))

    def _age(self, path: str) -> tuple[int, float]:
        """Sort key for files with equally long paths: the most recently changed file comes first."""
        with suppress(OSError):
            return len(path), -(self._workspace / path).stat().st_mtime
        return len(path), 0.0


class Arguments:
    """Completes command arguments."""

    def __init__(self, talk: ChatSession, sessions: Known) -> None:
        self._talk, self._sessions = talk, sessions
        self._models: list[str] | None = None

    def of(self, command: str) -> Iterable[tuple[str, str]]:
        """Return the arguments of a command with their descriptions."""
        if command in ("sessions", "resume"):
            return self._sessions()
        return [(name, "") for name in self._words(command)]

    async def endings(self, name: str, words: Sequence[str]) -> Sequence[str]:
        """Ask the server of a prompt to complete the last argument.

        Args:
            name: ``SERVER:PROMPT``.
            words: The arguments; if empty, the prompts of the server are loaded.
        """
        servers, (start, _, prompt) = await self._talk.servers(), name.partition(":")
        server = None if servers is None else servers.get(start)
        if server is None:
            return []
        if words:
            from pure_agent_loop.mcp import prompt_completions

            return await prompt_completions(server, prompt, words)
        if not server.known_prompts:
            await server.prompts()
        return []

    def _words(self, command: str) -> Iterable[str]:
        shared = self._talk.shared
        if command == "permissions":
            return [f"remove {rule}" for rule in shared.options.allow]
        if command == "model":
            return self._known_models()
        if command in ("fork", "diff", "rewind", "time"):
            return map(str, sorted({entry.step for entry in self._talk.story().entries if entry.step}))
        if command == "export":
            return (name for name in files_in(shared.workspace)[0] if name.endswith((".md", ".html")))
        return _ARGUMENTS.get(command, ())

    def _known_models(self) -> list[str]:
        """Ask the server for its models once, in the completion thread."""
        if self._models is None:
            self._models = []
            with suppress(PureAgentLoopError):
                self._models = asyncio.run(self._talk.models())
        return self._models


def _fitting(
    known: Iterable[tuple[str, str]], typed: str, tie: Callable[[str], Any] = lambda _: 0
) -> Iterator[Candidate]:
    """Yield the matching names, best first; equal matches keep their order unless `tie` sorts them."""
    rated = [(rating, name, about) for name, about in known if (rating := rate(typed, name)) is not None]
    best = sorted(rated, key=itemgetter(0))[:MAX_TIED]
    for _, name, about in sorted(best, key=lambda each: (each[0], tie(each[1])))[:MAX_SHOWN]:
        yield Candidate(name, len(typed), one_line(name, 60), one_line(about, 60))


def rate(typed: str, name: str) -> int | None:
    """Rate how well a name matches the typed letters; 0 is best, None means no match.

    A name matches if it contains the letters in the typed order.
    """
    typed, name = typed.lower(), name.lower()
    last = name.rpartition("/")[2]
    for rating, fits in enumerate((name.startswith(typed), last.startswith(typed), typed in name)):
        if fits:
            return rating
    letters = iter(name)
    return 3 if all(letter in letters for letter in typed) else None


def files_in(folder: Path, base: str = "", most: int = MAX_FILES) -> tuple[list[str], bool]:
    """Return the files not excluded by ``.gitignore``, shortest first, and whether the list is complete.

    Folders are read level by level, so that the limit drops the deepest files.

    Args:
        base: Folder to begin with, below `folder`; ends in a slash.
        most: Approximate maximum number of entries to examine.
    """
    until, files, entries_seen = time.monotonic() + WALK_SECONDS, list[str](), 0
    parts = base.split("/")[:-1]
    outer = [
        rules for size in range(len(parts)) for rules in _rules_of(folder, "/".join([*parts[:size], ""]))
    ]
    pending = deque([(base, outer)])
    while pending and entries_seen < most and time.monotonic() < until:
        base, rules = pending.popleft()
        rules = [*rules, *_rules_of(folder, base)]
        try:
            entries = sorted(os.scandir(folder / base), key=lambda entry: entry.name)
        except OSError:
            continue
        entries_seen += len(entries)
        for entry in entries:
            path, is_folder = f"{base}{entry.name}", entry.is_dir(follow_symlinks=False)
            if entry.name in _NEVER or is_left_out(rules, path, is_folder=is_folder):
                continue
            if is_folder:
                pending.append((f"{path}/", rules))
            else:
                quoted = quoted_path(path)
                files.append(f'"{path}"' if " " in path and quoted == path else quoted)
    return sorted(files, key=len), not pending


def _rules_of(folder: Path, base: str) -> list[Rules]:
    try:
        text = (folder / base / ".gitignore").read_text("utf-8", "replace")
    except OSError:
        return []
    return [Rules(base, text.splitlines())]
