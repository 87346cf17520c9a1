"""The list of files behind ``@``, in workspaces of any size."""

from __future__ import annotations

import os

import pytest

from pure_agent_loop.cli.chat.completion import InputCompletions


def candidates(workspace, typed, **limits):
    return list(InputCompletions(workspace, list, None, **limits).of(typed))  # no commands are typed here


def offered(workspace, typed, **limits):
    return [candidate.name for candidate in candidates(workspace, typed, **limits)]


@pytest.fixture
def large(tmp_path):
    """A workspace of 22,000 files, with more than any list shows."""
    for number in range(22):
        folder = tmp_path / f"d{number:02}" / "deep"
        folder.mkdir(parents=True)
        for name in range(1_000):
            (folder / f"f{name:03}.txt").touch()
            os.utime(folder / f"f{name:03}.txt", (1e9, 1e9))  # none is newer than another
    return tmp_path


def test_file_behind_twenty_thousand_others_is_offered(large):
    assert set(offered(large, "see @f777")) == {f"d{number:02}/deep/f777.txt" for number in range(22)}


def test_list_that_is_cut_says_so_and_finds_below_a_typed_folder(large):
    (large / "d20" / ".gitignore").write_text("f778.txt\n")
    last = candidates(large, "@f77", max_files=1_500)[-1]
    assert last.name == "f77"
    assert "type a folder" in last.about
    found = offered(large, "@d20/deep/f77", max_files=1_500)
    assert found[:9] == [f"d20/deep/f77{digit}.txt" for digit in "012345679"]
    assert "d20/deep/f778.txt" not in found
    for typed in ("../x", "/etc/pass", "nowhere/x"):
        assert offered(large, f"@{typed}", max_files=1_500) == [typed]


def test_file_that_changed_last_comes_first_among_equals(large):
    last = large / "d15" / "deep" / "f777.txt"
    os.utime(last, (2e9, 2e9))
    assert offered(large, "@f777")[0] == "d15/deep/f777.txt"
