"""What the arguments of several commands have in common."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.numbers import positive, seconds

if TYPE_CHECKING:
    from pure_agent_loop.budget import Price
    from pure_agent_loop.limits import LoopLimits

DEFAULT_MAX_STEPS = 25
DEFAULT_LISTED = 20
MOST_SECONDS = 30 * 86_400
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
        description: Before.
        epilog: After.
    """
    parser.description, parser.epilog = description, epilog
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def add_functions(group: argparse._ArgumentGroup) -> None:
    """Add the option that names functions of the user, as tools."""
    group.add_argument(
        "--functions",
        action="append",
        default=[],
        metavar="FILE.py",
        help="its functions are tools too; they run as this program does, in no sandbox; repeatable",
    )


def add_own(group: argparse._ArgumentGroup) -> None:
    """Add the options that name what the user wrote: functions for the model, the form of the answer."""
    add_functions(group)
    group.add_argument(
        "--schema",
        metavar="JSON|FILE",
        help="the answer must fit this JSON Schema; it is printed as JSON, or none is and the exit code is 1",
    )


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Add the choice of one of several actions, and return where to add each."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks for JSON instead of text; `Output.json` writes it."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_count(parser: argparse.ArgumentParser, what: str = "how many") -> None:
    """Add the option that says how many to list.

    Args:
        parser: Of the command or action.
    """
    shown = f"{what} (default: {DEFAULT_LISTED})"
    parser.add_argument("-n", "--limit", type=positive, default=DEFAULT_LISTED, metavar="N", help=shown)


def add_endpoint(group: argparse._ArgumentGroup) -> None:
    """Add the options that say which server and model."""
    group.add_argument("-m", "--model", metavar="NAME", help="a model's name, or the path of a .gguf file")
    group.add_argument(
        "--base-url",
        metavar="URL",
        help="an OpenAI-compatible server, usually ending in /v1, or the name of one of your pal.toml",
    )
    group.add_argument("-P", "--profile", metavar="NAME", help="settings that your pal.toml has under a name")
    group.add_argument(
        "--env-file", metavar="FILE", help="take keys, addresses and models also from there, such as .env"
    )
    group.add_argument("--api-key", action=_RefuseKey, nargs="?", help=argparse.SUPPRESS)


def add_servers(group: Any) -> None:
    """Add the options that say which MCP servers are used."""
    group.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="MCP servers to use besides yours (pal mcp list), in the form of mcp.json; repeatable",
    )
    group.add_argument("--no-mcp", action="store_true", help="use no MCP servers")


def add_any_folder(group: Any) -> None:
    """Add ``--any-folder``."""
    group.add_argument(
        "--any-folder",
        action="store_true",
        help="work also in a home, in a folder for everybody, or in one with keys in it",
    )


def add_trust(group: Any) -> None:
    """Add ``--trust-folder``."""
    group.add_argument(
        "--trust-folder",
        action="store_true",
        help="use what this folder brings (AGENTS.md, skills, pal.toml, .mcp.json) without asking",
    )


def add_model_choice(group: argparse._ArgumentGroup) -> None:
    """Add the options that say which model and how it is asked."""
    from pure_agent_loop.llm.profiles import THINKING_LEVELS

    add_endpoint(group)
    group.add_argument("--temperature", type=number_from(0, 2), metavar="T", help="0 to 2")
    group.add_argument("--thinking", choices=THINKING_LEVELS, default="off", help="how much to think first")
    group.add_argument(
        "--tool-mode",
        choices=TOOL_MODES,
        default="auto",
        help="how the model is asked for tool calls (default: auto, which finds out)",
    )


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add the options that say how far a run may go; `limits_of` reads them."""
    group.add_argument(
        "--max-turns",
        "--max-steps",
        dest="max_steps",
        type=positive,
        default=DEFAULT_MAX_STEPS,
        metavar="N",
        help=f"hard limit of steps (default: {DEFAULT_MAX_STEPS})",
    )
    group.add_argument(
        "--max-tokens", type=positive, metavar="N", help="tokens of all requests (default: any)"
    )
    group.add_argument("--max-seconds", type=seconds(MOST_SECONDS), metavar="S", help="seconds of work")
    group.add_argument("--max-cost", type=_amount, metavar="N", help="money, in the currency of --price")
    group.add_argument(
        "--price",
        type=_price,
        metavar="IN,OUT",
        help="what a million tokens cost, sent and written, such as 0.15,0.60; a third is for cached ones",
    )


def limits_of(options: argparse.Namespace) -> LoopLimits:
    """The limits that the options of `add_limits` ask for.

    Raises:
        ConfigError: There is a limit of money without a price.
    """
    if options.max_cost is not None and options.price is None:
        raise ConfigError(
            "--max-cost needs --price IN,OUT: what a million tokens of this model cost, such as 0.15,0.60."
        )
    from pure_agent_loop.limits import LoopLimits

    return LoopLimits(
        max_turns=options.max_steps,
        max_tokens=options.max_tokens,
        max_seconds=options.max_seconds,
        max_cost=options.max_cost,
        prices={} if options.price is None else {"*": options.price},
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


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _price(text: str) -> Price:
    try:
        numbers = [float(each) for each in text.split(",")]
        from pure_agent_loop.budget import Price

        return Price(*numbers)
    except (ValueError, TypeError) as error:  # a ConfigError too
        raise argparse.ArgumentTypeError(f"{text!r} is not two or three numbers such as 0.15,0.60") from error


def number_from(low: int, high: int) -> Callable[[str], float]:
    """What reads the value of an option that is a number in a range, both ends included."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return number

    return read
