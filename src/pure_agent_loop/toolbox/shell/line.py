"""The parsed form of a shell line."""

from __future__ import annotations

from dataclasses import dataclass, field

from pure_agent_loop.toolbox.shell.words import Word


@dataclass(frozen=True)
class Simple:
    """One simple command.

    Args:
        words: The words of the command, the name first.
        assignments: The variable assignments, as written: ``("LC_ALL=C",)``.
        after_cd: The command follows a ``cd``, so it runs in another folder.
    """

    words: tuple[Word, ...]
    assignments: tuple[str, ...]
    text: str
    after_cd: bool = False


@dataclass(frozen=True)
class Redirect:
    """A redirection: its operator, its target, and its text."""

    operator: str
    target: Word
    text: str


@dataclass
class ShellLine:
    """A parsed line. `trouble` lists what could not be parsed; if not empty, the rest is only a guess."""

    commands: list[Simple] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
