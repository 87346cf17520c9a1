"""Options of commands as fields of dataclasses, and arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.numbers import number, positive

DEFAULT_LISTED = 20
Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class CommandOption:
    """A command-line flag and everything that is derived from it.

    Args:
        flags: The flag with its short form and its aliases.
        help: The line in the ``--help`` output.
        argument: Additional arguments for `argparse.ArgumentParser.add_argument`.
        name: The field that the flag sets.
        default: The default value of the field; False for a switch, a list for a repeatable option.
        is_main: True if ``--help`` shows the flag, not only ``--help-all``.
        key: The setting of ``pal.toml``; empty if files cannot set it. The flag ``--no-...`` turns the
            setting off.
        variables: The environment variables of the setting; the first non-empty one is used.
        in_project: The only values that a project's file may set, even if the file is trusted; empty if any
            value is allowed.
        is_joined: True if a list in ``pal.toml`` is joined with commas.
        example: The value in the file that ``pal init`` writes; None for the default.
        agent: The argument of `Agent` to which a value other than None is passed unchanged; empty if there
            is none.
    """

    flags: tuple[str, ...]
    help: str
    argument: dict[str, Any]
    name: str = ""
    default: Any = None
    is_main: bool = False
    key: str = ""
    variables: tuple[str, ...] = ()
    in_project: tuple[Any, ...] = ()
    is_joined: bool = False
    example: Any = None
    agent: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible values; empty if any value is allowed."""
        return tuple(self.argument.get("choices", ()))

    @property
    def is_inverse(self) -> bool:
        """True if the option turns the setting off."""
        return self.flags[0].startswith("--no-")

    def converted(self, value: Any) -> Any:
        """Convert the field's value to the setting's value, or vice versa."""
        return not value if self.is_inverse else value


def option(*flags: str, default: Any = None, also: tuple[CommandOption, ...] = (), **rest: Any) -> Any:
    """Return the dataclass field for an option that takes a value.

    Args:
        also: Other options that set the same field.
        rest: Other fields of `CommandOption`, and the items of `CommandOption.argument`.
    """
    row = {name: rest.pop(name) for name in CommandOption.__slots__ if name in rest}
    row["help"] = row["help"].replace("{default}", str(default))
    options = (CommandOption(flags, argument=rest, default=default, **row), *also)
    if isinstance(default, list):
        return field(default_factory=list, metadata={"options": options})
    return field(default=default, metadata={"options": options})


def flag(*flags: str, **rest: Any) -> Any:
    """Return the dataclass field for an option that takes no value."""
    return option(*flags, default=False, action="store_true", **rest)


def list_option(*flags: str, **rest: Any) -> Any:
    """Return the dataclass field for a repeatable option."""
    return option(*flags, default=[], action="append", **rest)


def options_of(*tables: type) -> Iterator[CommandOption]:
    """Yield the options in tables, in the order of the tables' fields."""
    for table in tables:
        for column in fields(table):
            for row in column.metadata.get("options", ()):
                yield replace(row, name=column.name)


def add_options(group: Any, *tables: type, only: Collection[str] = ()) -> None:
    """Add the options in tables to a parser or an argument group.

    Args:
        only: The fields to add; empty for all.
    """
    for row in options_of(*tables):
        if not only or row.name in only:
            group.add_argument(*row.flags, dest=row.name, default=row.default, help=row.help, **row.argument)


def read_options(table: type[Table], arguments: argparse.Namespace) -> Table:
    """Return parsed arguments as a table; fields without an argument get their default values."""
    rows = fields(table)  # type: ignore[arg-type]  # every table is a dataclass
    return table(**{row.name: getattr(arguments, row.name) for row in rows if hasattr(arguments, row.name)})


def seconds(most: float = 86_400) -> Callable[[str], float]:
    """Return an option type for seconds, above 0 and at most `most`."""
    return number(
        lambda value: 0 < value <= most,
        lambda text: user_text("library.seconds_above", text=text, most=most),
    )


def describe(parser: argparse.ArgumentParser, description: str, epilog: str) -> None:
    """Set the texts that ``--help`` shows before and after the list of options."""
    parser.description, parser.epilog = description, epilog


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Add subparsers for actions and return them."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``, for the object that `Output.json` writes."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_count(parser: argparse.ArgumentParser, what: str = "entries to list") -> None:
    """Add ``--limit``, the number of entries to list."""
    shown = f"{what} (default: {DEFAULT_LISTED})"
    parser.add_argument("-n", "--limit", type=positive, default=DEFAULT_LISTED, metavar="N", help=shown)


def add_durable_database(parser: argparse.ArgumentParser) -> None:
    """Add ``--database`` for commands that read durable runs."""
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///PATH or postgresql://... (default: PAL_DATABASE)",
    )
