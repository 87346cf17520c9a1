"""What a workspace writes, and what never: outside, through links, or where things run by themselves."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox import PROTECTED, Workspace, WorkspaceError, workspace_tools
from pure_agent_loop.toolbox.files.beneath import best_opener, open_by_checking, open_by_walking

OPENERS = [best_opener(), open_by_checking]
if os.open in os.supports_dir_fd:
    OPENERS.append(open_by_walking)
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file kinds")


@pytest.fixture
def around(memory: Path) -> Path:
    (memory / "outside").mkdir()
    (memory / "outside" / "secret.txt").write_text("SECRET")
    (memory / "ws" / "docs").mkdir(parents=True)
    (memory / "ws" / "a.txt").write_text("old")
    return memory


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def workspace(request: pytest.FixtureRequest, around: Path) -> Workspace:
    return Workspace(around / "ws", opener=request.param)


def everything(folder: Path) -> dict[str, bytes | str]:
    """Every name below a folder with what it holds."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes()
    return found


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def refusal(workspace: Workspace, path: str, data: bytes = b"new") -> str:
    """The message when nothing may be written, and nothing was."""
    before = everything(workspace.root.parent)
    with pytest.raises(WorkspaceError) as caught:
        workspace.write(path, data)
    assert everything(workspace.root.parent) == before
    return str(caught.value)


class TestWrite:
    def test_a_new_file_and_its_folders(self, workspace: Workspace) -> None:
        assert workspace.write("x/y/z.txt", b"new") is None
        assert (workspace.root / "x/y/z.txt").read_bytes() == b"new"
        assert names(workspace.root / "x" / "y") == ["z.txt"]

    def test_folders_are_not_made_unasked(self, workspace: Workspace) -> None:
        with pytest.raises(WorkspaceError, match=r"There is no 'x/z.txt'"):
            workspace.write("x/z.txt", b"", make_folders=False)
        assert not (workspace.root / "x").exists()

    def test_a_file_is_replaced(self, workspace: Workspace) -> None:
        before = workspace.write(str(workspace.root / "a.txt"), b"new")
        assert before is not None
        assert before.st_size == 3
        assert everything(workspace.root) == {"a.txt": b"new", "docs": "folder"}

    @posix
    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755])
    def test_permissions_are_kept_but_no_special_rights(self, workspace: Workspace, mode: int) -> None:
        (workspace.root / "a.txt").chmod(mode)
        workspace.write("a.txt", b"new")
        assert stat.S_IMODE((workspace.root / "a.txt").stat().st_mode) == mode & 0o777

    @posix
    def test_a_new_file_has_the_usual_permissions(self, workspace: Workspace) -> None:
        (workspace.root / "usual").touch()
        workspace.write("new", b"")
        assert (workspace.root / "new").stat().st_mode == (workspace.root / "usual").stat().st_mode

    @posix
    def test_readers_keep_the_whole_old_file(self, workspace: Workspace) -> None:
        with (workspace.root / "a.txt").open() as reader:
            workspace.write("a.txt", b"new and longer")
            assert reader.read() == "old"

    @posix
    def test_a_failed_write_leaves_nothing(self, around: Path) -> None:
        workspace = Workspace(around / "ws")
        (workspace.root / "full").symlink_to("/dev/full")
        assert "symbolic link" in refusal(workspace, "full")
        (workspace.root / "folder.txt").mkdir()
        assert "is a folder" in refusal(workspace, "folder.txt")

    @posix
    def test_no_descriptor_is_left_open(self, workspace: Workspace) -> None:
        descriptors = Path("/proc/self/fd")
        if not descriptors.is_dir():
            pytest.skip("counts through /proc")
        before = len(list(descriptors.iterdir()))
        for path in ["a.txt", "x/y", "docs", ".git/config", "a.txt/x", "../x", "n" * 300]:
            with suppress(WorkspaceError):
                workspace.write(path, b"")
        assert len(list(descriptors.iterdir())) == before


