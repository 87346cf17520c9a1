"""kill -9 at random moments of real runs: nothing that was finished is lost or happens twice.

Runs are killed until `SECONDS` are used, over the faster transport, and `KILLS_OF_HTTPX` times over httpx.
``PAL_KILLS=1000`` sets a number instead of a time; ``make soak`` does that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from tests.seeds import repeat_with, seed_of_commit

import pure_agent_loop
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PAL_KILLS", "0"))
SECONDS = 30
KILLS_OF_HTTPX = 50
ENOUGH = 200  # kills, after which each kind of interruption has been seen
LAUNCHERS = 2
# A kill takes nothing back from the system: there is no need to wait for a disk.
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path):
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as made:
        yield Path(made)


def kill_runs(folder, kills, seconds, seed, transport):
    """Kill runs in two processes, until each has made its share of kills or its time is used."""
    source = str(Path(pure_agent_loop.__file__).parents[1])
    launchers = []
    for number in range(LAUNCHERS):
        (folder / str(number)).mkdir()
        share = (kills + number) // LAUNCHERS
        words = [str(folder / str(number)), str(share), str(seconds), str(seed + number)]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
            HTTP_VARIABLE: transport,
        }
        launchers.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.sessions.kills", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=environment,
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
    assert wrong == [], repeat_with("tests/sessions/test_kill.py", seed)
    assert seen["runs"] == seen["kills"] + seen["sessions"]
    if seen["kills"] >= ENOUGH:  # else it may be chance
        assert seen["ambiguous"] > seen["with an effect"] > 0
        assert seen["reruns"] > 0
    return seen["kills"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, to be killed by the thousand")
@pytest.mark.timeout(1200)
def test_run_killed_anywhere_resumes_and_repeats_nothing(folder):
    seconds = 0 if KILLS else SECONDS
    kills = kill_runs(folder, KILLS, seconds, seed_of_commit(), os.environ.get(HTTP_VARIABLE, ""))
    assert kills == KILLS if KILLS else kills > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, to be killed by the thousand")
@pytest.mark.timeout(1200)
def test_kill_over_other_transport_loses_nothing(folder):
    assert kill_runs(folder, KILLS_OF_HTTPX, 0, seed_of_commit(), "httpx") == KILLS_OF_HTTPX
