"""Custom commands: Markdown files whose text becomes the task, with arguments filled in."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.assistant import Guidance, is_trusted, trust_guidance
from pure_agent_loop.cli.chat.words import COMMANDS, HABITS, SAME
from pure_agent_loop.cli.parser import nearest
from pure_agent_loop.cli.questions import TerminalQuestions, blanks_shown
from pure_agent_loop.cli.task import decoded_text
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.front_matter import split_front_matter
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.toolbox import Workspace, WorkspaceError

PROJECT_FOLDER = ".agents/commands"
MAX_BYTES, MAX_COMMANDS = 100_000, 200
ALIKE = 0.5  # minimum similarity of a suggested name, from 0 to 1
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9_-]{0,40}", re.I)
_COMMAND = lazy_pattern(r"/([a-z0-9][a-z0-9_-]*(?::\S*)?)(?:\s+(.*))?", re.I | re.S)
# `#` begins a note only before a letter: an issue (#42), a heading (##) or a shebang (#!) goes to the model.
_NOTE = lazy_pattern(r"#[ \t]*[^\W\d_]")
_PLACE = lazy_pattern(r"\$(ARGUMENTS|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command.

    Args:
        name: The file name without its suffix.
        is_project: True if the command belongs to the folder and is untrusted.
    """

    name: str
    about: str
    text: str
    path: str
    is_project: bool

    def with_arguments(self, words: str) -> str:
        """Return the text with ``$ARGUMENTS`` and ``$1`` to ``$9`` filled in from the typed arguments."""
        try:
            parts = shlex.split(words)
        except ValueError:
            parts = words.split()

        def value(placeholder: re.Match[str]) -> str:
            if placeholder[1] == "ARGUMENTS":
                return words
            number = int(placeholder[1])
            return parts[number - 1] if number <= len(parts) else ""

        filled = _PLACE.sub(value, self.text)
        return filled if filled != self.text or not words else f"{filled}\n\n{words}"


class CustomCommands:
    """The custom commands of the user and of the project.

    Args:
        confirm: Function that asks the user a yes/no question.
    """

    def __init__(self, workspace: Path, confirm: Callable[[str], Awaitable[bool]]) -> None:
        self._workspace, self._confirm = workspace, confirm

    def all(self) -> dict[str, CustomCommand]:
        """Return the commands by name; the user's override the project's."""
        project = self._read_folder(self._workspace, PROJECT_FOLDER, is_project=True)
        return project | self._read_folder(data_folder(), "commands", is_project=False)

    async def task(self, command: CustomCommand, words: str) -> str:
        """Return the task for a command and typed arguments; empty if the user does not trust the command."""
        if not self.is_trusted(command):
            text = blanks_shown(command.text, is_code=True)
            if not await self._confirm(user_text("chat.trust_command", name=command.name, text=text)):
                return ""
            trust_guidance(self._guidance(command))
        return command.with_arguments(words)

    def is_trusted(self, command: CustomCommand) -> bool:
        """Return True if the command belongs to the user, or if the user has trusted the command's text."""
        return not command.is_project or is_trusted(self._guidance(command))

    def _guidance(self, command: CustomCommand) -> Guidance:
        """Return the trust record of a command, valid only for the command's current text."""
        parts = (str(self._workspace), command.name, command.text)
        digest = hashlib.sha256("|".join(f"{len(part)}|{part}" for part in parts).encode("utf-8", "replace"))
        return Guidance((command.name,), f"command-{digest.hexdigest()}")

    def _read_folder(self, root: Path, below: str, *, is_project: bool) -> dict[str, CustomCommand]:
        commands: dict[str, CustomCommand] = {}
        if not (root / below).is_dir():
            return commands
        workspace = Workspace(root)
        for path in sorted((root / below).glob("*.md"))[:MAX_COMMANDS]:
            if not _NAME.fullmatch(path.stem):
                continue
            try:
                with workspace.open_for_reading(
                    f"{below}/{path.name}"
                ) as file:  # rejects links that lead outside
                    text = decoded_text(file.read(MAX_BYTES)) or ""
                is_headed = text.startswith("---")
                head, body, _ = split_front_matter(text, ()) if is_headed else ({}, text, ())
            except (WorkspaceError, PureAgentLoopError, OSError, ValueError):
                continue
            about = str(head.get("description", "")) or body.strip().partition("\n")[0]
            commands[path.stem] = CustomCommand(path.stem, about, body.strip(), str(path), is_project)
        return commands


def command_in(text: str) -> tuple[str, str] | None:
    """Split a text into a command and its arguments; return None if the text is not a command.

    A name consists of letters, digits, ``-`` and ``_``, or is ``SERVER:PROMPT``; ``/etc/hosts`` is text.
    """
    match = _COMMAND.fullmatch(text)
    return None if match is None else (match[1], (match[2] or "").strip())


def sign_of(text: str) -> str:
    """Return the sign at the start of a typed text.

    Returns:
        ``/`` for a command, ``!`` for a shell command, ``#`` for a note; empty for text for the model.
    """
    if command_in(text):
        return "/"
    has_sign = bool(text[1:].strip()) if text.startswith("!") else _NOTE.match(text) is not None
    return text[0] if has_sign else ""


def no_command(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown command, with similar names from `known`."""
    candidates = [command for command in known if ":" in command or ":" not in name]
    meant = nearest(name.lower(), candidates, ALIKE, most=2)
    hint = user_text("chat.did_you_mean", name=", /".join(map(one_line, meant))) if meant else ""
    return user_text("chat.no_command", name=one_line(name, 40), hint=hint)


def own_task(
    task: str, workspace: Path, questions: TerminalQuestions | None, servers: Iterable[str] = ()
) -> str:
    """Expand a task that names a custom command, such as ``/fix 12``; return any other task unchanged.

    Args:
        questions: Asks the user whether to trust a command in the folder.
        servers: Names of MCP servers; their prompts are not expanded here.

    Raises:
        ConfigError: The command is unknown, works only in a conversation, or is not trusted.
    """
    if (command := command_in(task)) is None:
        return task

    async def confirm(question: str) -> bool:
        return questions is not None and questions.confirm(user_text("cli.yes_no"), safe_text(question))

    name, words = command
    commands = CustomCommands(workspace, confirm)
    known = commands.all()
    if name in COMMANDS or (name not in known and name in (*SAME, *HABITS)):
        raise ConfigError(user_text("chat.only_talking", name=name))
    prompts = [f"{server}:" for server in servers]
    if name.startswith(tuple(prompts)):
        return task
    if name not in known:
        raise ConfigError(no_command(name, [*known, *COMMANDS, *prompts]))
    text = asyncio.run(commands.task(known[name], words))
    if not text:
        raise ConfigError(user_text("cli.command_not_trusted", name=name))
    return text
