"""The place for temporary folders: short wherever ``TMPDIR`` points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOWN = """
import os, tempfile
from tests.short_places import use_short_places
use_short_places()
print(os.path.realpath(tempfile.gettempdir()), os.environ["TMPDIR"], sep="|")
"""


@pytest.mark.parametrize("name", ["a place with blanks", "a" * 60])
def test_long_tmpdir_is_replaced_for_this_process_and_its_children(tmp_path, name):
    (tmp_path / name).mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / name), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SHOWN], env=env, capture_output=True, text=True, check=True)
    here, told = done.stdout.strip().split("|")
    assert len(here) <= len("/dev/shm")
    assert told in here
