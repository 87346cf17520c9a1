"""How much the search for shapes of secrets works, counted and not timed, and that nothing hides from it."""

from __future__ import annotations

import sys

import pytest

from pure_agent_loop.support.secrets.redaction import Redactor

REDACTOR = Redactor(env={})
GITHUB = "ghp_" + "aB3dE5fG7h" * 4
SIZE = 40_000


def calls_of(text: str) -> int:
    """Calls of functions, those of patterns too."""
    made = 0

    def count(frame: object, event: str, what: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        REDACTOR.redact(text)
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize(
    ("unit", "most"),  # calls for each character
    [
        ("pw-pw-pw-pw-pw-1 ", 12.0),  # each run stands near many names
        ("key-key-key-key-1 ", 5.0),
        ("my_secret_key_name_value_1 ", 2.4),
        ("1111111111111111=" * 230 + "sk-these-are-words-and-no-key-1 ", 1.0),  # looked for from each run
    ],
)
def test_no_name_and_no_run_is_looked_at_for_each_run_near_it(unit, most):
    REDACTOR.redact(unit * 3)  # what is made once
    assert calls_of((unit * (SIZE // len(unit) + 1))[:SIZE]) < most * SIZE


VALUE = "AbCd1234EfGh5678IjKl"
LONG = "hvb." + "aB3dE5fG7h" * 700


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"token={VALUE}:next={GITHUB}", "token=*"),
        (f"token={GITHUB}.{GITHUB}", "token=*"),
        (f"token={GITHUB}.{VALUE}", "token=*"),
        (f"key is {LONG} here", "key is * here"),
        (f"key is bot1234567890:{GITHUB[4:39]} here", "key is * here"),
    ],
)
def test_no_secret_hides_another_one_or_its_own_end(text, left):
    assert REDACTOR.redact(text).replace("[secret removed]", "*") == left
