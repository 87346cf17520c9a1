"""Argument checks: the requirement for a value, and the error if the value does not meet it."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.errors import ConfigError


def require(is_valid: object, name: str, value: object, expected: str) -> None:
    """Reject an invalid argument.

    Args:
        is_valid: False if the value is invalid.
        name: Name of the argument.
        value: The value, shown after the requirement.
        expected: Requirement, such as ``"text"``.

    Raises:
        ConfigError: The value is invalid.
    """
    if not is_valid:
        raise ConfigError(f"{name} must be {expected}; it is {value!r:.80}.")


def require_value(is_valid: object, name: str, value: object, expected: str) -> None:
    """Reject an invalid argument; the error shows it as ``name=value``. See `require`."""
    if not is_valid:
        raise ConfigError(f"{name}={value!r} must be {expected}.")


def is_whole(value: object, least: int = 0) -> bool:
    """Return True for a whole number of at least `least`; bools are not numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any, *, zero: bool = True) -> bool:
    """Return True for a number above 0, or for 0 if `zero`; bools are not numbers."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and (value > 0 or (zero and value == 0))
