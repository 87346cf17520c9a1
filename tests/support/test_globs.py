"""Stars, compared with regular expressions on small patterns, and in bounded time on large ones."""

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.support.globs import Test as ItemTest
from pure_agent_loop.support.globs import fits, match_stars

PATTERNS = st.text("ab?*", max_size=4)
NAMES = st.text("ab", max_size=5)


def compiled(pattern: str) -> list[ItemTest | None]:
    kinds: dict[str, ItemTest | None] = {"*": None, "?": lambda _: True, "a": "a".__eq__, "b": "b".__eq__}
    return [kinds[letter] for letter in pattern]


def regex_of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("?", ".").replace("*", ".*"))


@given(PATTERNS, NAMES)
def test_a_star_matches_any_number_of_items(pattern, name):
    matches = regex_of(pattern).fullmatch(name) is not None
    assert match_stars(compiled(pattern), name) == fits(pattern, name) == matches


@given(PATTERNS, st.text("ab", max_size=3))
def test_the_beginning_of_a_match(pattern, name):
    endings = ("".join(letters) for count in range(1, 5) for letters in product("ab", repeat=count))
    goes_on = any(regex_of(pattern).fullmatch(name + ending) for ending in endings)
    assert match_stars(compiled(pattern), name, begins=True) == goes_on


def test_many_stars_take_no_time():
    assert not match_stars(compiled("*a" * 500 + "b"), "a" * 2_000)
    assert not fits("*a" * 500 + "b", "a" * 2_000)
