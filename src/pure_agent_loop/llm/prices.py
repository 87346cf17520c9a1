"""Model prices by server: the data of genai-prices (MIT licence), or a newer copy of it.

`prices.json` holds a dated copy, reduced to models that write text; its licence is in ``prices.LICENSE``.
`scripts/update_prices.py` writes `prices.json`. ``pal cost update FILE`` puts a newer copy into the user's
data folder, which is then read instead. Prices are never fetched from the network.

The file names its source, date, licence and currency, and lists providers. A model is
``[id, rule, price, [when, price], ...]``: the last price whose `when` holds is used. `when` is the date from
which, or the hours (UTC) between which, the price is valid. A price is ``[input, output, cache read, cache
write, cache write for an hour]`` per million tokens; in place of a number, ``[base, start, price, ...]`` sets
other prices for all tokens of a request with more than `start` input tokens. A rule is ``=text``, ``^text``,
``$text``, ``*text`` or ``/pattern`` (equals, starts with, ends with, contains, matches), a list of rules of
which one must hold, or ``{"and": [...]}``; an empty rule means ``=id``.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pure_agent_loop.budget import PRICE_KINDS, Price
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import shorten

SHIPPED = Path(__file__).with_name("prices.json")
_COMPACT_DATE = re.compile(r"(?<=-)(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?!\d)")
_HOURS = re.compile(r"\d\d:\d\d-\d\d:\d\d")
_KINDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
_SIGNS = {"equals": "=", "starts_with": "^", "ends_with": "$", "contains": "*", "regex": "/"}
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "^": str.startswith,
    "$": str.endswith,
    "*": operator.contains,
}


def own_file() -> Path:
    """Return the path of the file that, if it exists, replaces the shipped prices."""
    return data_folder() / "prices.json"


def price_of(client: object, options: Options | None = None) -> Price | None:
    """Return the price of a client's model by its server's address; None if it is unknown.

    A client may set its own price in the attribute ``price``. The client for the embedded model does so,
    because that model is free. The list has no price for other servers on this machine, because they may
    forward requests to paid servers.

    Args:
        client: The client.
        options: Fields of the request, which may name another model on the same server.

    Raises:
        ConfigError: The price file cannot be read.
    """
    client = getattr(client, "inner", client)
    own = getattr(client, "price", None)
    if own is not None and isinstance(own, Price):
        return own
    url = getattr(client, "base_url", None)
    if not url:  # a group such as `Fallback` has no URL, and prices each response itself
        members = getattr(client, "clients", None)
        return price_of(members[0], options) if members else None
    return _valid(_listed(str(url), str((options or {}).get("model") or model_of(client))))


@lru_cache
def _listed(url: str, model: str) -> Sequence[tuple[str, Price | None]]:
    # Skip the shipped list for a server on this machine: it is slow to read and lists no such server.
    return () if is_loopback(url) and not own_file().is_file() else price_list().dated(url, model)


def _valid(dated: Sequence[tuple[str, Price | None]], at: datetime | None = None) -> Price | None:
    """Return the last price that holds at the time `at`, by default now."""
    return next(
        (
            price
            for when, price in reversed(dated)
            if not when or _holds(when, at or datetime.now(timezone.utc))
        ),
        None,
    )


class PriceList:
    """The prices in one file.

    Args:
        data: Content of the file.

    Raises:
        KeyError: A key is missing.
    """

    def __init__(self, data: JsonFields) -> None:
        self.source, self.date, self.licence, self.currency = (
            str(data[name]) for name in ("source", "date", "licence", "currency")
        )
        self._providers: list[JsonObject] = data["providers"]
        self._by_id = {provider["id"]: provider for provider in self._providers}

    def find(self, url: str, model: str, at: datetime | None = None) -> Price | None:
        """Return the price of a model at a server; None if it is unknown.

        Args:
            url: Base URL of the server.
            model: Name of the model, as the server or the request spells it.
            at: Time of the request, with its time zone; None for now.
        """
        return _valid(self.dated(url, model), at)

    def entries(self) -> Iterator[tuple[str, str, Price]]:
        """Yield provider, model and current price of every model with a price."""
        now = datetime.now(timezone.utc)
        for provider in self._providers:
            for name, _, *prices in provider["models"]:
                if (price := _valid(_read_dated(prices), now)) is not None:
                    yield provider["id"], name, price

    def dated(self, url: str, model: str) -> list[tuple[str, Price | None]]:
        """Return the prices of a model at a server, each with the condition under which it holds."""
        names = dict.fromkeys((model.lower(), _COMPACT_DATE.sub(r"\1-\2-\3", model.lower())))
        for provider in self._providers:
            if re.match(provider["api"], url):
                others = [self._by_id[name] for name in provider.get("others", ()) if name in self._by_id]
                for name in names:
                    for lister in (provider, *others):
                        for entry in lister["models"]:
                            if _names(entry, name):
                                return _read_dated(entry[2:])
                return []
        return []


def _names(entry: Sequence[Any], name: str) -> bool:
    return _matches(entry[1] or f"={entry[0].lower()}", name)


def _matches(rule: Any, name: str) -> bool:
    if isinstance(rule, list):
        return any(_matches(part, name) for part in rule)
    if not isinstance(rule, str):
        return all(_matches(part, name) for part in rule["and"])
    test = _TESTS.get(rule[0])
    return test(name, rule[1:]) if test else re.search(rule[1:], name) is not None


def _holds(when: str, at: datetime) -> bool:
    utc = at.astimezone(timezone.utc)
    if not _HOURS.fullmatch(when):
        return utc.date().isoformat() >= when
    begin, end = when.split("-")
    now = f"{utc:%H:%M}"
    return begin <= now < end if begin <= end else now >= begin or now < end


def _read_dated(prices: Sequence[Any]) -> list[tuple[str, Price | None]]:
    first, *later = prices
    return [("", _read_price(first)), *((when, _read_price(price)) for when, price in later)]


def _read_price(numbers: Any) -> Price | None:
    if numbers is None:
        return None
    starts = sorted({start for each in numbers if isinstance(each, list) for start in each[1::2]})
    base, *above = [
        Price(**{kind: _number_at(number, start) for kind, number in zip(PRICE_KINDS, numbers, strict=False)})
        for start in (0, *starts)
    ]
    return replace(base, tiers=tuple(zip(starts, above, strict=True)))


def _number_at(number: object, start: int) -> Any:
    if not isinstance(number, list):
        return number
    steps = zip(number[1::2], number[2::2], strict=True)
    return [number[0], *(price for begin, price in steps if begin <= start)][-1]


# -- the file in use, and its replacement ----------------------------------------------------------------


@lru_cache(maxsize=1)
def price_list() -> PriceList:
    """Return the prices in use: those from `own_file` if it exists, else the shipped ones.

    The file is read once: a running process keeps its prices.

    Raises:
        ConfigError: The file cannot be read.
    """
    own = own_file()
    return PriceList(_checked(own if own.exists() else SHIPPED))


def _checked(path: Path) -> JsonObject:
    try:
        data: Any = read_json(path.read_text(encoding="utf-8"))
        if isinstance(data, list):
            changed = date.fromtimestamp(path.stat().st_mtime)  # noqa: DTZ012 - the day the user has
            data = reduced(data, "genai-prices", changed.isoformat())
        if path != SHIPPED:
            _check(data)
    except OSError as error:
        raise ConfigError(notice("library.prices_file", path=path, why=error.strerror or error)) from error
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        re.error,
        ConfigError,
    ) as error:
        why = shorten(f"{type(error).__name__}: {error}", 300)
        raise ConfigError(notice("library.prices_file", path=path, why=why)) from error
    return cast("JsonObject", data)


def _check(data: Any) -> None:
    """Read every value once, to find invalid ones.

    Raises:
        LookupError, TypeError, ValueError, AttributeError, re.error, ConfigError: A value is wrong.
    """
    date.fromisoformat(data["date"])
    prices = PriceList(data)
    for provider in data["providers"]:
        re.compile(provider["api"])
        for entry in provider["models"]:
            _names(entry, str(entry[0]))
            for when, _ in _read_dated(entry[2:]):
                if when and not _HOURS.fullmatch(when):
                    date.fromisoformat(when)
    if next(prices.entries(), None) is None:
        raise ValueError("no model has a price")


def install(path: Path) -> tuple[PriceList, PriceList]:
    """Install a price file, and return the former and the new price list.

    Raises:
        ConfigError: The file is invalid or cannot be stored; the prices in use stay unchanged.
    """
    from pure_agent_loop.support.locking import write_whole  # loaded only by this command

    data, own = _checked(path), own_file()
    try:
        before = price_list()
    except ConfigError:  # the user's copy is damaged and is replaced here
        before = PriceList(_checked(SHIPPED))
    try:
        own.parent.mkdir(parents=True, exist_ok=True)
        write_whole(own, json.dumps(data).encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(notice("library.prices_file", path=own, why=error.strerror or error)) from error
    price_list.cache_clear()
    _listed.cache_clear()
    return before, PriceList(data)


# -- the source's own form -------------------------------------------------------------------------------


def reduced(providers: Sequence[JsonFields], source: str, day: str) -> JsonObject:
    """Return the data of genai-prices in the form of `prices.json`: models that read and write text.

    Args:
        providers: Content of `prices/data.json` from genai-prices.
        source: Name and version.
        day: Date of the copy, as YYYY-MM-DD.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: The data does not have the expected structure.
    """
    listed = []
    for provider in providers:
        models = [_reduced_model(model, day) for model in provider["models"]]
        priced = [model for model in models if model[2] is not None]
        # Keep a model without a price if the rule of another model would match it and give it a wrong price.
        kept = [m for m in models if m[2] is not None or any(_names(p, m[0].lower()) for p in priced)]
        if not priced and not provider.get("fallback_model_providers"):
            continue
        others = provider.get("fallback_model_providers")
        head = {
            "id": provider["id"],
            "api": provider["api_pattern"],
            **({"others": others} if others else {}),
        }
        listed.append({**head, "models": kept})
    licence = "MIT, Copyright (c) Pydantic Services Inc. 2025 to present"
    return {"source": source, "date": day, "licence": licence, "currency": "USD", "providers": listed}


def _reduced_model(model: JsonFields, day: str) -> list[Any]:
    prices = model["prices"]
    listed = [{"prices": prices}] if isinstance(prices, Mapping) else prices
    dated = [(_when(each.get("constraint")), _reduced_price(each["prices"])) for each in listed]
    valid = [i for i, (when, _) in enumerate(dated) if not _HOURS.fullmatch(when) and when <= day]
    first, *later = dated[valid[-1] if valid else 0 :]  # drop prices that are no longer valid
    rule = _reduced_rule(model["match"])
    return [model["id"], "" if rule == f"={model['id'].lower()}" else rule, first[1], *map(list, later)]


def _reduced_rule(rule: JsonFields) -> Any:
    ((kind, value),) = rule.items()
    if kind == "or":
        return [_reduced_rule(part) for part in value]
    if kind == "and":
        return {"and": [_reduced_rule(part) for part in value]}
    return _SIGNS[kind] + (value if kind == "regex" else value.lower())


def _reduced_price(prices: JsonFields) -> list[Any] | None:
    is_by_request = "requests_kcount" in prices  # not supported: usage reports do not count requests
    if is_by_request or prices.get("input_mtok") is None or prices.get("output_mtok") is None:
        return None
    numbers = [_reduced_number(prices.get(kind)) for kind in _KINDS]
    while numbers[-1] is None:
        numbers.pop()
    return numbers


def _reduced_number(value: object) -> Any:
    if isinstance(value, Mapping):
        steps = [number for tier in value["tiers"] for number in (tier["start"], _short(tier["price"]))]
        return [_short(value["base"]), *steps]
    return None if value is None else _short(value)


def _short(number: Any) -> float:
    value = float(number)
    return int(value) if value.is_integer() else value


def _when(constraint: JsonFields | None) -> str:
    if not constraint:
        return ""
    if "start_date" in constraint:
        return str(constraint["start_date"])
    return f"{constraint['start_time'][:5]}-{constraint['end_time'][:5]}"
