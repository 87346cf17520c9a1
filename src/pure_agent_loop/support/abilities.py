"""Checks of user objects and functions: optional methods and accepted arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.checks import require

T = TypeVar("T")


def as_protocol(thing: object, ability: Callable[..., T]) -> T | None:
    """Return the object typed as the protocol, or None if it lacks a method.

    From Python 3.12 on, `isinstance` misses methods behind ``__getattr__``: a client that wraps another
    client would lose the optional methods of the wrapped one.

    Args:
        thing: An object from the user, such as a client, a compactor or a store.
        ability: A `Protocol` that has the required methods.
    """
    for name in _names(ability):
        if not callable(getattr(thing, name, None)):
            return None
    known: Any = thing
    return known  # type: ignore[no-any-return] # all methods were checked above


@lru_cache(maxsize=64)
def _names(ability: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in vars(ability) if not name.startswith("_"))


def checked_function(name: str, function: Any, *parameters: str) -> Any:
    """Return a function that can be called with these arguments, or None.

    Args:
        name: Name of the option, for the message.
        parameters: The arguments, as the message names them.

    Raises:
        ConfigError: The value is not a function, or it does not accept these arguments.
    """
    require(function is None or callable(function), name, function, "a function")
    if function is not None:
        check_shape(name, function, parameters)
    return function


def check_method(name: str, value: object, method: str, *parameters: str) -> None:
    """Reject an object without a method that accepts these arguments.

    Raises:
        ConfigError: The method is missing or does not accept these arguments.
    """
    function = getattr(value, method, None)
    if not callable(function):
        raise ConfigError(
            f"{name} must have a method {method}({', '.join(parameters)}); {value!r:.80} has none."
        )
    own = getattr(function, "__func__", None)
    if not isinstance(own, FunctionType) or not _is_called_with(own, parameters):
        check_shape(f"{name}: its {method}", function, parameters)


@lru_cache(maxsize=64)
def _is_called_with(function: FunctionType, parameters: tuple[str, ...]) -> bool:
    """Return True if a method's function accepts these arguments; cached, because agents share clients."""
    try:
        inspect.signature(function).bind(None, *parameters)
    except (TypeError, ValueError, NameError):
        return False
    return True


def check_shape(
    name: str,
    function: Callable[..., Any],
    parameters: Sequence[str],
    leading: Sequence[str] = (),
    also: str = "",
) -> None:
    """Reject a function that does not accept these arguments. A function without a signature passes.

    Args:
        name: Name of the option, for the message.
        also: Additional text about the parameters, for the message.

    Raises:
        ConfigError: The function does not accept the arguments; the message shows the call.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError):
        return
    own = getattr(function, "__name__", type(function).__name__)
    try:
        signature.bind(*leading, *parameters)
    except TypeError as error:
        raise ConfigError(
            f"{name} is called with ({', '.join(parameters)}), but {own}{signature} does not accept that: "
            f"{error}. Add these parameters{also}."
        ) from None
