"""The situation of an assistant: the facts that come with a task, after the unchanging system prompt."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.support.language import default_language, message_in, model_text
from pure_agent_loop.support.repository import GitFolders, git_folders, read_plain
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.limits import LoopLimits
    from pure_agent_loop.toolbox import Shell

_MAX_NAMES = 20  # maximum changed files to name
_MAX_HEAD = 1_000
_LIMITS = ("max_turns", "max_tool_calls", "max_tokens", "max_cost", "max_seconds")
_BRANCH = "ref: refs/heads/"


@dataclass(frozen=True, slots=True)
class Situation:
    """Working folder, date and permissions of an assistant, for ``Agent(facts=Situation(...).text)``.

    Args:
        folder: The working folder.
        shell: The shell of the assistant; None if it has none.
        mode: Permission mode; empty if no tool changes anything.
        is_attended: True if a person can answer questions now.
        limits: The limits of a run, as `LoopLimits` or by name.
        remembered: The newest part of memory.
        about: Facts to begin with, instead of a heading and the date; see `ContextBuilder.note`.
    """

    folder: Path
    shell: Shell | None = None
    mode: str = ""
    is_attended: bool = False
    limits: LoopLimits | Mapping[str, Any] = field(default_factory=dict)
    remembered: str = ""
    about: str = ""

    async def text(self) -> str:
        """Return the current facts, one per line."""
        about = self.about or model_text(
            "facts", date=date_text(datetime.now().astimezone(), default_language())
        )
        return "\n".join([about, *[line async for line in self._lines()]])

    async def _lines(self) -> AsyncIterator[str]:
        yield model_text("facts_folder", folder=_shown(self.folder))
        yield model_text("facts_system", system=platform.system(), machine=platform.machine())
        git = git_folders(self.folder)
        if git is None:
            yield model_text("facts_no_git")
        else:
            yield await self._git(git)
        yield model_text(f"facts_mode_{self.mode}" if self.mode else "facts_reading")
        if self.shell is not None:
            yield self._commands(self.shell)
            if running := self.shell.background_facts():
                yield running
        yield model_text("facts_attended" if self.is_attended else "facts_unattended")
        given = self.limits if isinstance(self.limits, Mapping) else asdict(self.limits)
        limits = [f"{name}={value}" for name, value in given.items() if name in _LIMITS and value is not None]
        if limits:
            yield model_text("facts_limits", limits=", ".join(limits))
        if self.remembered:
            yield one_fact(f"{model_text('folder_notes')}\n{self.remembered}")

    async def _git(self, git: GitFolders) -> str:
        try:
            head = read_plain(git.own / "HEAD", _MAX_HEAD).decode("utf-8", "replace").strip()
        except OSError:
            head = "?"
        branch = head[len(_BRANCH) :] if head.startswith(_BRANCH) else head[:12]
        about = {"top": _shown(git.top), "branch": one_line(branch, 200)}
        status = None if self.shell is None else await self.shell.look("git status --porcelain")
        if status is None:
            return model_text("facts_git", **about)
        names = [line[3:] for line in status.splitlines()]
        shown = one_line(", ".join(names[:_MAX_NAMES]), 1_000) + (", ..." if names[_MAX_NAMES:] else "")
        changed = model_text("facts_changed", count=len(names), names=shown) if names else ""
        return model_text("facts_git", **about) + (changed or model_text("facts_unchanged"))

    @staticmethod
    def _commands(shell: Shell) -> str:
        if shell.sandbox.name == "none":
            return model_text("facts_no_sandbox")
        network = model_text("facts_network" if shell.has_network else "facts_no_network")
        return model_text("facts_sandbox", name=shell.sandbox.name, network=network)


def date_text(now: datetime, language: str) -> str:
    """Return the date without the time, which would change from task to task."""
    day = message_in(language, "facts_days").split()[now.weekday()]
    return message_in(language, "facts_date", date=f"{now:%Y-%m-%d}", day=day, zone=f"{now:%Z}")


def one_fact(text: str) -> str:
    """Return a fact with all lines but the first indented."""
    return "\n  ".join(text.splitlines())


def _shown(path: Path) -> str:
    return one_line(os.fspath(path), 4_000)
