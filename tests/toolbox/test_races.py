"""Another process exchanges a folder for a link to the outside, again and again: nothing is led there."""

from __future__ import annotations

import os

import pytest
from benchmarks.race_files import OPENERS, arena

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows cannot win this race; docs/files.md says so"
)

ROUNDS = {"grep": 50}  # each starts a process; "grep opens" is the same without


@pytest.mark.parametrize(
    "tool", ["read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "grep opens"]
)
@pytest.mark.parametrize("opener", ["kernel", "walking"])
def test_no_tool_is_led_outside(opener: str, tool: str) -> None:
    with arena(OPENERS[opener]) as place:
        done = place.race(tool, ROUNDS.get(tool, 2_000))
    assert done.leaks == 0
    if tool != "glob":  # it passes over what it cannot enter
        assert 0 < done.refusals < done.opens


def test_the_race_finds_leaks_where_there_are_some() -> None:
    with arena(OPENERS["checking"]) as place:
        leaks = 0
        for _ in range(200):
            leaks += place.race("write_file", 200).leaks
            if leaks:
                break
    assert leaks
