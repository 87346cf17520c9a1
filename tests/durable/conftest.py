"""Workers for the tests of durable runs."""

from __future__ import annotations

import time

import pytest
from tests.durable.fleet import PATIENCE, Fleet


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """A database with one worker; tests of a file share it."""
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.first_lines = fleet.start()
        yield fleet


@pytest.fixture
def fleet(tmp_path):
    """A database without a worker."""
    with Fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture
def until():
    """Wait for something that another process does."""

    def wait(condition):
        give_up = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < give_up, "it has not happened"
            time.sleep(0.02)
        return found

    return wait


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Where the runs of a test are kept."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres").url
    return f"sqlite:///{tmp_path / 'd.sqlite'}"


@pytest.fixture
def name(request):
    """Of the agent and the session: all tests share the database of PostgreSQL."""
    return request.node.name.translate(str.maketrans("[]-", "___"))[-60:]
