"""What the arguments of several commands have in common."""

from __future__ import annotations

import argparse
import math
from typing import Any, NoReturn

from pure_agent_loop.llm.profiles import THINKING_LEVELS

DEFAULT_MAX_STEPS = 25
DEFAULT_LISTED = 20
TOOL_MODES = ("auto", "native", "json", "text")


class _RefuseKey(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(
            "a key on the command line can be read by every user of this machine; "
            "put it into the environment variable PAL_API_KEY"
        )


def describe(parser: argparse.ArgumentParser, description: str, epilog: str) -> None:
    """Set what ``--help`` shows before and after the options, line by line as written.

    Args:
        parser: Of the command.
        description: Before.
        epilog: After.
    """
    parser.description, parser.epilog = description, epilog
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Add the choice of one of several actions, and return where to add each."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_endpoint(group: argparse._ArgumentGroup) -> None:
    """Add the options that say which server and model.

    Args:
        group: Where.
    """
    group.add_argument("-m", "--model", metavar="NAME", help="a model's name, or the path of a .gguf file")
    group.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server, usually ending in /v1")
    group.add_argument("--api-key", action=_RefuseKey, nargs="?", help=argparse.SUPPRESS)


def add_model_choice(group: argparse._ArgumentGroup) -> None:
    """Add the options that say which model and how it is asked.

    Args:
        group: Where.
    """
    add_endpoint(group)
    group.add_argument("--temperature", type=_temperature, metavar="T", help="0 to 2")
    group.add_argument("--thinking", choices=THINKING_LEVELS, default="off", help="how much to think first")
    group.add_argument(
        "--tool-mode",
        choices=TOOL_MODES,
        default="auto",
        help="how the model is asked for tool calls (default: auto, which finds out)",
    )


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


def add_durable_database(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where durable runs are.

    Args:
        parser: Of the command or action.
    """
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///PATH or postgresql://...; else PAL_DATABASE, else a file in the data folder",
    )


def _temperature(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2")
    return number
