"""Lines that really write where nothing holds them, in the sandboxes: nothing is written outside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.toolbox.sandbox_ground import require_tools
from tests.toolbox.shell_scratch import build, copy, corpus

from pure_agent_loop.toolbox.sandbox.best import best_sandbox
from pure_agent_loop.toolbox.sandbox.process import run_process
from pure_agent_loop.toolbox.sandbox.variables import clean_environment

BYPASSES = [entry["command"] for entry in corpus("shell_bypasses")]


def tree(folder: Path, *, times: bool) -> dict[str, tuple[int, int]]:
    """Every file and folder with what changes when it is written."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in (*folders, *names):
            status = (Path(path) / name).lstat()
            found[f"{path}/{name}"] = (status.st_size, status.st_mtime_ns if times else 0)
    return found


# Under Landlock a supervisor in Python stands behind each command, which takes time: every eighth there.
@pytest.mark.parametrize(("mode", "stride"), [("bubblewrap", 1), ("landlock", 8)])
def test_no_bypass_has_an_effect_outside(mode, stride, tmp_path):
    """The folder in which they work is outside here: readable, and not the workspace."""
    require_tools()
    template = build(tmp_path / "template" / "work")
    outside = copy(template, tmp_path / "outside" / "work")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    sandbox = best_sandbox(workspace, name=mode, readable=[str(outside)], protected=())
    times = mode == "bubblewrap"  # Landlock does not hold back a change of the times of a file
    before = tree(tmp_path / "outside", times=times)

    async def run_all() -> list[int]:
        room = asyncio.Semaphore(4)

        async def one(command: str) -> int:
            async with room:
                home = str(workspace)
                env = clean_environment(home, extra={"EVIL_ALIAS": "!touch marker"})
                words = ["/bin/bash", "-c", command]
                done = await run_process(words, cwd=outside, env=env, timeout=30, sandbox=sandbox, home=home)
                assert not done.problem, done.problem
                return done.seconds > 0

        return await asyncio.gather(*(one(command) for command in BYPASSES[::stride]))

    assert len(asyncio.run(run_all())) >= (100 if stride == 1 else 60)
    assert tree(tmp_path / "outside", times=times) == before
