"""The command line, as far as it is about the audit log."""

from __future__ import annotations

import argparse
import math
import re
import time
from datetime import datetime
from typing import Any

from pure_agent_loop.support.numbers import positive

DEFAULT_LISTED = 20
_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

_EPILOG = """\
Exit codes of 'verify': 0 the log is whole, 1 it is damaged or there is none, 2 wrong usage.

examples:
  pal audit list --since 2h --status error
  pal audit list --session trip --tool write_file --json
  pal audit show 17
  pal audit verify
"""


def add_audit(commands: Any) -> None:
    """Add the command ``audit``.

    Args:
        commands: The sub-parsers of the whole command line.
    """
    audit = commands.add_parser(
        "audit",
        help="see which tools were called, and check that the record is whole",
        description="See the audit log of tool calls, and check that nobody has changed it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = audit.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = _with_file(actions, "list", "the calls that fit, the newest last")
    listing.add_argument("--session", metavar="ID", help="only of this session")
    listing.add_argument("--tool", metavar="NAME", help="only of this tool")
    moment = "2h, 30m or 7d ago, or a local time such as 2026-01-31 or 2026-01-31T18:00"
    listing.add_argument("--since", type=point_in_time, metavar="T", help=f"only from then on: {moment}")
    listing.add_argument("--until", type=point_in_time, metavar="T", help="only before then")
    listing.add_argument(
        "--status",
        metavar="STATUS",
        help="only those that ended so: ok, error, denied, stopped or unfinished",
    )
    listing.add_argument("--text", metavar="WORDS", help="only with these words in arguments, task or result")
    listing.add_argument(
        "-n",
        "--limit",
        type=positive,
        default=DEFAULT_LISTED,
        metavar="N",
        help="the newest N (default: 20)",
    )
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    show = _with_file(actions, "show", "everything about one call")
    show.add_argument("number", type=positive, metavar="SEQ", help="its number in 'pal audit list'")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    verify = _with_file(actions, "verify", "check that no line was changed, taken away or put in")
    verify.add_argument(
        "--contains", default="", metavar="HASH", help="a last hash noted earlier; it must be in the log"
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    actions.add_parser("path", help="print where the log is", allow_abbrev=False)


def _with_file(actions: Any, name: str, meaning: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=meaning, allow_abbrev=False)
    parser.add_argument("--file", metavar="PATH", help="the folder of another log, or one of its files")
    return parser


def point_in_time(text: str) -> float:
    """Seconds since the epoch for ``2h`` (ago), a date or a time, local unless it names a zone.

    Raises:
        argparse.ArgumentTypeError: It is none of these.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return time.time() - float(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        moment = math.nan
    if math.isnan(moment):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2h, 7d, 2026-01-31 or 2026-01-31T18:00")
    return moment
