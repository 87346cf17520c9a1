"""The command ``replay``: run the loop again over what a session recorded, and show the first difference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import add_database, add_json, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import safe_text

if TYPE_CHECKING:
    from pure_agent_loop.sessions import Record

_EPILOG = """\
Exit codes: 0 it came out as it was recorded, 1 something differs (it is shown) or cannot be read,
2 wrong usage.

examples:
  pal replay trip
  pal replay --file tests/recorded/trip.jsonl
"""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(
        parser,
        "Run the loop again over the recorded model answers, tool results and times of a "
        "session. Nothing is sent and no tool runs. Stops at the first difference.",
        _EPILOG,
    )
    parser.add_argument("id", metavar="SESSION", nargs="?", help="a session of 'pal sessions list'")
    add_database(parser)
    parser.add_argument("--file", metavar="PATH.jsonl", help="a session's file instead")
    add_json(parser)


def replay(options: argparse.Namespace, output: Output) -> int:
    """Replay a session and return the exit code."""
    from pure_agent_loop.sessions.replay import replay_session

    records, problems = _read(options)
    if problems:
        output.say(f"the session is damaged: {'; '.join(problems)}")
    report = replay_session(records)
    if options.json:
        output.json({"identical": report.difference is None, **report.to_dict()})
    else:
        output.result(safe_text(str(report)) + "\n")
    return DONE if report.difference is None else FAILED


def _read(options: argparse.Namespace) -> tuple[list[Record], list[str]]:
    from pure_agent_loop.cli.which_session import existing, store_for
    from pure_agent_loop.sessions import parse

    if (options.id is None) == (options.file is None):
        raise ConfigError("Name one session: pal replay SESSION, or pal replay --file PATH.jsonl")
    if options.file is None:
        with store_for(options.database) as store:
            loaded = store.read(existing(options.id, store))
        return loaded.records, loaded.problems
    try:
        with Path(options.file).open("rb") as lines:
            found = parse(lines)
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {options.file}: {error}") from error
    return found.records, found.problems
