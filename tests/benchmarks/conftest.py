"""The leaderboard's package, fetched once for this user; and its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.bfcl.checker import Checker
from benchmarks.bfcl.package import ensure_package
from benchmarks.bfcl.questions import LeaderboardQuestion, load_questions


@pytest.fixture(scope="session")
def package() -> Path:
    return ensure_package()


@pytest.fixture(scope="session")
def questions(package: Path) -> Callable[[str], list[LeaderboardQuestion]]:
    known: dict[str, list[LeaderboardQuestion]] = {}

    def load(name: str) -> list[LeaderboardQuestion]:
        if name not in known:
            known[name] = load_questions(package, name)
        return known[name]

    return load


@pytest.fixture(scope="module")
def checker(package: Path) -> Iterator[Checker]:
    with Checker(package) as checker:
        yield checker
