"""The command line, as far as it is about sessions."""

from __future__ import annotations

import argparse
from typing import Any

from pure_agent_loop.support.numbers import positive

FORMATS = ("markdown", "html", "jsonl")
DEFAULT_LISTED = 20

_EPILOG = """\
examples:
  pal run --session trip "Plan a day in Oslo."
  pal sessions list
  pal sessions show trip
  pal sessions export trip --format html -o trip.html
  pal sessions fork trip --at 2 --as other-trip
"""


def add_session_options(group: argparse._ArgumentGroup) -> None:
    """Add what ``run`` takes.

    Args:
        group: Where.
    """
    which = group.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="keep the run in a session of that name, new or old")
    which.add_argument(
        "--continue",
        action="store_true",
        dest="go_on",
        help="go on with the session used last; without a task, with what was being done",
    )
    which.add_argument("--resume", metavar="ID", help="go on with that session, with or without a task")
    add_database(group)


def add_database(parser: Any) -> None:
    """Add the option that says where sessions are.

    Args:
        parser: A parser or a group.
    """
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the session is one of a database of durable runs: sqlite:///PATH or postgresql://... "
        "(default: a file in the data folder)",
    )


def add_sessions(commands: Any) -> None:
    """Add the command ``sessions``.

    Args:
        commands: The sub-parsers of the whole command line.
    """
    sessions = commands.add_parser(
        "sessions",
        help="see, export, fork, repair and delete sessions",
        description="See and change the sessions that 'pal run --session' keeps.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = sessions.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the sessions, the one used last first", allow_abbrev=False)
    listing.add_argument(
        "-n", "--limit", type=positive, default=DEFAULT_LISTED, metavar="N", help="how many (default: 20)"
    )
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    add_database(listing)
    listing.add_argument("--all", action="store_true", help="also the sessions of subagents")
    show = _with_id(actions, "show", "what happened in a session; long texts are shortened")
    show.add_argument("--json", action="store_true", help="print one JSON object with all records")
    export = _with_id(actions, "export", "a session as a document, in full")
    export.add_argument("--format", choices=FORMATS, required=True, help="of the document")
    export.add_argument("-o", "--output", metavar="FILE", help="write it there instead of standard output")
    fork = _with_id(actions, "fork", "a new session that begins as another one did")
    fork.add_argument("--at", type=positive, metavar="N", help="the last step to copy (default: all)")
    fork.add_argument("--as", dest="new_id", metavar="NEW", help="the name of the new one")
    delete = actions.add_parser("delete", help="take sessions away", allow_abbrev=False)
    delete.add_argument("ids", nargs="+", metavar="ID", help="a session")
    add_database(delete)
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _with_id(actions, "repair", "write what is whole in a damaged session into a new one")


def _with_id(actions: Any, name: str, meaning: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=meaning, allow_abbrev=False)
    parser.add_argument("id", metavar="ID", help="the session")
    add_database(parser)
    return parser
