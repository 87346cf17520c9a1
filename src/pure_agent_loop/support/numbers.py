"""Number types for `argparse`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from pure_agent_loop.support.language import user_text


def positive(text: str) -> int:
    """Parse an option's value as a positive integer."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(user_text("library.whole_number", text=text))
    return number


def number(fits: Callable[[float], bool], error: Callable[[str], str]) -> Callable[[str], float]:
    """Return an ``argparse`` type that accepts numbers for which `fits` returns True.

    Args:
        error: Function that returns the error message for a rejected text.
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(error(text))
        return value

    return read
