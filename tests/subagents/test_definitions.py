"""Definitions in Markdown files."""

from __future__ import annotations

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.subagents import load_definitions, read_definition

WHOLE = """---
name: reviewer
description: Reads a change and says what is wrong with it.
tools: [read_file, grep]
workspace: read-only
background: true
max_turns: 7
max_tokens: 5000
max_result_chars: 900
permission_mode: plan
---
You review changes.

Be short.
"""


def test_a_file_says_everything(tmp_path):
    (tmp_path / "b.md").write_text(WHOLE)
    (tmp_path / "a.md").write_text("---\nname: simple\ndescription: Simple.\ntools: grep, glob\n---\nDo it.")
    (tmp_path / "c.txt").write_text("not one")
    simple, reviewer = load_definitions(tmp_path)
    assert (simple.name, simple.tools, simple.prompt) == ("simple", ("grep", "glob"), "Do it.")
    assert reviewer.prompt == "You review changes.\n\nBe short."
    assert (reviewer.tools, reviewer.workspace, reviewer.background) == (
        ("read_file", "grep"),
        "read-only",
        True,
    )
    assert (reviewer.limits.max_turns, reviewer.limits.max_tokens) == (7, 5000)
    assert (reviewer.max_result_chars, reviewer.permission_mode) == (900, "plan")


def test_no_folder_holds_no_definitions(tmp_path):
    assert load_definitions(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("just text", "line 1"),
        ("---\nname: a\n---\nx", "'description' is missing"),
        ("---\nname: a\ndescription: d\n---\n", "prompt"),
        ("---\nname: a\ndescription: d\ncolour: red\n---\nx", "unknown field 'colour'"),
        ("---\nname: a\ndescription: d\nmax_turns: many\n---\nx", "max_turns"),
        ("---\nname: a\ndescription: d\nbackground: maybe\n---\nx", "true or false"),
        ("---\nname: a\ndescription: d\nworkspace: moon\n---\nx", "workspace"),
        ("---\nname: a\ndescription: d\n---\n" + "x" * 100_000, "larger than"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, text, words):
    path = tmp_path / "bad.md"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.md") as caught:
        read_definition(path)
    assert words in str(caught.value)


def test_two_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text("---\nname: same\ndescription: d\n---\nx")
    with pytest.raises(ConfigError, match="'same'"):
        load_definitions(tmp_path)


def test_with_a_list_of_problems_one_odd_file_does_not_hold_the_others_up(tmp_path):
    (tmp_path / "a.md").write_text("just text")
    (tmp_path / "b.md").write_text(WHOLE)
    (tmp_path / "c.md").write_bytes(b"\xff\xfe")
    (tmp_path / "d.md").write_text(WHOLE)
    (tmp_path / "e.md").mkdir()
    problems = []
    assert [each.name for each in load_definitions(tmp_path, problems=problems)] == ["reviewer"]
    assert [name for name in ("a.md", "c.md", "e.md") if not any(name in text for text in problems)] == []
    assert "by two files" in problems[2]
    assert len(problems) == 4
