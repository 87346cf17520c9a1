"""Number types for `argparse`."""

from __future__ import annotations

import argparse
import math

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


def seconds(most: float) -> argparse._ActionType:
    """Return an option type: seconds, above 0 and at most `most`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 < number <= most:
            raise argparse.ArgumentTypeError(user_text("library.seconds_above", text=text, most=most))
        return number

    return read
