"""Glob patterns, matched in bounded time: each star costs at most one pass over the text.

Patterns may come from an untrusted file or from a model, and a backtracking regular expression takes
exponential time for ``*a*a*a*a*b``. `fits` matches strings against patterns with stars, and `match_stars`
matches any items. Both backtrack only to the last star, as `fnmatch` does.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

MAX_TEXT = 1_000_000  # characters; a longer string takes too long to match
# Characters to escape: with "?" as a plain character, and with "?" as a wildcard.
_LITERAL = re.compile(r"[\[\]?]"), re.compile(r"[\[\]]")
Test = Callable[[str], bool]


def fits(pattern: str, text: str, *, marks: bool = True, too_long: bool = False) -> bool:
    """Return True if a text matches a pattern; a star matches any text.

    Args:
        text: Text from a model or a server.
        marks: True if a question mark matches any one character.
        too_long: Result for a string of more than `MAX_TEXT` characters.
    """
    if len(text) > MAX_TEXT:
        return too_long
    return fnmatch.fnmatchcase(text, _LITERAL[marks].sub(lambda sign: f"[{sign[0]}]", pattern))


def match_stars(tests: Sequence[Test | None], items: Sequence[str], *, begins: bool = False) -> bool:
    """Return True if each item passes its test; a None among the tests matches any number of items.

    Args:
        items: Names in a path, or characters in a name.
        begins: Return True instead if the items could be the start of a longer match.
    """
    position = index = star_index = 0
    star = -1
    while index < len(items):
        test = tests[position] if position < len(tests) else _never
        if test is None:
            star, star_index = position, index
        elif test(items[index]):
            index += 1
        elif star < 0:
            return False
        else:
            star_index += 1
            position, index = star, star_index
        position += 1
    if begins:
        return star >= 0 or position < len(tests)
    return all(test is None for test in tests[position:])


def _never(_: str) -> bool:
    return False
