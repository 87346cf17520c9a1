"""Numbers of the command line, for `argparse`."""

from __future__ import annotations

import argparse
import math

from pure_agent_loop.evaluation.command import positive

__all__ = ["positive", "seconds"]


def seconds(most: float) -> argparse._ActionType:
    """A type for an option: seconds, above 0 and at most `most`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 < number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from above 0 to {most:g}")
        return number

    return read
