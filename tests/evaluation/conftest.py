"""The leaderboard's package, fetched once for this user; and its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pure_agent_loop.evaluation.bfcl import Question, load_questions
from pure_agent_loop.evaluation.checker import Checker
from pure_agent_loop.evaluation.package import ensure_package


@pytest.fixture(scope="session")
def package() -> Path:
    return ensure_package()


@pytest.fixture(scope="session")
def questions(package: Path) -> Callable[[str], list[Question]]:
    known: dict[str, list[Question]] = {}

    def load(name: str) -> list[Question]:
        if name not in known:
            known[name] = load_questions(package, name)
        return known[name]

    return load


@pytest.fixture(scope="module")
def checker(package: Path) -> Iterator[Checker]:
    with Checker(package) as checker:
        yield checker