class TestRefusals:
    @pytest.mark.parametrize(
        "path", ["../x", "/etc/x", "docs/../../x", "a\0b", "\ud800", "x" * 5_000, "n" * 300]
    )
    def test_paths_that_lead_out_or_are_none(self, workspace: Workspace, path: str) -> None:
        refusal(workspace, path).encode()

    @pytest.mark.parametrize(
        ("path", "words"), [("docs", "is a folder"), (".", "itself"), ("a.txt/x", "not a folder")]
    )
    def test_path_that_is_not_a_file_is_rejected(self, workspace: Workspace, path: str, words: str) -> None:
        assert words in refusal(workspace, path)

    @posix
    def test_links_are_never_followed(self, workspace: Workspace) -> None:
        root = workspace.root
        (root / "leaf").symlink_to("../outside/secret.txt")
        (root / "inside").symlink_to("a.txt")
        (root / "middle").symlink_to("../outside")
        (root / "docs" / "back").symlink_to("..")
        (root / "dangling").symlink_to("../outside/new")
        (root / "loop").symlink_to("loop")
        for path in [
            "leaf",
            "inside",
            "middle/new",
            "docs/back/a.txt",
            "dangling",
            "loop",
            "loop/x",
            "middle/x/y",
        ]:
            assert re.search("symbolic link|leads outside", refusal(workspace, path))

    @posix
    def test_non_regular_file_is_rejected(self, workspace: Workspace) -> None:
        os.mkfifo(workspace.root / "pipe")
        with pytest.raises(WorkspaceError, match="not a regular file"):
            workspace.write("pipe", b"")

    @posix
    def test_a_file_marked_read_only(self, workspace: Workspace) -> None:
        (workspace.root / "a.txt").chmod(0o444)
        assert "marked as read-only" in refusal(workspace, "a.txt")


class TestHardLinks:
    @pytest.fixture
    def linked(self, workspace: Workspace) -> Workspace:
        os.link(workspace.root.parent / "outside" / "secret.txt", workspace.root / "linked")
        return workspace

    def test_reading_is_refused(self, linked: Workspace) -> None:
        with pytest.raises(WorkspaceError, match=r"'linked' has 2 names \(hard links\).*hard_links='allow'"):
            linked.open_for_reading("linked")

    def test_unless_allowed(self, linked: Workspace) -> None:
        allowing = Workspace(linked.root, opener=linked._open, hard_links="allow")
        with allowing.open_for_reading("linked") as file:
            assert file.read() == b"SECRET"

    def test_writing_leaves_the_other_name_alone(self, linked: Workspace) -> None:
        before = linked.write("linked", b"new")
        assert before is not None
        assert before.st_nlink == 2
        assert (linked.root / "linked").read_bytes() == b"new"
        assert (linked.root.parent / "outside" / "secret.txt").read_bytes() == b"SECRET"

    def test_an_unknown_word(self, around: Path) -> None:
        with pytest.raises(ConfigError, match="hard_links='no' is invalid"):
            Workspace(around / "ws", hard_links="no")  # type: ignore[arg-type]  # a mistake


