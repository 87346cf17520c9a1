"""Parse the command line. Only the named command is imported, so that ``pal --help`` is fast."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from types import ModuleType
from typing import Any, NoReturn

from pure_agent_loop._version import __version__
from pure_agent_loop.support.language import LANGUAGES, in_user_language, notice, user_language, user_text
from pure_agent_loop.support.terminal import fitted, is_terminal, safe_text
from pure_agent_loop.support.variables import KNOWN

CUTOFF = 0.7
_PREFIX = "PAL_"  # prefix of this program's variables
# Group of `pal --help` -> command -> (module, with its package if not `commands`; function; help).
# `add_FUNCTION(parser)` adds the arguments. `FUNCTION(options, output)` runs the command and returns the exit
# code; `options` is an instance of the parser's default ``options_type``, or the namespace without one. The
# function raises PureAgentLoopError, or ResultLostError if standard output cannot be written.
GROUPS = {
    "use": {
        "run": ("run", "run", "run a task"),
        "chat": ("chat", "chat", "chat with the agent at the terminal"),
        "undo": ("undo", "undo", "undo the workspace changes made in a step"),
    },
    "look": {
        "sessions": ("sessions", "sessions", "list, export, fork, repair and delete sessions"),
        "share": ("share", "share", "share a session through a read-only link that expires"),
        "cost": ("cost", "cost", "show what recorded runs cost, and the prices in use"),
        "audit": ("audit", "audit", "show and verify the audit log of tool calls"),
        "replay": ("replay", "replay", "replay a session offline and compare"),
        "agents": ("agents", "agents", "list and stop subagent tasks"),
    },
    "serve": {
        "serve": ("serve", "serve", "serve agents over HTTP"),
        "worker": ("worker", "worker", "run durable tasks until SIGTERM or Ctrl-C"),
        "submit": ("durable", "submit", "submit a durable run"),
        "tasks": ("durable", "tasks", "list, show and delete durable runs"),
        "answer": ("durable", "answer", "answer a question from a durable run"),
        "cancel": ("durable", "cancel", "cancel a durable run"),
        "logs": ("durable", "logs", "show the events of a durable run"),
        "schedule": ("schedule", "schedule", "run agents on a schedule"),
        "acp": ("protocols.acp", "acp", "run as an ACP agent for an editor (stdin/stdout)"),
    },
    "set up": {
        "init": ("init", "init", "write a settings file"),
        "config": ("config", "config", "show effective settings and their origin"),
        "model": ("models", "model", "manage embedded models"),
        "mcp": ("protocols.mcp", "mcp", "manage MCP servers, or run as one"),
        "doctor": ("doctor", "doctor", "check what a model server supports"),
    },
    "more": {
        "eval": ("evaluate", "evaluate", "evaluate an agent or a model with your own cases"),
        "completion": ("completion", "completion", "print a shell completion script"),
    },
}
COMMANDS = {name: row for rows in GROUPS.values() for name, row in rows.items()}
# Default actions of commands, as in ``git stash``. At a terminal ``mcp`` lists servers, else it serves tools.
DEFAULT_ACTIONS = {
    "sessions": "list",
    "config": "show",
    "audit": "list",
    "schedule": "list",
    "model": "list",
    "agents": "list",
}
CONFIGURABLE = ("run", "chat", "doctor", "eval", "serve", "mcp", "acp")  # commands that read settings files
_COMMAND = re.compile(r"[a-z][a-z0-9_-]*")  # a single word of this form is parsed as a command
_SYNONYMS = ({"rm", "remove", "delete", "del"}, {"ls", "list"})  # common synonyms for actions
_ALIKE = 0.75  # a word that is less similar to any command is a task
_START = """\
An agent for your terminal, with any chat model.

