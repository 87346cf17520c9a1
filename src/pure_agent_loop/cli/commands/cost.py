"""The command ``cost``: what recorded runs cost, and the prices in use."""

from __future__ import annotations

import argparse
import fnmatch
from pathlib import Path
from typing import Any

from pure_agent_loop.budget import PRICE_KINDS, Price
from pure_agent_loop.cli.arguments import add_json, add_options, describe
from pure_agent_loop.cli.commands.audit import point_in_time
from pure_agent_loop.cli.database import store_for
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.options import SessionOptions
from pure_agent_loop.cli.output import CommandOutput, currency_of, money
from pure_agent_loop.llm.prices import install, own_file, price_list
from pure_agent_loop.sessions.cost import GROUPS, METADATA, Total, expenses_of, totals_by
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.terminal import one_line

_EPILOG = """\
Costs use the prices at the time of each request. Days are UTC days.

examples:
  pal cost
  pal cost --by model --since 7d
  pal cost prices 'gpt-5*'
  pal cost update data.json
"""


class _Groups(tuple[str, ...]):
    """Choices for grouping costs; any metadata key is accepted, shown as ``metadata.KEY`` in ``--help``."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or str(name).startswith(METADATA)


def add_cost(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Show what recorded runs cost, and manage the prices in use.", _EPILOG)
    groups = _Groups((*GROUPS, f"{METADATA}KEY"))
    parser.add_argument("--by", choices=groups, default="day", help="what to sum up (default: day)")
    moment = "2h (ago), or a local time: 2026-01-31T18:00"
    parser.add_argument(
        "--since", type=point_in_time, metavar="T", default=0.0, help=f"only since T: {moment}"
    )
    add_options(parser, SessionOptions, only=("database",))
    add_json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    prices = actions.add_parser("prices", help="list known prices per million tokens, and their date")
    prices.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="model, or a pattern such as 'gpt-5*'"
    )
    add_json(prices)
    update = actions.add_parser("update", help="use prices from a file instead of the current ones")
    update.add_argument(
        "file", type=Path, metavar="FILE", help="prices/data.json of genai-prices, or a copy of it"
    )
    add_json(update)


def cost(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    return {None: _report, "prices": _prices, "update": _update}[options.action](options, output)


def _report(options: argparse.Namespace, output: CommandOutput) -> int:
    total = Total()
    with store_for(options.database) as store:
        expenses = list(expenses_of(store, options.since))
    totals = totals_by(options.by, expenses)
    for expense in expenses:
        total.add(expense)
    if options.json:
        rows = [{options.by: name, **_plain(each)} for name, each in totals.items()]
        output.json({"by": options.by, "costs": rows, "total": _plain(total)})
        return DONE
    if not expenses:
        output.info(notice("cli.cost_none"))
        return DONE
    names = [one_line(name or "-", 60) for name in totals]
    width = max(map(len, [*names, user_text("cli.cost_total")]))
    lines = zip([*names, user_text("cli.cost_total")], [*totals.values(), total], strict=True)
    output.lines("".join(_row(name, each, width) for name, each in lines))
    if total.unpriced:
        output.info(notice("cli.cost_unpriced", count=total.unpriced))
    return DONE


def _plain(total: Total) -> dict[str, Any]:
    return {
        "requests": total.requests,
        "tokens": total.tokens,
        "cost": total.cost,
        "known_cost": total.known_cost,
        "unpriced_requests": total.unpriced,
    }


def _row(name: str, total: Total, width: int) -> str:
    known = money(total.known_cost, currency_of(None))
    if total.unpriced:
        known = (
            user_text("cli.cost_partly", known=known) if total.known_cost else user_text("cli.cost_unknown")
        )
    tokens = user_text("cli.cost_used", requests=total.requests, tokens=f"{total.tokens:,}")
    return f"{name:<{width}}  {tokens:>32}  {known}\n"


def _prices(options: argparse.Namespace, output: CommandOutput) -> int:
    known, pattern = price_list(), options.pattern.lower()
    found = [
        (provider, model, price)
        for provider, model, price in known.entries()
        if fnmatch.fnmatchcase(model.lower(), pattern)
        or fnmatch.fnmatchcase(f"{provider}/{model}".lower(), pattern)
    ]
    about = {"source": known.source, "date": known.date, "currency": known.currency, "licence": known.licence}
    if options.json:
        rows = [{"provider": provider, "model": model, **_price(price)} for provider, model, price in found]
        output.json({**about, "own_file": str(own_file()) if own_file().exists() else None, "prices": rows})
        return DONE
    output.lines("".join(_price_row(provider, model, price) for provider, model, price in found))
    if not found:
        output.info(notice("cli.no_price_known", pattern=options.pattern))
    output.info(notice("cli.prices_from", **about))
    return DONE


def _price(price: Price) -> dict[str, Any]:
    tiers = [{"above": start, **_price(tier)} for start, tier in price.tiers]
    return {**{kind: getattr(price, kind) for kind in PRICE_KINDS}, **({"tiers": tiers} if tiers else {})}


def _price_row(provider: str, model: str, price: Price) -> str:
    return "".join(
        f"{one_line(f'{provider}/{model}' if not start else '', 60):<60}  "
        f"{'' if not start else f'> {start:,}':>11}  "
        + "".join(
            f"{'-' if amount is None else f'{amount:g}':>9}"
            for amount in (getattr(tier, kind) for kind in PRICE_KINDS)
        )
        + "\n"
        for start, tier in ((0, price), *price.tiers)
    )


def _update(options: argparse.Namespace, output: CommandOutput) -> int:
    before, after = ({(p, m): price for p, m, price in known.entries()} for known in install(options.file))
    changes = {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(key for key in after.keys() & before.keys() if after[key] != before[key]),
    }
    known = price_list()
    if options.json:
        named = {kind: ["/".join(key) for key in keys] for kind, keys in changes.items()}
        output.json({"source": known.source, "date": known.date, "file": str(own_file()), **named})
        return DONE
    for key in changes["changed"]:
        output.lines(f"{'/'.join(key)}  {_amounts(before[key])} -> {_amounts(after[key])}\n")
    counts = {kind: len(keys) for kind, keys in changes.items()}
    output.info(notice("cli.prices_updated", date=known.date, file=own_file(), models=len(after), **counts))
    return DONE


def _amounts(price: Price) -> str:
    amounts = [getattr(price, kind) for kind in PRICE_KINDS]
    tiers = "".join(f" > {start:,}: {_amounts(tier)}" for start, tier in price.tiers)
    return ",".join(f"{amount:g}" for amount in amounts if amount is not None) + tiers
