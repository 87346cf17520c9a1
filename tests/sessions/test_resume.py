"""Runs in sessions: whatever moment a run is cut off at, it ends as if nothing had happened."""

from __future__ import annotations

from collections import Counter

from tests.sessions.cuts import Whole, check_cut, keys

from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing.killed_work import CALLS


def test_whole_run_matches_the_expected_record(new_store):
    full = Whole(new_store())
    assert full.content == "Checked."
    assert full.ran == Counter(set(CALLS) - {("put", 10)})
    assert set(full.asked) == set(keys(full.records, "value"))
    assert Counter(r.type for r in full.records) == {
        "run": 1, "messages": 8, "state": 8, "answer": 7, "intent": 10, "outcome": 10, "value": 37,
        "parts": 7,
    }  # fmt: skip


def test_cut_off_behind_any_record_it_ends_the_same(new_store):
    full = Whole(new_store())
    for count in range(1, len(full.records) + 1):
        check_cut(full.records[:count], full, new_store)


def test_cut_off_while_it_was_resumed_it_ends_the_same(tmp_path):
    numbers = iter(range(10**6))

    def new_store():
        return JsonlStore(tmp_path / str(next(numbers)))

    full = Whole(new_store())
    for first in range(1, len(full.records), 7):
        more = check_cut(full.records[:first], full, new_store)
        for second in range(first + 1, len(more) + 1, 3):
            check_cut(more[:second], full, new_store)


def test_a_second_task_cut_off_anywhere_ends_the_same(new_store):
    first = new_store()
    Whole(first)
    full = Whole(first, "Task: once more.")
    for count in range(full.base + 1, len(full.records) + 1, 2):
        check_cut(full.records[:count], full, new_store, base=full.base)