pal              talk with the agent in this folder
pal "QUESTION"   begin with a question; -p prints only the answer
pal init         write a settings file: keys, servers, models"""
HELP_ALL = "--help-all"  # True: ``--help`` shows only the main options
_PROFILE = ("-P", "--profile")


def nearest(word: str, known: Iterable[str], cutoff: float = CUTOFF, most: int = 1) -> list[str]:
    """Return the most similar known words, the closest first.

    Args:
        known: The candidates; the last part of a dotted name matches too.
        cutoff: The minimum similarity, from 0 to 1.
    """
    import difflib  # imported lazily: only needed after an error

    by_word = {part: name for name in known for part in (name.rpartition(".")[2], name)}
    return [by_word[match] for match in difflib.get_close_matches(word, by_word, n=most, cutoff=cutoff)]


def did_you_mean(word: str, known: Iterable[str], cutoff: float = CUTOFF, most: int = 1) -> str:
    """Return " Did you mean ...?" with the closest known words; empty if no word is similar."""
    matches = dict.fromkeys(nearest(word, known, cutoff, most))
    if not matches:
        return ""
    words = reduce(lambda first, second: notice("cli.either", first=first, second=second), matches)
    return notice("cli.did_you_mean", words=words)


def misspelt_variables() -> list[str]:
    """Return a warning for each set variable whose name resembles a known one."""
    known = {name.removeprefix(_PREFIX): name for name in KNOWN}
    return [
        notice("cli.unknown_variable", name=name, hint=notice("cli.did_you_mean", words=known[match[0]]))
        for name in os.environ
        if name.startswith(_PREFIX) and name not in KNOWN
        if (match := nearest(name.removeprefix(_PREFIX), known, _ALIKE))
    ]


class _CommandParser(argparse.ArgumentParser):
    inner: _CommandParser | None = None  # the parser of the named command

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})  # abbreviations break when options are added

    def error(self, message: str) -> NoReturn:
        parser = self.inner or self
        full_help = HELP_ALL if parser.has_help_all else "--help"
        hint = in_user_language(self._hint(message))
        text = f"{safe_text(_usage_error(message)).rstrip('.。')}{user_text('cli.stop')}{hint}"
        usage = user_text("cli.usage", command=parser.prog, help=full_help)
        self.exit(2, fitted(f"pal: {user_text('cli.error')}{text}\n{usage}\n", sys.stderr))

    @property
    def has_help_all(self) -> bool:
        """True if ``--help`` shows only the main options."""
        return HELP_ALL in self._option_string_actions

    def format_help(self) -> str:
        """Return the text of ``--help``.

        The program exits after the help text, so that hidden options stay hidden.
        """
        prepare_help(self)
        if not self.has_help_all:
            _group_commands(self)
            return super().format_help()
        from pure_agent_loop.cli.options import MAIN_FLAGS  # not needed by ``pal --help``

        for action in self._actions:
            if action.option_strings and not MAIN_FLAGS & {*action.option_strings}:
                action.help = argparse.SUPPRESS
            # This help shows one long name per option; the aliases are in the full help.
            long = [name for name in action.option_strings if name.startswith("--")]
            action.option_strings = [name for name in action.option_strings if name not in long[1:]]
        more = user_text("cli.all_options", command=f"{self.prog} {HELP_ALL}")
        return f"{super().format_help()}\n{more}\n"

    def _hint(self, message: str) -> str:
        """Return a suggestion of the intended option or action; empty if none is similar."""
        if message.startswith("unrecognized"):
            options = {name for parser in (self, self.inner or self) for name in _options(parser)}
            hints = (
                in_user_language(did_you_mean(option, options, most=2))
                for option in re.findall(r"--[\w-]+", message)
            )
            suggestion = "".join(dict.fromkeys(hints))
            return suggestion or (
                notice("cli.put_dashes") if self.inner and self.inner.prog.endswith(" mcp") else ""
            )
        match = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if match is None:
            return ""
        actions = re.findall(r"[\w-]+", match[2])
        same = (name for group in _SYNONYMS if match[1] in group for name in actions if name in group)
        return did_you_mean(next(same, match[1]), actions)


def _group_commands(parser: argparse.ArgumentParser) -> None:
    """Move the commands of ``pal`` to their groups, before the options."""
    titled = {group.title: group for group in parser._action_groups}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and GROUPS.keys() <= titled.keys():
            for choice in action._choices_actions:
                title = next(title for title, commands in GROUPS.items() if choice.dest in commands)
                titled[title]._group_actions.append(choice)
            action.help = argparse.SUPPRESS
            action._choices_actions = []
            parser._action_groups.append(parser._action_groups.pop(1))


def prepare_help(parser: argparse.ArgumentParser) -> None:
    """Let a parser format its help for the terminal, in the user's language."""
    # Imported lazily: only needed for help.
    from pure_agent_loop.cli.translated_help import TranslatedHelp, WrappedHelp

    parser.formatter_class = WrappedHelp if user_language() == LANGUAGES[0] else TranslatedHelp


def _usage_error(message: str) -> str:
    if user_language() == LANGUAGES[0]:
        return message
    from pure_agent_loop.cli.translated_help import usage_error

    return usage_error(message)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        prepare_help(parser)
        # The parsers of `pal` override `format_help` to show only the main options.
        parser._print_message(argparse.ArgumentParser.format_help(parser), sys.stdout)
        parser.exit()


class _VersionAction(argparse._VersionAction):
    def __call__(self, parser: argparse.ArgumentParser, *others: Any) -> None:
        parser._print_message(namesakes_notice(), sys.stderr)
        super().__call__(parser, *others)


def namesakes_notice() -> str:
    """Return a line for each package of another project that has this package's name."""
    from pure_agent_loop.support.install import namesakes

    lines = (user_text("cli.namesake", **other._asdict()) for other in namesakes())
    return "".join(f"pal: {safe_text(line)}\n" for line in lines)


