"""kill -9 at random moments of real runs: nothing that was finished is lost or happens twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import pure_agent_loop

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PAL_KILLS", "1000"))
SEED = int(os.environ.get("PAL_SEED", "1"))


SHARED_MEMORY = Path(
    "/dev/shm"
)  # a kill takes nothing back from the system: there is no need to wait for a disk


@pytest.fixture
def folder(tmp_path):
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as made:
        yield Path(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, to be killed by the thousand")
@pytest.mark.timeout(1200)
def test_killed_anywhere_a_run_goes_on_and_nothing_happens_twice(folder):
    source = str(Path(pure_agent_loop.__file__).parents[1])
    shares, launchers = [KILLS // 2, KILLS - KILLS // 2], []
    for number, kills in enumerate(shares):
        (folder / str(number)).mkdir()
        words = [str(folder / str(number)), str(kills), str(SEED + number)]
        launchers.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.sessions.kills", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
            )
        )
    seen, wrong = Counter(), []
    for each in launchers:
        output, errors = each.communicate(timeout=900)
        assert each.returncode == 0, errors
        found = json.loads(output)
        wrong += found.pop("wrong")
        seen += Counter(found)
    print(dict(seen))
    assert wrong == []
    assert seen["kills"] == KILLS
    assert seen["runs"] == seen["kills"] + seen["sessions"]
    if KILLS >= 200:  # else it may be chance
        assert seen["ambiguous"] > seen["with an effect"] > 0
        assert seen["reruns"] > 0