class TestProtected:
    @pytest.mark.parametrize("name", PROTECTED)
    def test_missing_existing_and_deep(self, workspace: Workspace, name: str) -> None:
        for path in [name, f"{name}/x", f"docs/{name}", f"no/such/{name}/hooks/x"]:
            assert "is protected" in refusal(workspace, path)
        place = workspace.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("is there")
        assert "is protected" in refusal(workspace, name)

    @pytest.mark.parametrize(
        "path",
        [
            *(".GIT/config", ".Git/hooks/x", ".git./config", ".git /config", ".git//config", "./.git/config"),
            *("docs/../.git/config", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", ".g\u200cit/config"),
            *(".BASHRC", ".bashrc.", "PAL.TOML", "x/.VSCode/tasks.json", ".config/FISH/config", ".git/"),
            *(
                ".pdbrc",
                ".rprofile",
                "src/.irbrc",
            ),  # what debuggers and shells of languages run at their start
        ],
    )
    def test_other_ways_to_write_a_name(self, workspace: Workspace, path: str) -> None:
        assert "is protected" in refusal(workspace, path)

    @posix
    def test_through_a_link(self, workspace: Workspace) -> None:
        (workspace.root / ".git").mkdir()
        (workspace.root / "x").symlink_to(".git")
        (workspace.root / "y").symlink_to(".bashrc")
        assert "link" in refusal(workspace, "x/config")
        assert "link" in refusal(workspace, "y")

    @posix
    def test_through_a_hard_link(self, workspace: Workspace) -> None:
        (workspace.root / ".bashrc").write_text("mine")
        os.link(workspace.root / ".bashrc", workspace.root / "x")
        workspace.write("x", b"new")
        assert (workspace.root / ".bashrc").read_text() == "mine"

    @pytest.mark.parametrize(
        "path",
        [".gitignore", ".gitattributes", ".github/workflows/ci.yml", "git", "Makefile", "a.git", "fish"],
    )
    def test_unprotected_names_are_writable(self, workspace: Workspace, path: str) -> None:
        workspace.write(path, b"new")

    def test_it_can_be_read(self, workspace: Workspace) -> None:
        (workspace.root / ".git").mkdir()
        (workspace.root / ".git" / "config").write_text("x")
        workspace.open_for_reading(".git/config").close()

    def test_custom_protected_names(self, around: Path) -> None:
        workspace = Workspace(around / "ws", protected=["docs", "a/b"])
        assert workspace.protected == ("docs", "a/b")
        assert "is protected" in refusal(workspace, "x/docs")
        assert "is protected" in refusal(workspace, "x/a/b/c")
        workspace.write(".git/config", b"mine")
        workspace.write("a/c/b", b"mine")
        with pytest.raises(ConfigError, match="must be a list"):
            Workspace(around / "ws", protected="docs")

    def test_the_data_folder(self, around: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAL_HOME", str(around / "ws" / "my" / "data"))
        workspace = Workspace(around / "ws")
        assert "is protected" in refusal(workspace, "my/data/sessions/x.jsonl")
        assert workspace.protected[-1] == "my/data"

    @pytest.mark.anyio
    async def test_every_tool_that_writes_obeys(self, around: Path) -> None:
        before = everything(around)
        for tool in workspace_tools(around / "ws", shell=False):
            if not tool.read_only:
                arguments = {"path": ".git/hooks/x", "content": "c", "old_text": "o", "new_text": "n"}
                given = {name: arguments[name] for name in tool.parameters["required"]}
                assert "WorkspaceError" in await tool.execute(given)
        assert everything(around) == before


NAMES = [
    *("..", ".", "", "docs", "a.txt", "leaf", "up", "deep", "outside", "secret.txt", "ws", "/", "~", "hard"),
    *(
        ".git",
        ".GIT",
        ".git.",
        "GIT~1",
        ".bashrc",
        "hooks",
        "\0",
        "\ud800",
        "n" * 256,
        "名",
        "new",
        "x" * 5_000,
    ),
]
STARTS = ["", "", "", "/", "//", "{root}/", "{root}evil/", "{root}/../"]
ENDS = ["", "", "/", "/.", "."]
EXAMPLES, PATHS_EACH = 250, 20
MANY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=EXAMPLES
)


def paths(random: Random, odd: list[str], root: Path) -> list[str]:
    """Many from one example: drawing each alone would take most of the time."""
    known = NAMES + odd
    return [
        random.choice(STARTS).format(root=root)
        + "/".join(random.choices(known, k=random.randint(0, 6)))
        + random.choice(ENDS)
        for _ in range(PATHS_EACH)
    ]


def with_traps(around: Path) -> Path:
    root = around / "ws"
    if not (root / "leaf").is_symlink():
        (root / "leaf").symlink_to("../outside/secret.txt")
        (root / "docs" / "up").symlink_to("../..")
        (root / "docs" / "deep").symlink_to(".")
        os.link(around / "outside" / "secret.txt", root / "hard")
    return root


@posix
@MANY
@given(random=st.randoms(use_true_random=True), odd=st.lists(st.text(max_size=4), max_size=3))
def test_any_opened_path_lies_inside(around: Path, random: Random, odd: list[str]) -> None:
    root = with_traps(around)
    inside = {(root / "a.txt").stat().st_ino}
    spaces = [Workspace(root, opener=opener) for opener in OPENERS]
    for path in paths(random, odd, root):
        for workspace in spaces:
            with suppress(WorkspaceError), workspace.open_for_reading(path) as file:
                assert os.fstat(file.fileno()).st_ino in inside, path


@posix
@MANY
@given(random=st.randoms(use_true_random=True), odd=st.lists(st.text(max_size=4), max_size=3))
def test_any_written_path_lies_inside_and_is_unprotected(
    around: Path, random: Random, odd: list[str]
) -> None:
    root = with_traps(around)
    spaces = [Workspace(root, opener=opener) for opener in OPENERS]
    for number, path in enumerate(paths(random, odd, root)):
        with suppress(WorkspaceError):
            spaces[number % len(spaces)].write(path, b"new")
        assert (around / "outside" / "secret.txt").read_bytes() == b"SECRET", path
        assert names(around / "outside") == ["secret.txt"], path
        assert names(around) == ["outside", "ws"], path
    for name in (entry.name for entry in root.rglob("*")):
        assert name.rstrip(".").lower() not in {".git", "git~1", ".bashrc"}
        assert not name.endswith(".tmp")
