"""The command line as plain data, extracted from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PATH_KINDS = {"DIR": "folder", "FILE": "file"}


@dataclass(frozen=True, slots=True)
class OptionOutline:
    """An option or an argument.

    Args:
        words: The option strings; empty for an argument.
        value: The metavar; empty if the option takes no value.
        choices: The valid values; empty for any value.
    """

    words: tuple[str, ...]
    about: str
    value: str
    choices: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Kind of completion: ``choices``, ``folder``, ``file`` or ``any``; empty without a value."""
        return "choices" if self.choices else _PATH_KINDS.get(self.value, "any") if self.value else ""


@dataclass(frozen=True, slots=True)
class CommandOutline:
    """A command or subcommand.

    Args:
        path: The words after the program name.
        options: The options, followed by the arguments.
    """

    path: tuple[str, ...]
    about: str
    description: str
    epilog: str
    options: tuple[OptionOutline, ...]
    commands: Mapping[str, CommandOutline]

    def all(self) -> Iterator[CommandOutline]:
        """Yield the command and all its subcommands."""
        yield self
        for command in self.commands.values():
            yield from command.all()


def outline(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> CommandOutline:
    """Extract the outline of a parser."""
    commands: dict[str, CommandOutline] = {}
    options: list[OptionOutline] = []
    arguments: list[OptionOutline] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            help_of = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                commands[name] = outline(inner, (*path, name), help_of.get(name, ""))
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else arguments).append(_option(action))
    return CommandOutline(
        path, about, parser.description or "", parser.epilog or "", (*options, *arguments), commands
    )


def _option(action: argparse.Action) -> OptionOutline:
    choices = tuple(map(str, action.choices or ()))
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    value = "" if action.nargs == 0 else ",".join(choices) or name
    return OptionOutline(tuple(action.option_strings), action.help or "", value, choices)
