"""The command line as a whole. Only the command that is named is loaded, so ``pal --help`` is instant."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

from pure_agent_loop._version import __version__
from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.support.terminal import is_terminal, safe_text

# Of each command: the module (with its room, if not `commands`), the name there, and what it is for.
# `add_NAME(parser)` adds its arguments;
# `NAME(options, output)` does it and returns the exit code, or raises PureAgentLoopError, or ResultLostError
# when standard output takes nothing more.
COMMANDS = {
    "run": ("run", "run", "do a task"),
    "chat": ("chat", "chat", "talk with it at the terminal"),
    "init": ("init", "init", "write settings, with what is at hand"),
    "config": ("config", "config", "see which settings are in force, and where they come from"),
    "model": ("models", "model", "the embedded model"),
    "eval": ("evaluate", "evaluate", "measure how well a model calls tools, or an agent does its work"),
    "doctor": ("doctor", "doctor", "find out what a model server can do"),
    "sessions": ("sessions", "sessions", "see, export, fork, repair and delete sessions"),
    "replay": ("replay", "replay", "run a session again, offline, and compare"),
    "audit": ("audit", "audit", "see which tools were called, and check that the record is whole"),
    "undo": ("undo", "undo", "take back what a step changed in the workspace"),
    "serve": ("serve", "serve", "serve agents to pages and programs"),
    "acp": ("protocols.acp", "acp", "work for an editor, which speaks to it on standard input"),
    "worker": ("worker", "worker", "work on durable runs until SIGTERM or Ctrl-C"),
    "submit": ("durable", "submit", "submit a durable run"),
    "tasks": ("durable", "tasks", "the durable runs, the newest first"),
    "cancel": ("durable", "cancel", "cancel a durable run"),
    "answer": ("durable", "answer", "answer a question of a durable run"),
    "logs": ("durable", "logs", "what happened in a durable run"),
    "schedule": ("schedule", "schedule", "run agents again and again"),
    "mcp": ("protocols.mcp", "mcp", "use servers of tools (MCP), or be one"),
    "agents": ("agents", "agents", "see and stop tasks of subagents"),
    "completion": ("paper", "completion", "print what a shell needs to complete these commands"),
    "man": ("paper", "man", "print the manual page"),
}
SETTLED = ("run", "chat", "doctor", "eval", "serve", "mcp", "acp")  # commands that settings are for
_ALIKE = 0.75  # words that are less like a command are a question
_PROFILE = ("-P", "--profile")
_USAGE = 'usage: {0} [OPTIONS] ...; all of it: {0} --help; to ask something: pal "your question"'


_DASHES = " Put -- before the command of a server."


class _Parser(argparse.ArgumentParser):
    inner: argparse.ArgumentParser | None = None  # of the command that is named

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})  # they would change meaning later

    def error(self, message: str) -> NoReturn:
        told = (self.inner or self).prog
        words = f"{safe_text(message).rstrip('.')}.{self._hint(message)}"
        self.exit(2, f"pal: error: {words}\n{_USAGE.format(told)}\n")

    def _hint(self, message: str) -> str:
        """What may have been meant by an option, or by the choice of an action."""
        if message.startswith("unrecognized"):
            known = {each for parser in (self, self.inner or self) for each in _options(parser)}
            hints = (did_you_mean(each, known, most=2) for each in re.findall(r"--[\w-]+", message))
            meant = "".join(dict.fromkeys(hints))
            return meant or (_DASHES if self.inner and self.inner.prog.endswith(" mcp") else "")
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        return did_you_mean(found[1], re.findall(r"[\w-]+", found[2])) if found else ""


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings if action.help != argparse.SUPPRESS else ()
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from _options(below)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line. ``pal "..."`` and ``pal -p "..."`` mean ``pal run``; ``pal`` alone is a chat.

    Args:
        argv: The words after the program's name.

    Returns:
        The options; `given` has the names of those that were typed.

    Raises:
        SystemExit: It is wrong (code 2), or asked for help or the version (code 0).
    """
    words = _with_command(list(argv))
    parser = _parser({words[0]})
    options = parser.parse_args(words)
    options.given = _given(parser, words)
    if options.command == "run" and (not argv or argv[0] != "run"):
        options.command = _alone(options)
    return options


def _with_command(words: list[str]) -> list[str]:
    """The words with a command in front."""
    first = words[0] if words else ""
    if first in ("-h", "--help", "--version") or first in COMMANDS:
        return words
    if first == "help":
        return [*words[1:2], "--help"]
    ahead = 2 if first in _PROFILE else 1 if first.startswith("--profile=") else 0
    if ahead and words[ahead : ahead + 1] and words[ahead] in COMMANDS:
        return [*words[ahead:], *words[:ahead]]
    meant = did_you_mean(first, COMMANDS, _ALIKE) if first.isidentifier() else ""
    if meant:
        _parser(()).error(f"there is no command {first!r}.{meant} To ask that: pal run {first}")
    return ["run", *words]


def _alone(options: argparse.Namespace) -> str:
    """A person at a terminal wants to talk."""
    asked = options.quiet or options.explain or {options.output_format, options.input_format} != {"text"}
    return "run" if asked or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)) else "chat"


def _given(parser: _Parser, words: list[str]) -> frozenset[str]:
    """The names of the options that were typed; settings fill in the others."""
    if words[0] not in SETTLED or parser.inner is None:
        return frozenset()
    for action in parser.inner._actions:
        action.default = argparse.SUPPRESS
    return frozenset(vars(parser.inner.parse_known_args(words[1:])[0]))


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command, with its arguments."""
    found = _parser({command}).inner
    assert found is not None
    return found


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands, all of them loaded."""
    return _parser(COMMANDS)


def _parser(loaded: Collection[str]) -> _Parser:
    """The parser of the whole command line; of the commands, only those named know their arguments."""
    parser = _Parser(
        prog="pal",
        description="One explicit agent loop for any chat model.",
        epilog='Shortest use: pal "Which files are in this folder?"',
    )
    parser.add_argument("--version", action="version", version=f"pure-agent-loop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, function, meaning) in COMMANDS.items():
        described = f"{meaning[0].upper()}{meaning[1:]}."
        added = commands.add_parser(command, help=meaning, description=described)
        if command in loaded:
            parser.inner = added
            getattr(module_of(command), f"add_{function}")(added)
    return parser


def module_of(command: str) -> ModuleType:
    """The module of a command, loaded when it is needed."""
    place = COMMANDS[command][0]
    return importlib.import_module(f"pure_agent_loop.cli.{place if '.' in place else f'commands.{place}'}")


def run_command(options: argparse.Namespace, output: Any) -> int:
    """Do what a command line says and return the exit code.

    Args:
        options: What `parse` gave.
    """
    function = getattr(module_of(options.command), COMMANDS[options.command][1])
    exit_code: int = function(options, output)
    return exit_code
