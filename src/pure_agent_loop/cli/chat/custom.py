"""Commands that people wrote: Markdown files whose text becomes the task, with arguments in it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.cli.chat.words import COMMANDS, HABITS, SAME, chat_word
from pure_agent_loop.cli.nearest import nearest
from pure_agent_loop.cli.questions import Questions, blanks_shown
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.front_matter import split_front_matter
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.workspace import Workspace

PROJECT_FOLDER = ".agents/commands"
MOST_BYTES, MOST_COMMANDS = 100_000, 200
ALIKE = 0.5  # how much a name must be like another one to be named beside it, from 0 to 1
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9_-]{0,40}", re.I)
_COMMAND = lazy_pattern(r"/([a-z0-9][a-z0-9_-]*(?::\S*)?)(?:\s+(.*))?", re.I | re.S)
_PLACE = lazy_pattern(r"\$(ARGUMENTS|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """One of them.

    Args:
        name: Of the file, without its ending.
        about: What it is for.
        text: What the model is told.
        path: The file, for people.
        is_project: It came with the folder, and so perhaps from a stranger.
    """

    name: str
    about: str
    text: str
    path: str
    is_project: bool

    def with_arguments(self, words: str) -> str:
        """The text with what was typed behind the command for ``$ARGUMENTS``, ``$1`` to ``$9``."""
        try:
            parts = shlex.split(words)
        except ValueError:
            parts = words.split()

        def value(found: re.Match[str]) -> str:
            if found[1] == "ARGUMENTS":
                return words
            number = int(found[1])
            return parts[number - 1] if number <= len(parts) else ""

        filled = _PLACE.sub(value, self.text)
        return filled if filled != self.text or not words else f"{filled}\n\n{words}"


class CustomCommands:
    """Those of the user and those of the project.

    Args:
        workspace: The project's folder.
        confirm: Asks the person.
    """

    def __init__(self, workspace: Path, confirm: Callable[[str], Awaitable[bool]]) -> None:
        self._workspace, self._confirm = workspace, confirm

    def all(self) -> dict[str, CustomCommand]:
        """By name; one of the user stands before one of the project."""
        project = self._in(self._workspace, PROJECT_FOLDER, is_project=True)
        return project | self._in(data_folder(), "commands", is_project=False)

    async def task(self, command: CustomCommand, words: str) -> str:
        """What the model is to be told; empty if the person does not trust it.

        Args:
            command: Which.
            words: What was typed behind it.
        """
        if not self.is_trusted(command) and not await self._agreed(command):
            return ""
        return command.with_arguments(words)

    def is_trusted(self, command: CustomCommand) -> bool:
        """Whether it is the user's own, or a person has trusted what it says."""
        return not command.is_project or self._place(command).exists()

    def _place(self, command: CustomCommand) -> Path:
        parts = (str(self._workspace), command.name, command.text)
        digest = hashlib.sha256("|".join(f"{len(part)}|{part}" for part in parts).encode("utf-8", "replace"))
        return data_folder() / "trusted" / f"command-{digest.hexdigest()}"

    async def _agreed(self, command: CustomCommand) -> bool:
        place = self._place(command)
        text = blanks_shown(command.text, is_code=True)
        question = chat_word("trust_command", name=command.name, text=text)
        if not await self._confirm(question):
            return False
        private_folder(place.parent)
        place.touch(mode=0o600)
        return True

    def _in(self, root: Path, below: str, *, is_project: bool) -> dict[str, CustomCommand]:
        found: dict[str, CustomCommand] = {}
        if not (root / below).is_dir():
            return found
        workspace = Workspace(root)
        for path in sorted((root / below).glob("*.md"))[:MOST_COMMANDS]:
            if not _NAME.fullmatch(path.stem):
                continue
            try:
                with workspace.open_for_reading(f"{below}/{path.name}") as file:  # no link leads out
                    text = file.read(MOST_BYTES).decode("utf-8", "replace")
                head, body = split_front_matter(text) if text.startswith("---") else ({}, text)
            except (WorkspaceError, PureAgentLoopError, OSError, ValueError):
                continue
            about = str(head.get("description", "")) or body.strip().partition("\n")[0]
            found[path.stem] = CustomCommand(path.stem, about, body.strip(), str(path), is_project)
        return found


def command_in(text: str) -> tuple[str, str] | None:
    """The command that a text names, and what stands behind it; None for other texts, also with a slash.

    A name is letters, digits, ``-`` and ``_``; ``SERVER:PROMPT`` is one, too. So ``/etc/hosts`` is none.
    """
    found = _COMMAND.fullmatch(text)
    return None if found is None else (found[1], (found[2] or "").strip())


def no_command(name: str, known: Iterable[str]) -> str:
    """What a person is told who named a command that is not there.

    Args:
        known: The names there are.
    """
    alike = [each for each in known if ":" in each or ":" not in name]
    meant = nearest(name.lower(), alike, ALIKE, most=2)
    hint = chat_word("did_you_mean", name=", /".join(map(one_line, meant))) if meant else ""
    return chat_word("no_command", name=one_line(name, 40), hint=hint)


def own_task(task: str, workspace: Path, questions: Questions | None, servers: Iterable[str] = ()) -> str:
    """A task that names a command of the person's own, such as ``/fix 12``, as that command says it.

    Args:
        task: What was typed.
        workspace: The folder, which may have commands too.
        questions: The person, who is asked about those.
        servers: Their names; what a prompt of theirs says is for them to know.

    Raises:
        ConfigError: It names no command, or one of the conversation, or one of the folder that nobody has
            trusted.
    """
    if (command := command_in(task)) is None:
        return task

    async def confirm(question: str) -> bool:
        return questions is not None and questions.confirm("[y]es, [n]o: ", safe_text(question))

    name, words = command
    commands = CustomCommands(workspace, confirm)
    known = commands.all()
    if name in COMMANDS or (name not in known and name in (*SAME, *HABITS)):
        raise ConfigError(chat_word("only_talking", name=name))
    prompts = [f"{each}:" for each in servers]
    if name.startswith(tuple(prompts)):
        return task
    if name not in known:
        raise ConfigError(no_command(name, [*known, *COMMANDS, *prompts]))
    text = asyncio.run(commands.task(known[name], words))
    if not text:
        raise ConfigError(
            f"/{name} came with this folder and nobody has trusted it. Start pal and type /{name}."
        )
    return text
