"""Writing and editing files: what changes, what stays, and what the model is told."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from pure_agent_loop.toolbox import ChangeTools, Workspace, WorkspaceError, workspace_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def tools(root: Path) -> ChangeTools:
    return ChangeTools(Workspace(root))


def refusal(tools: ChangeTools, *arguments: str, **options: bool) -> str:
    with pytest.raises(WorkspaceError) as caught:
        tools.edit_file(*arguments, **options)
    return str(caught.value)


def test_six_described_tools(root: Path) -> None:
    tools = {tool.name: tool for tool in workspace_tools(root, shell=False)}
    assert list(tools) == ["list_dir", "read_file", "write_file", "edit_file", "glob", "grep"]
    assert {name for name, tool in tools.items() if not tool.read_only} == {"write_file", "edit_file"}
    for tool in tools.values():
        assert tool.description
        assert all(each["description"] for each in tool.parameters["properties"].values())


class TestWriteFile:
    def test_create_and_replace(self, tools: ChangeTools, root: Path) -> None:
        assert tools.write_file("d/a.txt", "één\n") == "Created 'd/a.txt' (1 line, 6 bytes)."
        assert tools.write_file("d/a.txt", "1\n2") == "Replaced 'd/a.txt' (2 lines, 3 bytes)."
        assert (root / "d" / "a.txt").read_bytes() == b"1\n2"
        assert tools.write_file("e", "") == "Created 'e' (0 lines, 0 bytes)."

    def test_other_hard_links_are_reported(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("old")
        os.link(root / "a", root / "b")
        assert tools.write_file("b", "new").endswith("1 more names (hard links), which keep the old content.")

    def test_text_that_no_file_can_hold(self, tools: ChangeTools, root: Path) -> None:
        tools.write_file("a", "x\ud800")
        assert (root / "a").read_text(encoding="utf-8") == "x\ufffd"
        with pytest.raises(WorkspaceError, match="larger than 10,000,000 bytes"):
            tools.write_file("b", "x" * 10_000_001)


class TestEditFile:
    def test_a_place(self, tools: ChangeTools, root: Path) -> None:
        (root / "a.py").write_text("import os\n\ndef f():\n    x = 1\n    return x\n\nend\n")
        assert tools.edit_file("a.py", "def f():\n    x = 1\n", "def f():\n    x = 2\n    y = 3\n") == (
            "Edited 'a.py'.\n@@ -2,5 +2,6 @@\n \n def f():\n"
            "-    x = 1\n+    x = 2\n+    y = 3\n     return x\n "
        )
        assert (root / "a.py").read_text() == (
            "import os\n\ndef f():\n    x = 2\n    y = 3\n    return x\n\nend\n"
        )

    @pytest.mark.parametrize(
        ("old", "new", "text", "shown"),
        [
            ("b", "X", "aXc\n", "@@ -1,1 +1,1 @@\n-abc\n+aXc"),
            ("abc\n", "", "", "@@ -1,1 +1,0 @@\n-abc"),
            ("abc\n", "abc\nd\n", "abc\nd\n", "@@ -2,1 +2,2 @@\n abc\n+d"),
        ],
    )
    def test_parts_of_lines_and_whole_ones(
        self, tools: ChangeTools, root: Path, old: str, new: str, text: str, shown: str
    ) -> None:
        (root / "a").write_text("abc\n")
        result = tools.edit_file("a", old, new)
        assert (root / "a").read_text() == text
        assert result.splitlines()[2:] == shown.splitlines()[1:]

    def test_several_places(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("x\ny\nx\n")
        message = refusal(tools, "a", "x", "z")
        assert message.startswith("old_text occurs 2 times in 'a', at lines 1, 3. Add lines around it")
        assert (root / "a").read_text() == "x\ny\nx\n"
        assert "in 2 places (lines 1, 3); the first:" in tools.edit_file("a", "x", "z", replace_all=True)
        assert (root / "a").read_text() == "z\ny\nz\n"

    def test_a_change_in_a_long_line_is_shown(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("x," * 5_000 + "door: shut" + ",y" * 5_000)
        shown = tools.edit_file("a", "shut", "open")
        assert "door: shut,y" in shown
        assert "door: open,y" in shown
        assert len(shown) < 1_000

    def test_places_that_overlap_are_several(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_bytes(b"}\r\n}\r\n}\n")
        message = refusal(tools, "a", "}\n}\n", "x")
        assert message.startswith("old_text occurs 2 times in 'a', at lines 1, 2.")
        tools.edit_file("a", "}\n}\n", "x\n", replace_all=True)
        assert (root / "a").read_bytes() == b"x\r\n}\n"

    def test_many_places(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("x" * 1_000_001)
        assert "more than 20 times" in refusal(tools, "a", "x", "y")
        assert "more than 1,000,000 times" in refusal(tools, "a", "x", "y", replace_all=True)

    def test_a_change_that_would_be_huge_is_not_made_first(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("x" * 100_000)
        tracemalloc.start()
        try:
            message = refusal(tools, "a", "x", "y" * 2_000, replace_all=True)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "larger than 10,000,000 bytes" in message
        assert peak < 50_000_000

    @pytest.mark.parametrize("text", ["\n" * 1_000_000, "a\n" * 1_000_000])
    def test_texts_that_repeat_take_no_quadratic_time(
        self, tools: ChangeTools, root: Path, text: str
    ) -> None:
        (root / "a").write_text(text)
        assert "Nothing in it is similar" in refusal(tools, "a", text[:500_000] + "quite another end", "x")

    def test_nothing_to_do(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("x")
        assert "are the same" in refusal(tools, "a", "x", "x")
        assert "old_text is empty" in refusal(tools, "a", "", "x")
        assert "There is no 'b'" in refusal(tools, "b", "x", "y")
        assert not (root / "b").exists()

    @pytest.mark.parametrize(
        ("old", "help_"),
        [
            ("def f(a):\n  return a", "The difference is indentation"),
            ("def f(a): \n    return a", "The difference is trailing spaces"),
            ("def f( a ):\n    return  a", "The difference is spaces within the lines"),
            ("DEF f(a):\n    return a", "The difference is upper and lower case"),
            ("def f(a):\\n    return a", "line breaks, tabs or quotes instead of \\n"),
            (
                "def f(b):\n    return a",
                "The most similar lines are:\nline 2: def f(a):\nline 3:     return a",
            ),
            ("quite something else", "Nothing in it is similar"),
        ],
    )
    def test_not_found(self, tools: ChangeTools, root: Path, old: str, help_: str) -> None:
        (root / "a").write_text("# start\ndef f(a):\n    return a\n")
        message = refusal(tools, "a", old, "x")
        assert message.startswith("old_text is not in 'a'.")
        assert help_ in message

    def test_tabs_are_made_visible(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("if x:\n\tgo()  \n")
        assert "line 2: \\tgo()  |" in refusal(tools, "a", "if x:\n    go()", "x")

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nY\r\nc\r\n"),
            (b"a\nb\nc\n", b"a\nX\nY\nc\n"),
            (b"a\r\nb\r\nc\nd\r\n", b"a\r\nX\r\nY\r\nc\nd\r\n"),
            (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nX\nY\nc"),
            ("a\nb\nc".encode("utf-16"), "a\nX\nY\nc".encode("utf-16")),
            (b"\xfe\xff" + "a\nb\nc".encode("utf-16-be"), b"\xfe\xff" + "a\nX\nY\nc".encode("utf-16-be")),
            (b"\xe9\na\nb\n\xff", b"\xe9\na\nX\nY\n\xff"),
        ],
    )
    def test_encoding_and_line_ends_stay(
        self, tools: ChangeTools, root: Path, before: bytes, after: bytes
    ) -> None:
        (root / "a").write_bytes(before)
        tools.edit_file("a", "a\nb", "a\nX\nY")
        assert (root / "a").read_bytes() == after

    @pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfea\0b", "a".encode("utf-32")])
    def test_binary_file_is_rejected(self, tools: ChangeTools, root: Path, data: bytes) -> None:
        (root / "a").write_bytes(data)
        assert "is not text" in refusal(tools, "a", "a", "b")

    def test_two_at_once_lose_nothing(self, tools: ChangeTools, root: Path) -> None:
        (root / "a").write_text("".join(f"<{number}>\n" for number in range(40)))
        threads = [
            threading.Thread(target=tools.edit_file, args=("a", f"<{number}>", f"[{number}]"))
            for number in range(40)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (root / "a").read_text() == "".join(f"[{number}]\n" for number in range(40))
