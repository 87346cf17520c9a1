"""What a shell line is taken apart into, for all who read it or judge it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pure_agent_loop.toolbox.shell.words import Word


@dataclass(frozen=True)
class Simple:
    """One simple command.

    Args:
        words: Its words, the name first.
        assignments: What is set for it, as written: ``("LC_ALL=C",)``.
        text: The command as it stands in the line.
        after_cd: A ``cd`` came before it, so it runs in another folder.
    """

    words: tuple[Word, ...]
    assignments: tuple[str, ...]
    text: str
    after_cd: bool = False


@dataclass(frozen=True)
class Redirect:
    """A redirection: its operator, where it goes, and how it is written."""

    operator: str
    target: Word
    text: str


@dataclass
class Line:
    """What stands in a line. `trouble` says what could not be read; then the rest is only a guess."""

    commands: list[Simple] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
