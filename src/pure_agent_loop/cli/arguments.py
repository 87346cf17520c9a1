"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pure_agent_loop.cli.parser import HELP_ALL, translate_help
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive, seconds

if TYPE_CHECKING:
    from pure_agent_loop.budget import Price
    from pure_agent_loop.limits import LoopLimits

DEFAULT_MAX_STEPS = 25
DEFAULT_LISTED = 20
MAX_SECONDS = 30 * 86_400
TOOL_MODES = ("auto", "native", "json", "text")


class _RefuseKey(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(user_text("cli.api_key"))


def describe(parser: argparse.ArgumentParser, description: str, epilog: str) -> None:
    """Set the texts that ``--help`` shows before and after the options, with their line breaks kept."""
    parser.description, parser.epilog = description, epilog
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        translate_help(parser)
        # The parsers of `pal` override `format_help` to show the main options only.
        parser._print_message(argparse.ArgumentParser.format_help(parser), sys.stdout)
        parser.exit()


def add_help_all(parser: argparse.ArgumentParser) -> None:
    """Add ``--help-all``; ``--help`` then shows only `MAIN_OPTIONS`."""
    parser.add_argument(
        HELP_ALL, action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="show all options and exit"
    )


def add_functions(group: argparse._ArgumentGroup) -> None:
    """Add ``--functions``."""
    group.add_argument(
        "--functions",
        action="append",
        default=[],
        metavar="FILE.py",
        help="add functions of FILE as tools (not sandboxed); repeatable",
    )


def add_own(group: argparse._ArgumentGroup) -> None:
    """Add ``--functions`` and ``--schema``."""
    add_functions(group)
    group.add_argument(
        "--schema",
        metavar="JSON|FILE",
        help="require a JSON answer that matches this JSON Schema",
    )


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Add subparsers for actions and return them."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``; `Output.json` writes the object."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_count(parser: argparse.ArgumentParser, what: str = "entries to list") -> None:
    """Add ``--limit``, the number of entries to list."""
    shown = f"{what} (default: {DEFAULT_LISTED})"
    parser.add_argument("-n", "--limit", type=positive, default=DEFAULT_LISTED, metavar="N", help=shown)


def add_endpoint(group: argparse._ArgumentGroup) -> None:
    """Add the options that select a server and a model."""
    group.add_argument("-m", "--model", metavar="NAME", help="model name, or path of a .gguf file")
    group.add_argument(
        "--base-url",
        metavar="URL",
        help="OpenAI-compatible server, or a server name from pal.toml",
    )
    group.add_argument("-P", "--profile", metavar="NAME", help="use this profile from pal.toml")
    group.add_argument(
        "--env-file", metavar="FILE", help="read keys, URLs and models from a file such as .env"
    )
    group.add_argument("--api-key", action=_RefuseKey, nargs="?", help=argparse.SUPPRESS)


def add_servers(group: Any) -> None:
    """Add the options that select MCP servers."""
    group.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="add MCP servers from a file like mcp.json; repeatable",
    )
    group.add_argument("--no-mcp", action="store_true", help="use no MCP servers")


def add_deps(group: Any) -> None:
    """Add ``--deps``."""
    group.add_argument(
        "--deps",
        metavar="MODULE:NAME",
        help="function that makes the deps, called once per run",
    )


def add_any_folder(group: Any) -> None:
    """Add ``--any-folder``."""
    group.add_argument(
        "--any-folder",
        action="store_true",
        help="allow home, shared and key-holding directories",
    )


def add_trust(group: Any) -> None:
    """Add ``--trust-folder``."""
    group.add_argument(
        "--trust-folder",
        action="store_true",
        help="trust AGENTS.md, skills, pal.toml and .mcp.json here",
    )


def add_model_choice(group: argparse._ArgumentGroup) -> None:
    """Add the options that select a model and how to call it."""
    from pure_agent_loop.llm.profiles import THINKING_LEVELS

    add_endpoint(group)
    group.add_argument(
        "--temperature", type=number_from(0, 2), metavar="T", help="sampling temperature, 0 to 2"
    )
    group.add_argument(
        "--thinking", choices=THINKING_LEVELS, default="off", help="reasoning effort (default: off)"
    )
    group.add_argument(
        "--tool-mode",
        choices=TOOL_MODES,
        default="auto",
        help="how the model is asked to call tools (default: auto)",
    )


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add the limits of a run; `limits_of` reads them."""
    group.add_argument(
        "--max-turns",
        "--max-steps",
        dest="max_steps",
        type=positive,
        default=DEFAULT_MAX_STEPS,
        metavar="N",
        help=f"maximum steps per run (default: {DEFAULT_MAX_STEPS})",
    )
    group.add_argument(
        "--max-tokens", type=positive, metavar="N", help="maximum tokens of all requests (default: no limit)"
    )
    group.add_argument(
        "--max-seconds",
        type=seconds(MAX_SECONDS),
        metavar="S",
        help="maximum seconds per run (default: no limit)",
    )
    group.add_argument(
        "--max-cost", type=_amount, metavar="N", help="maximum cost, in the currency of --price"
    )
    group.add_argument(
        "--price",
        type=_price,
        metavar="IN,OUT",
        help="price per million tokens: INPUT,OUTPUT[,CACHED]",
    )


def limits_of(options: argparse.Namespace) -> LoopLimits:
    """Return the limits set by the options of `add_limits`.

    Raises:
        ConfigError: ``--max-cost`` is set without ``--price``.
    """
    if options.max_cost is not None and options.price is None:
        raise ConfigError(notice("cli.max_cost_price"))
    from pure_agent_loop.limits import LoopLimits

    return LoopLimits(
        max_turns=options.max_steps,
        max_tokens=options.max_tokens,
        max_seconds=options.max_seconds,
        max_cost=options.max_cost,
        prices={} if options.price is None else {"*": options.price},
    )


def add_database(parser: Any) -> None:
    """Add ``--database`` for commands that read sessions."""
    parser.add_argument(
        "--database",
        metavar="URL",
        help="durable-run database: sqlite:///PATH or postgresql://...",
    )


def add_durable_database(parser: argparse.ArgumentParser) -> None:
    """Add ``--database`` for commands that read durable runs."""
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///PATH or postgresql://... (default: PAL_DATABASE)",
    )


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(user_text("cli.above_zero", text=text))
    return number


def _price(text: str) -> Price:
    try:
        numbers = [float(number) for number in text.split(",")]
        from pure_agent_loop.budget import Price

        return Price(*numbers)
    except (ValueError, TypeError) as error:  # a ConfigError too
        raise argparse.ArgumentTypeError(user_text("cli.price", text=text)) from error


def number_from(low: int, high: int) -> Callable[[str], float]:
    """Return a parser of numbers from `low` to `high`, both included."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(user_text("cli.number_range", text=text, low=low, high=high))
        return number

    return read
