"""What the file tools show, and how much of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox import FileTools, Workspace, WorkspaceError, calculator, starter_tools
from pure_agent_loop.toolbox.files.reading import MAX_BYTES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def files(root: Path) -> FileTools:
    return FileTools(Workspace(root))


class TestStarterTools:
    def test_three_described_tools_that_only_read(self, root: Path) -> None:
        tools = starter_tools(root)
        assert [tool.name for tool in tools] == ["list_dir", "read_file", "calculator"]
        assert all(tool.read_only for tool in tools)
        assert tools[2] is calculator
        for tool in tools:
            assert tool.description
            assert all(each["description"] for each in tool.parameters["properties"].values())

    def test_parameters(self, root: Path) -> None:
        by_name = {tool.name: tool.parameters for tool in starter_tools(str(root))}
        assert by_name["list_dir"]["properties"]["path"]["default"] == "."
        assert by_name["read_file"]["required"] == ["path"]
        assert by_name["read_file"]["properties"]["limit"]["default"] == 2000

    def test_invalid_root_is_refused(self, root: Path) -> None:
        with pytest.raises(ConfigError):
            starter_tools(root / "none")


class TestListDir:
    def test_folders_and_sizes_in_order(self, files: FileTools, root: Path) -> None:
        (root / "b").mkdir()
        (root / "a.txt").write_bytes(b"x" * 1234)
        (root / "名字").write_text("")
        assert files.list_dir() == "a.txt (1,234 bytes)\nb/\n名字 (0 bytes)"

    def test_an_empty_folder(self, files: FileTools) -> None:
        assert files.list_dir(".") == "(the folder is empty)"

    def test_many_entries(self, files: FileTools, root: Path) -> None:
        for number in range(510):
            (root / f"{number:03}").touch()
        lines = files.list_dir().splitlines()
        assert len(lines) == 501
        assert lines[499].startswith("499 ")
        assert lines[500] == "[10 more entries are not shown]"

    def test_a_link_is_shown_as_one(self, files: FileTools, root: Path) -> None:
        (root / "link").symlink_to("/etc")
        assert files.list_dir() == "link (symbolic link)"


class TestReadFile:
    def test_a_short_file_as_it_is(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text("one\ntwo")
        assert files.read_file("a.txt") == "one\ntwo"

    def test_an_empty_file(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").touch()
        assert files.read_file("a.txt") == "(the file is empty)"

    def test_pages_join_to_the_whole(self, files: FileTools, root: Path) -> None:
        lines = [f"line {number}\n" for number in range(1, 5322)]
        (root / "a.txt").write_text("".join(lines))
        first = files.read_file("a.txt")
        assert first == "".join(lines[:2000]) + (
            "[lines 1-2000 of 5321; call read_file again with offset=2001 for more]"
        )
        second = files.read_file("a.txt", offset=2001)
        assert second.startswith("line 2001\n")
        assert second.endswith("[lines 2001-4000 of 5321; call read_file again with offset=4001 for more]")
        assert files.read_file("a.txt", 4001) == "".join(lines[4000:]) + "[lines 4001-5321 of 5321]"

    def test_a_part(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text("1\n2\n3")
        assert files.read_file("a.txt", 2, 1) == (
            "2\n[lines 2-2 of 3; call read_file again with offset=3 for more]"
        )
        assert files.read_file("a.txt", 3, 5) == "3\n[lines 3-3 of 3]"
        assert files.read_file("a.txt", offset=0, limit=0).startswith("1\n[lines 1-1 of 3")

    def test_behind_the_end(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text("1\n2\n")
        with pytest.raises(WorkspaceError, match=r"'a.txt' has 2 lines; offset=9 is past its end"):
            files.read_file("a.txt", 9)

    def test_a_page_has_a_greatest_size(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text(("字" * 1_000 + "\n") * 100, encoding="utf-8")
        page = files.read_file("a.txt")
        assert len(page.encode()) <= MAX_BYTES + 100
        assert page.endswith("[lines 1-33 of 100; call read_file again with offset=34 for more]")

    def test_one_endless_line(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text("a\n" + "x" * 1_000_000 + "\nb")
        assert files.read_file("a.txt") == "a\n[lines 1-1 of 3; call read_file again with offset=2 for more]"
        page = files.read_file("a.txt", 2)
        assert page.startswith("x" * MAX_BYTES + "\n")
        assert page.endswith(
            "\n[lines 2-2 of 3; line 2 is too long and was cut; call read_file again with offset=3 for more]"
        )
        assert files.read_file("a.txt", 3) == "b\n[lines 3-3 of 3]"

    def test_lines_of_a_huge_file_are_not_all_counted(self, files: FileTools, root: Path) -> None:
        (root / "a.txt").write_text(("x" * 999 + "\n") * 25_000)
        page = files.read_file("a.txt", 1, 2)
        assert re.search(r"\n\[lines 1-2 of more than \d{5}; .*offset=3 for more\]$", page)

    def test_a_file_larger_than_any_disk(self, files: FileTools, root: Path) -> None:
        with (root / "a.txt").open("wb") as file:
            file.write(b"x\n" * 5_000)
            file.truncate(10_000_000_000_000)
        with pytest.raises(WorkspaceError, match="it is not among the first 5,001 lines"):
            files.read_file("a.txt", offset=10_000)

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ("übung\n".encode(), "übung\n"),
            ("übung\n".encode("utf-8-sig"), "übung\n"),
            ("übung\n".encode("utf-16"), "übung\n"),
            ("übung\n".encode("latin-1"), "\ufffdbung\n"),
            (b"a\r\nb\r\n", "a\nb\n"),
        ],
    )
    def test_encodings(self, files: FileTools, root: Path, data: bytes, text: str) -> None:
        (root / "a.txt").write_bytes(data)
        assert files.read_file("a.txt") == text

    @pytest.mark.parametrize(
        ("data", "kind"), [(b"\x89PNG\r\n\x1a\n\0\0", "PNG image"), (b"\0\1\2", "binary data")]
    )
    def test_binary_files_are_described(self, files: FileTools, root: Path, data: bytes, kind: str) -> None:
        (root / "a.bin").write_bytes(data)
        assert (
            files.read_file("a.bin") == f"'a.bin' is not text: {kind}, {len(data)} bytes. It cannot be shown."
        )
