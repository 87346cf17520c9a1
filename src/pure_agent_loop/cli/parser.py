"""The command line as a whole. Only the command that is named is loaded, so ``pal --help`` is instant."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from pure_agent_loop._version import __version__
from pure_agent_loop.support.terminal import safe_text

# Of each command: the module, the name there, and what it is for. `add_NAME(parser)` adds its arguments;
# `NAME(options, output)` does it and returns the exit code, or raises PureAgentLoopError, or ResultLostError
# when standard output takes nothing more.
COMMANDS = {
    "run": ("run", "run", "do a task"),
    "model": ("models", "model", "the embedded model"),
    "eval": ("evaluate", "evaluate", "measure how well a model calls tools, or an agent does its work"),
    "doctor": ("doctor", "doctor", "find out what a model server can do"),
    "sessions": ("sessions", "sessions", "see, export, fork, repair and delete sessions"),
    "replay": ("replay", "replay", "run a session again, offline, and compare"),
    "audit": ("audit", "audit", "see which tools were called, and check that the record is whole"),
    "undo": ("undo", "undo", "take back what a step changed in the workspace"),
    "worker": ("worker", "worker", "work on durable runs until SIGTERM or Ctrl-C"),
    "submit": ("durable", "submit", "submit a durable run"),
    "tasks": ("durable", "tasks", "the durable runs, the newest first"),
    "cancel": ("durable", "cancel", "cancel a durable run"),
    "answer": ("durable", "answer", "answer a question of a durable run"),
    "logs": ("durable", "logs", "what happened in a durable run"),
    "schedule": ("schedule", "schedule", "run agents again and again"),
    "agents": ("agents", "agents", "see and stop tasks of subagents"),
}


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})  # they would change meaning later

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        hint = ""
        if "invalid choice" in message and "COMMAND" in message:
            hint = '\nTo ask something: pal run "your question"'
        self.exit(2, f"{self.prog}: error: {safe_text(message)}{hint}\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line. ``pal -p "..."`` is short for ``pal run -p "..."``.

    Args:
        argv: The words after the program's name.

    Raises:
        SystemExit: It is wrong (code 2), or asked for help or the version (code 0).
    """
    words = list(argv)
    if words and words[0] in ("-p", "--print"):
        words.insert(0, "run")
    named = next((word for word in words if not word.startswith("-")), "")
    return _parser(named).parse_args(words)


def _parser(named: str) -> _Parser:
    """The parser of the whole command line; of the commands, only the one named knows its arguments."""
    parser = _Parser(
        prog="pal",
        description="One explicit agent loop for any chat model.",
        epilog='Shortest use: pal run "Which files are in this folder?"',
    )
    parser.add_argument("--version", action="version", version=f"pure-agent-loop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, function, meaning) in COMMANDS.items():
        described = f"{meaning[0].upper()}{meaning[1:]}."
        added = commands.add_parser(command, help=meaning, description=described)
        if command == named:
            getattr(module_of(command), f"add_{function}")(added)
    return parser


def module_of(command: str) -> ModuleType:
    """The module of a command, loaded when it is needed."""
    return importlib.import_module(f"pure_agent_loop.cli.commands.{COMMANDS[command][0]}")


def run_command(options: argparse.Namespace, output: Any) -> int:
    """Do what a command line says and return the exit code.

    Args:
        options: What `parse` gave.
        output: Where to write.
    """
    function = getattr(module_of(options.command), COMMANDS[options.command][1])
    exit_code: int = function(options, output)
    return exit_code
