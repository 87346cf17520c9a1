"""Approved calls, cut off anywhere and looked at by whoever: nothing happens twice, nobody is asked twice."""

from __future__ import annotations

import pytest
from tests.sessions.approvals import ROUNDS, WAYS, Recorded, check_approved


@pytest.mark.parametrize("shape", ROUNDS)
@pytest.mark.parametrize("way", WAYS)
def test_an_approved_call_happens_once_whoever_looks(new_store, way, shape):
    full = Recorded(way, shape, new_store())
    for count in range(1, len(full.records) + 1):
        for looks in (0, 1, 2):
            check_approved(full, count, looks, new_store())
