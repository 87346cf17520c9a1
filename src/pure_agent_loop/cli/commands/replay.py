"""The command ``replay``: replay a recorded session and show the first difference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import add_json, add_options, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import SessionOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import safe_text

if TYPE_CHECKING:
    from pure_agent_loop.sessions import Record

_EPILOG = """\
Exit codes: 0 identical, 1 different (the difference is shown) or unreadable, 2 wrong usage.

examples:
  pal replay trip
  pal replay --file tests/recorded/trip.jsonl
"""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser,
        "Replay the recorded model responses, tool results and times of a session. Nothing "
        "is sent and no tool runs. Stops at the first difference.",
        _EPILOG,
    )
    parser.add_argument("id", metavar="SESSION", nargs="?", help="session ID from 'pal sessions list'")
    add_options(parser, SessionOptions, only=("database",))
    parser.add_argument("--file", metavar="PATH.jsonl", help="session file to replay instead")
    add_json(parser)


def replay(options: argparse.Namespace, output: CommandOutput) -> int:
    """Replay a session and return the exit code."""
    from pure_agent_loop.sessions.replay import replay_session

    records, problems = _read(options)
    if problems:
        output.info(notice("cli.replay_damaged", problems="; ".join(problems)))
    report = replay_session(records)
    if options.json:
        output.json({"identical": report.difference is None, **report.to_dict()})
    else:
        output.result(safe_text(str(report)) + "\n")
    return DONE if report.difference is None else FAILED


def _read(options: argparse.Namespace) -> tuple[list[Record], list[str]]:
    from pure_agent_loop.cli.database import store_for
    from pure_agent_loop.cli.which_session import existing
    from pure_agent_loop.sessions import parse

    if (options.id is None) == (options.file is None):
        raise ConfigError(notice("cli.replay_one"))
    if options.file is None:
        with store_for(options.database) as store:
            loaded = store.read(existing(options.id, store))
        return loaded.records, loaded.problems
    try:
        with Path(options.file).open("rb") as lines:
            parsed = parse(lines)
    except (OSError, ValueError) as error:
        raise ConfigError(notice("cli.cannot_read", file=options.file, error=error)) from error
    return parsed.records, parsed.problems
