"""Lines that nobody approved, by the hundred: none changes anything, and everyday ones need no question."""

from __future__ import annotations

import pytest
from benchmarks.shell_lines import ground, measure
from tests.toolbox.sandbox_ground import require_tools
from tests.toolbox.shell_scratch import corpus

from pure_agent_loop.toolbox.shell.tool import Shell


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


def told(found, *kinds):
    return [each for each in found if each[0] in kinds]


# The benchmark runs all of them; here every so many-th, because each needs a sandbox of its own.
@pytest.mark.parametrize(
    ("name", "sandbox", "every"),
    [
        *(("shell_hostile", "bubblewrap", 5), ("shell_hostile", "landlock", 25)),
        *(("shell_bypasses", "bubblewrap", 9), ("shell_bypasses", "landlock", 31)),
    ],
)
def test_no_line_has_an_effect(name, sandbox, every):
    counts, found = measure(corpus(name)[::every], sandbox, project=False)
    assert told(found, "EFFECT") == []
    assert counts["allowed"] == 0
    assert counts["asked"] > 5


@pytest.mark.parametrize(("name", "every"), [("shell_everyday", 3), ("shell_harmless", 7)])
def test_everyday_lines_need_no_question(name, every):
    lines = corpus(name)
    assert len(lines) >= 250
    _, found = measure(lines[::every], "bubblewrap", project=True)
    assert len(told(found, "asked", "denied", "allowed")) <= 1, found
    assert told(found, "EFFECT") == []


def test_an_effect_would_be_seen():
    import asyncio

    commands = ["touch x", "chmod 700 a.txt", "rm -r sub", "echo x > .git/HEAD"]
    with ground(project=False) as made:
        for command in commands:
            before = made.state()
            asyncio.run(Shell(made.workspace).shell(command))
            assert made.state() != before, command
