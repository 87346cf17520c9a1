"""The command line as plain data: the parser, taken apart."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PLACES = {"DIR": "folder", "FILE": "file"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option or an argument.

    Args:
        words: How it is typed; empty for an argument.
        about: What it is for.
        value: What its value is called; empty if it takes none.
        choices: The values it can have; empty for any.
    """

    words: tuple[str, ...]
    about: str
    value: str
    choices: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What completes its value: ``choices``, ``folder``, ``file``, ``any``; empty if it takes none."""
        return "choices" if self.choices else _PLACES.get(self.value, "any") if self.value else ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of one.

    Args:
        path: How it is typed after the program's name.
        about: What it is for.
        description: The same in more words.
        epilog: What stands below its options.
        options: Its options, and then its arguments.
        commands: What can follow, by name.
    """

    path: tuple[str, ...]
    about: str
    description: str
    epilog: str
    options: tuple[Option, ...]
    commands: Mapping[str, Command]

    def all(self) -> Iterator[Command]:
        """Itself and everything below."""
        yield self
        for each in self.commands.values():
            yield from each.all()


def outline(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> Command:
    """Take a parser apart.

    Args:
        parser: The whole one, or that of a command.
        path: The words that lead to it.
    """
    below: dict[str, Command] = {}
    options: list[Option] = []
    arguments: list[Option] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            help_of = {each.dest: each.help or "" for each in action._choices_actions}
            for name, inner in action.choices.items():
                below[name] = outline(inner, (*path, name), help_of.get(name, ""))
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else arguments).append(_option(action))
    return Command(path, about, parser.description or "", parser.epilog or "", (*options, *arguments), below)


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    value = "" if action.nargs == 0 else ",".join(choices) or name
    return Option(tuple(action.option_strings), action.help or "", value, choices)
