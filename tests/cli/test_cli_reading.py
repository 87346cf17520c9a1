"""A command that reads a database creates none: a mistyped name is told, and leaves no file."""

from __future__ import annotations

import pytest

COMMANDS = [
    "tasks",
    "tasks show RUN",
    "tasks delete RUN",
    "logs RUN",
    "cancel RUN",
    "answer RUN CALL allow",
    "schedule list",
    "sessions list",
    "cost",
    "replay SESSION",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_reading_command_creates_no_database(pal, command):
    typo = pal.workspace / "typo.sqlite"
    for words, variables in (
        ([*command.split(), "--database", f"sqlite:///{typo}"], {}),
        (command.split(), {"PAL_DATABASE": f"sqlite:///{typo}"}),
    ):
        read = pal(*words, **variables)
        assert read.returncode == 2, read.stderr
        assert f"There is no database {typo}." in " ".join(read.stderr.split())
        assert list(pal.workspace.iterdir()) == []


def test_database_is_created_by_a_command_that_writes_and_then_read(pal):
    at = ("--database", f"sqlite:///{pal.workspace}/new.sqlite")
    added = pal("schedule", "add", "daily", "--agent", "helper", "--every", "1d", "--prompt", "hi", *at)
    assert added.returncode == 0, added.stderr
    listed = pal("schedule", "list", *at)
    assert (listed.returncode, "daily" in listed.stdout) == (0, True)
