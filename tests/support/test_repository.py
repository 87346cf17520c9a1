"""`support.repository`: reading files of a git folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pure_agent_loop.support.repository import read_plain


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_a_folder_in_place_of_a_file_is_rejected_and_closed(tmp_path: Path) -> None:
    open_before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(20):
        with pytest.raises(OSError, match="directory"):
            read_plain(tmp_path, 10)
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before
