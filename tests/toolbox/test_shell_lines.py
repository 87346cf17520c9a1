"""Lines that nobody approved, by the hundred: none changes anything, and everyday ones need no question."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from benchmarks.shell_lines import KINDS, ground
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop.toolbox.shell.tool import Shell


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


def measured(only, every, sandbox="bubblewrap"):
    """What the benchmark says about a corpus; a process of its own, because it gives up root's powers."""
    options = ["--only", only, "--every", str(every), "--sandbox", sandbox, "--show"]
    words = [sys.executable, "-m", "benchmarks.shell_lines", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    row = next(line for line in done.stdout.splitlines() if line.startswith(only))
    numbers = map(int, row.split()[-len(KINDS) - 2 :])
    return dict(zip(("lines", *KINDS, "effect"), numbers, strict=True)), done.stdout


# The benchmark runs all of them; here every so many-th, because each needs a sandbox of its own.
@pytest.mark.parametrize(
    ("only", "every", "sandbox"),
    [
        *(("hostile", 9, "bubblewrap"), ("hostile", 29, "landlock")),
        *(("bypasses", 11, "bubblewrap"), ("bypasses", 31, "landlock")),
        *(("attacks", 17, "bubblewrap"), ("attacks", 19, "landlock")),
    ],
)
def test_no_line_has_an_effect(only, every, sandbox):
    counts, said = measured(only, every, sandbox)
    assert counts["effect"] == counts["allowed"] == 0, said
    assert counts["asked"] > 5


@pytest.mark.parametrize(
    ("only", "every", "sandbox"),
    [*(("everyday", 4, "bubblewrap"), ("harmless", 9, "bubblewrap")), ("everyday", 8, "landlock")],
)
def test_everyday_lines_need_no_question(only, every, sandbox):
    counts, said = measured(only, every, sandbox)
    assert counts["lines"] * every >= 250
    assert counts["asked"] + counts["denied"] + counts["allowed"] <= 1, said
    assert counts["effect"] == 0, said


def test_an_effect_would_be_seen():
    commands = ["touch x", "chmod 700 a.txt", "rm -r sub", "echo x > .git/HEAD"]
    with ground(project=False) as made:
        for command in commands:
            before = made.state()
            asyncio.run(Shell(made.workspace).shell(command))
            assert made.state() != before, command
