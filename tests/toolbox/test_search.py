"""Finding files by name and lines by content, with ripgrep and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.toolbox import SearchTools, Workspace, WorkspaceError
from pure_agent_loop.toolbox.files import line_matcher
from pure_agent_loop.toolbox.files.matching import find_ripgrep
from pure_agent_loop.toolbox.files.patterns import PathPattern

ENGINES = [False, *([True] if shutil.which("rg") else [])]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "ws"
    for name, text in {
        "a.py": "def one():\n    return 1\n\n\ndef two():\n    return 2\n",
        "src/b.py": "def one():\r\n    pass",
        "src/deep/c.js": "function one() {}\n",
        "src/.hidden/d.py": "def one():\n",
        "node_modules/x/e.js": "one\n",
        ".git/config": "one\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    (root.parent / "secret.py").write_text("def one(): SECRET\n")
    return root


@pytest.fixture
def linked(root: Path) -> Path:
    """The workspace with links inside it, as package managers make them."""
    store = root / "node_modules" / ".pnpm" / "a@1"
    for file in (root / "packages/core/mod.ts", root / "packages/core/deep/m.ts", store / "i.js"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("needle\n")
    (root / "core").symlink_to("packages/core")
    (root / "node_modules" / "a").symlink_to(".pnpm/a@1")
    return root


@pytest.fixture(params=ENGINES, ids=lambda with_rg: "ripgrep" if with_rg else "python")
def tools(request: pytest.FixtureRequest, root: Path) -> SearchTools:
    return SearchTools(Workspace(root), use_ripgrep=request.param)


class TestGlob:
    @pytest.mark.parametrize(
        ("pattern", "path", "found"),
        [
            ("*.py", ".", "a.py"),
            ("**/*.py", ".", "a.py src/b.py"),
            ("**/*.{py,js}", ".", "a.py src/b.py src/deep/c.js"),
            ("*.py", "src", "src/b.py"),
            ("./src/*/[a-c].js", ".", "src/deep/c.js"),
            ("src/**", ".", "src/b.py src/deep/c.js"),
            ("**/**/c.?s", "src", "src/deep/c.js"),
            ("src/.hidden/*", ".", "src/.hidden/d.py"),
            ("node_modules/**/*.js", ".", "node_modules/x/e.js"),
            (".git/*", ".", ".git/config"),
        ],
    )
    def test_patterns(self, root: Path, pattern: str, path: str, found: str) -> None:
        assert SearchTools(Workspace(root)).glob(pattern, path).split() == found.split()

    def test_hidden(self, root: Path) -> None:
        assert len(SearchTools(Workspace(root)).glob("**/*", hidden=True).split()) == 6

    def test_nothing(self, root: Path) -> None:
        result = SearchTools(Workspace(root)).glob("*.js")
        assert result.startswith("No file matches '*.js'. '**/*.js' also looks into folders; hidden=true")

    @pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../b", "", "{a,b}" * 7, "x" * 1_001])
    def test_refused(self, root: Path, pattern: str) -> None:
        with pytest.raises(WorkspaceError):
            SearchTools(Workspace(root)).glob(pattern)

    def test_no_pattern_takes_long(self) -> None:
        pattern = PathPattern("**/a*a*a*a*a*a*a*a*b/" * 20 + "x")
        assert not pattern.matches(["a" * 200] * 60)

    def test_time_that_is_over(self, root: Path) -> None:
        result = SearchTools(Workspace(root), seconds=0.0).glob("**/*")
        assert result.endswith("[stopped after 0 seconds: use a simpler pattern or a narrower path]")

    def test_links_are_named_and_not_followed(self, root: Path) -> None:
        (root / "src" / "out").symlink_to("../..")
        (root / "src" / "round").symlink_to(".")
        assert SearchTools(Workspace(root)).glob("src/**/*").split() == [
            *("src/b.py", "src/deep/c.js", "src/out", "src/round")
        ]

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("core/*.ts", "core/mod.ts"),
            ("core/**/*.ts", "core/deep/m.ts core/mod.ts"),
            ("node_modules/a/*.js", "node_modules/a/i.js"),
            ("{core,core}/*.ts", "core/mod.ts"),
        ],
    )
    def test_folder_behind_a_link_in_the_fixed_part_is_searched(self, linked: Path, pattern, found) -> None:
        assert SearchTools(Workspace(linked)).glob(pattern).split() == found.split()

    @pytest.mark.parametrize(
        ("pattern", "link"), [("node_modules/*/*.js", "node_modules/a"), ("c*/*.ts", "core")]
    )
    def test_link_that_a_pattern_could_follow_is_named_as_left_out(self, linked: Path, pattern, link) -> None:
        found = SearchTools(Workspace(linked)).glob(pattern)
        assert f"[links not followed (1): {link!r}; to search one, name it in path]" in found

    @pytest.mark.parametrize("pattern", ["**/*.ts", "out/*", "out/**", "gone/*.ts"])
    def test_link_to_the_searched_folder_or_outside_is_not_listed(self, linked: Path, pattern) -> None:
        (linked / "round").symlink_to(".")
        (linked / "packages" / "up").symlink_to("..")
        (linked / "out").symlink_to("../..")
        (linked / "gone").symlink_to("nowhere")
        found = SearchTools(Workspace(linked)).glob(pattern)
        assert "secret" not in found
        assert "links not followed" not in found

    def test_many(self, root: Path) -> None:
        for number in range(510):
            (root / f"{number:03}.txt").touch()
        lines = SearchTools(Workspace(root)).glob("*.txt").splitlines()
        assert len(lines) == 501
        assert lines[-1] == "[only the first 500 are shown; use a narrower pattern]"


class TestGrep:
    def test_lines(self, tools: SearchTools) -> None:
        assert tools.grep(r"^def \w+\(\):$") == "a.py:1:def one():\na.py:5:def two():\nsrc/b.py:1:def one():"

    def test_narrower(self, tools: SearchTools) -> None:
        assert tools.grep("one", "src").splitlines() == [
            "src/b.py:1:def one():",
            "src/deep/c.js:1:function one() {}",
        ]
        assert tools.grep("one", "a.py") == "a.py:1:def one():"
        assert tools.grep("one", glob="*.js") == "src/deep/c.js:1:function one() {}"
        assert tools.grep("ONE", glob="src/*.py", ignore_case=True) == "src/b.py:1:def one():"
        assert tools.grep("ONE") == "No line matches."
        assert tools.grep("one", files_only=True).split() == ["a.py", "src/b.py", "src/deep/c.js"]
        assert len(tools.grep("one", hidden=True).splitlines()) == 6

    def test_context_stays_in_its_file(self, tools: SearchTools) -> None:
        assert tools.grep("return 2|pass", context=2).splitlines() == [
            *("a.py-4-", "a.py-5-def two():", "a.py:6:    return 2", "--"),
            *("src/b.py-1-def one():", "src/b.py:2:    pass"),
        ]

    def test_the_empty_lines_between_files_are_none(self, tools: SearchTools) -> None:
        assert tools.grep("^$", context=1).splitlines() == [
            *("a.py-2-    return 1", "a.py:3:", "a.py:4:", "a.py-5-def two():")
        ]

    def test_limits(self, tools: SearchTools, root: Path) -> None:
        (root / "many").write_text("hit\n" * 300)
        lines = tools.grep("hit", limit=10).splitlines()
        assert len(lines) == 11
        assert lines[-1] == "[only the first 10 matches are shown; there are more]"
        (root / "long").write_text("x" * 1_000_000 + "\nhit\n")
        assert tools.grep("x+", "long") == f"long:1:{'x' * 400}..."
        assert tools.grep("hit", "long") == "long:2:hit"

    def test_encodings(self, tools: SearchTools, root: Path) -> None:
        (root / "a").write_bytes("über\n".encode("utf-16"))
        (root / "b").write_bytes(b"\xef\xbb\xbf\xc3\xbcber")
        (root / "c").write_bytes(b"\xfcber\n")
        (root / "d").write_bytes(b"\0ber\n")
        assert tools.grep("^über") == "a:1:über\nb:1:über"
        assert tools.grep("^.ber$").splitlines() == ["a:1:über", "b:1:über", "c:1:\ufffdber"]

    @pytest.mark.parametrize("pattern", ["(", "a{5,1}", "[z-a]"])
    def test_no_regular_expression(self, tools: SearchTools, pattern: str) -> None:
        with pytest.raises(WorkspaceError, match="is not a valid regular expression: "):
            tools.grep(pattern)

    @pytest.mark.parametrize("pattern", ["", "a\nb", "a\0b", "x" * 1_001])
    def test_no_pattern(self, tools: SearchTools, pattern: str) -> None:
        with pytest.raises(WorkspaceError, match="no line break"):
            tools.grep(pattern)

    @pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=touch x", "@x", "\ud800"])
    def test_pattern_with_leading_dash_is_searched(self, tools: SearchTools, pattern: str) -> None:
        assert tools.grep(pattern) == "No line matches."

    def test_pattern_that_ripgrep_lacks_is_searched_with_python(self, tools: SearchTools) -> None:
        assert tools.grep("(?<=def )two") == "a.py:5:def two():"

    def test_where_there_is_nothing(self, tools: SearchTools) -> None:
        with pytest.raises(WorkspaceError, match=r"There is no 'sr'\. Did you mean 'src'"):
            tools.grep("x", "sr")
        with pytest.raises(WorkspaceError, match="outside the workspace"):
            tools.grep("x", "..")

    def test_links_and_hard_links_are_not_read(self, tools: SearchTools, root: Path) -> None:
        (root / "leaf").symlink_to("../secret.py")
        (root / "out").symlink_to("..")
        os.link(root.parent / "secret.py", root / "hard")
        os.mkfifo(root / "pipe")
        assert tools.grep("SECRET") == "No line matches.\n[some files could not be read; read_file says why]"

    def test_link_is_searched_if_it_is_named_and_else_left_out_by_name(
        self, tools: SearchTools, linked: Path
    ) -> None:
        (linked / "notes.txt").symlink_to(".hidden.txt")
        (linked / ".hidden.txt").write_text("needle\n")
        assert tools.grep("needle", "core").splitlines()[-1] == "core/mod.ts:1:needle"
        assert tools.grep("needle", glob="core/*.ts") == "core/mod.ts:1:needle"
        assert tools.grep("needle", "notes.txt") == "notes.txt:1:needle"
        whole = tools.grep("needle", glob="*.t*").splitlines()
        assert whole[:-1] == ["packages/core/deep/m.ts:1:needle", "packages/core/mod.ts:1:needle"]
        assert "links not followed (1): 'notes.txt';" in whole[-1]

    def test_settings_of_ripgrep_are_not_read(
        self, tools: SearchTools, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root.parent / "rc").write_text("--invert-match\n")
        monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(root.parent / "rc"))
        assert tools.grep("two") == "a.py:5:def two():"

    def test_a_pattern_that_takes_for_ever(self, root: Path) -> None:
        (root / "a.txt").write_text("a" * 60 + "b\n")
        tools = SearchTools(Workspace(root), seconds=0.5, use_ripgrep=False)
        assert "[stopped after 0.5 seconds: use a simpler pattern" in tools.grep("(a+)+$")

    def test_a_search_that_fails_is_not_one_that_finds_nothing(self) -> None:
        # A line that needs more memory than there is.
        limited = (
            "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (300_000_000,) * 2); "
            "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        pattern = rb"(?:(a)|(b))*\Z".hex()
        done = subprocess.run(
            [sys.executable, "-I", "-c", limited, line_matcher.__file__, pattern, "0", "0"],
            input=b"ab" * 4_000_000,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (3, b"MemoryError()")

    def test_a_ripgrep_in_the_workspace_is_not_run(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for place, trusted in ((root, False), (root.parent, False)):  # the second is none
            (place / "rg").write_text(f"#!/bin/sh\ntouch {root.parent}/ran\nexit 1\n")
            (place / "rg").chmod(0o755)
            monkeypatch.setenv("PATH", str(place))
            assert (find_ripgrep(root) is not None) == trusted
            assert (root.parent / "ran").exists() == (place == root.parent)


class TestLongLines:
    """What was searched for is in what is shown."""

    LINE = '{"a":1,' * 40_000 + '"secret_door":"left of the stairs",\u4e2d\u6587\u95e8' + "}" * 40_000

    @pytest.mark.parametrize(
        ("pattern", "shown"),
        [
            ("secret_door", '"secret_door":"left'),
            ("SECRET_DOOR", '"secret_door":"left'),
            (r"\bsecret_\w+\b", '"secret_door":"left'),
            (".*secret_door", '"secret_door":"left'),
            (r".*secret_door.*\}$", '"secret_door":"left'),
            ("\u6587\u95e8", "\u4e2d\u6587\u95e8"),
            ("stairs.*", "the stairs"),
            ("}$", "}}}"),
            ("^.", '{"a":1,'),
        ],
    )
    def test_the_match_is_shown(self, tools: SearchTools, root: Path, pattern: str, shown: str) -> None:
        (root / "page.json").write_text(self.LINE + "\nshort\n", encoding="utf-8")
        found = tools.grep(pattern, "page.json", ignore_case=pattern.isupper(), context=1)
        assert shown in found.splitlines()[0]
        assert len(found) < 1_200
        assert "\x01" not in found

    def test_marks_in_the_file_itself(self, tools: SearchTools, root: Path) -> None:
        (root / "a").write_text("x\x01y " * 200 + "the door\n")
        assert "the door" in tools.grep("door", "a")
