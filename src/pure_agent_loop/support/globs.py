"""Pattern matcher for rules, in bounded time for any text and pattern."""

from __future__ import annotations

import fnmatch
import re

MAX_TEXT = 1_000_000  # characters; a longer text takes too long to match
_LITERAL = re.compile(r"[\[\]?]"), re.compile(r"[\[\]]")  # without and with "?" as a wildcard


def fits(pattern: str, text: str, *, marks: bool = True, too_long: bool = False) -> bool:
    """Whether a text matches a pattern; a star matches any text.

    Args:
        text: Text from a model or a server.
        marks: A question mark matches one character.
        too_long: Result for a text of more than `MAX_TEXT` characters.
    """
    if len(text) > MAX_TEXT:
        return too_long
    # The expression of `fnmatch` does not backtrack past a star: one pass per star.
    return fnmatch.fnmatchcase(text, _LITERAL[marks].sub(lambda sign: f"[{sign[0]}]", pattern))
