"""A bounded dict: new entries replace the oldest ones."""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def put_bounded(table: dict[_K, _V], key: _K, value: _V, limit: int) -> None:
    """Put an entry last; delete the first entries while there are more than `limit`."""
    table.pop(key, None)
    table[key] = value
    while len(table) > limit:
        del table[next(iter(table))]