def add_help_all(parser: argparse.ArgumentParser, arguments: str = "") -> None:
    """Add ``--help-all``; ``--help`` then shows only the main options.

    Args:
        arguments: The arguments after the options, as shown in the usage line.
    """
    parser.usage = f"{parser.prog} [OPTIONS] {arguments}".rstrip()
    parser.add_argument(
        HELP_ALL, action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="show all options and exit"
    )


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings if action.help != argparse.SUPPRESS else ()
        if isinstance(action.choices, dict):
            for subparser in action.choices.values():
                yield from _options(subparser)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. ``pal "..."`` and ``pal -p "..."`` mean ``pal run``; ``pal`` means ``pal chat``.

    Args:
        argv: The arguments after the program name.

    Returns:
        The options; `typed_options` holds the names of the typed options.

    Raises:
        SystemExit: Wrong usage (code 2), or help or version printed (code 0).
    """
    words = _with_command(list(argv))
    parser = make_parser({words[0]})
    options = parser.parse_args(words)
    options.typed_options, options.command_line = _typed_options(parser, words), words
    if options.command == "run" and (not argv or argv[0] != "run"):
        options.command = "chat" if can_chat(options) else "run"
    return options


def _with_command(words: list[str]) -> list[str]:
    """Return the words with a command as the first word."""
    first = words[0] if words else ""
    is_action_missing = not words[1:] or (words[1][:1] == "-" and words[1] not in ("-h", "--help"))
    if first in DEFAULT_ACTIONS and is_action_missing:
        return [first, DEFAULT_ACTIONS[first], *words[1:]]
    if words == ["mcp"] and is_terminal(sys.stdin):
        return ["mcp", "list"]
    if first in ("-h", "--help", "--version") or first in COMMANDS:
        return words
    if first == "help":
        return [*words[1:2], "--help"]
    ahead = 2 if first in _PROFILE else 1 if first.startswith("--profile=") else 0
    if ahead and words[ahead : ahead + 1] and words[ahead] in COMMANDS:
        return [*words[ahead:], *words[:ahead]]
    is_alone = all(word.startswith("-") for word in words[1:2])
    suggestion = did_you_mean(first, COMMANDS, _ALIKE) if first.isidentifier() else ""
    if suggestion or (is_alone and _COMMAND.fullmatch(first)):
        make_parser(()).error(user_text("cli.unknown_command", command=first, suggestion=suggestion))
    return ["run", *words]


def can_chat(options: Any) -> bool:
    """Return True if standard input and output are a terminal and no option excludes a conversation."""
    is_script = (
        options.quiet
        or options.explain
        or options.explain_run
        or {options.output_format, options.input_format} != {"text"}
    )
    return not is_script and is_terminal(sys.stdin) and is_terminal(sys.stdout)


def _typed_options(parser: _CommandParser, words: list[str]) -> frozenset[str]:
    """Return the names of the typed options; settings fill in the other options."""
    if words[0] not in CONFIGURABLE or parser.inner is None:
        return frozenset()
    for action in parser.inner._actions:
        action.default = argparse.SUPPRESS
    names = {action.dest for action in parser.inner._actions}
    return frozenset(names & vars(parser.inner.parse_known_args(words[1:])[0]).keys())


def make_parser(loaded: Collection[str] = tuple(COMMANDS)) -> _CommandParser:
    """Return the parser of the command line; arguments are added only to the `loaded` commands.

    Its attribute `inner` is the parser of the last loaded command.
    """
    parser = _CommandParser(
        prog="pal",
        usage="pal [-h] [--version] COMMAND ...",
        description=_START,
        epilog="'pal COMMAND --help' shows the options of a command. 'pal run WORD' runs a one-word task.",
    )
    parser.add_argument("--version", action=_VersionAction, version=f"pure-agent-loop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", prog="pal", required=True)
    for title in GROUPS:
        parser.add_argument_group(title)
    for command, (_, function, summary) in COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        subparser = commands.add_parser(command, help=summary, description=description)
        if command in loaded:
            parser.inner = subparser
            getattr(module_of(command), f"add_{function}")(subparser)
    return parser


def module_of(command: str) -> ModuleType:
    """Import and return the module of a command."""
    module = COMMANDS[command][0]
    return importlib.import_module(f"pure_agent_loop.cli.{module if '.' in module else f'commands.{module}'}")


def run_command(options: argparse.Namespace, output: Any) -> int:
    """Run the parsed command and return the exit code."""
    from pure_agent_loop.cli.arguments import read_options  # not needed by ``pal --help``

    function = getattr(module_of(options.command), COMMANDS[options.command][1])
    table = getattr(options, "options_type", None)
    exit_code: int = function(options if table is None else read_options(table, options), output)
    return exit_code
