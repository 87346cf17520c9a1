"""Optional abilities: what an object of a user may be able to do, and need not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


def able(thing: object, ability: Callable[..., T]) -> T | None:
    """The same object, known to have an ability; None if it lacks it.

    `isinstance` would not find a method behind ``__getattr__`` from Python 3.12 on, so that a client that
    wraps another one would lose what that one can do.

    Args:
        thing: A client, a compactor, a store.
        ability: A `Protocol` that says the ability's methods.
    """
    names = (name for name in vars(ability) if not name.startswith("_"))
    return cast("T", thing) if all(callable(getattr(thing, name, None)) for name in names) else None
