"""Optional abilities: what an object of a user may be able to do, and need not."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def able(thing: object, ability: Callable[..., T]) -> T | None:
    """The same object, known to have an ability; None if it lacks it.

    `isinstance` would not find a method behind ``__getattr__`` from Python 3.12 on, so that a client that
    wraps another one would lose what that one can do.

    Args:
        thing: A client, a compactor, a store.
        ability: A `Protocol` that says the ability's methods.
    """
    for name in _names(ability):
        if not callable(getattr(thing, name, None)):
            return None
    known: Any = thing
    return known  # type: ignore[no-any-return] # it has the methods, as was just found


@lru_cache(maxsize=64)
def _names(ability: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in vars(ability) if not name.startswith("_"))
