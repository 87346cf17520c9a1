"""Nothing outside the workspace is ever opened: every way to open, every trick, and a race."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox import Workspace, WorkspaceError
from pure_agent_loop.toolbox.files.beneath import (
    best_opener,
    open_by_checking,
    open_by_walking,
)

OPENERS = [best_opener(), open_by_checking]
if os.open in os.supports_dir_fd:
    OPENERS.append(open_by_walking)
DESCRIPTORS = Path("/proc/self/fd")
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file kinds")


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """A folder that holds the workspace `ws`, a sibling `wsevil` and a secret."""
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "wsevil").mkdir()
    (tmp_path / "wsevil" / "secret.txt").write_text("SECRET")
    root = tmp_path / "ws"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "README.md").write_text("read me")
    (root / "docs" / "guide.md").write_text("guide")
    return tmp_path


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def workspace(request: pytest.FixtureRequest, around: Path) -> Workspace:
    return Workspace(around / "ws", opener=request.param)


def read(workspace: Workspace, path: str) -> str:
    with workspace.open_for_reading(path) as file:
        return file.read().decode()


def refusal(workspace: Workspace, path: str) -> str:
    with pytest.raises(WorkspaceError) as caught:
        workspace.open_for_reading(path).close()
    return str(caught.value)


class TestInside:
    @pytest.mark.parametrize(
        "path",
        [
            "docs/guide.md",
            "./docs/guide.md",
            "docs//guide.md",
            "docs/../docs/guide.md",
            "docs/deep/../guide.md",
        ],
    )
    def test_ways_to_write_a_path(self, workspace: Workspace, path: str) -> None:
        assert read(workspace, path) == "guide"

    def test_an_absolute_path_inside(self, workspace: Workspace) -> None:
        assert read(workspace, str(workspace.root / "docs" / "guide.md")) == "guide"
        assert read(workspace, f"{workspace.root}/docs/../README.md") == "read me"
        assert read(workspace, f"{workspace.root}/../ws/README.md") == "read me"

    @posix
    def test_an_absolute_path_by_the_name_the_root_was_given(self, around: Path) -> None:
        (around / "alias").symlink_to(around / "ws")
        workspace = Workspace(around / "alias")
        assert workspace.root == (around / "ws").resolve()
        assert read(workspace, str(around / "alias" / "README.md")) == "read me"

    def test_listing(self, workspace: Workspace) -> None:
        (workspace.root / "docs" / "a").write_bytes(b"123")
        listing = workspace.list("docs")
        assert [(entry.name, entry.kind, entry.size) for entry in listing.entries] == [
            ("a", "file", 3),
            ("deep", "folder", None),
            ("guide.md", "file", 5),
        ]
        assert workspace.list("docs", limit=1).entries == listing.entries[:1]
        assert workspace.list("docs", limit=1).total == 3

    def test_no_descriptor_is_left_open(self, workspace: Workspace) -> None:
        def open_now() -> int:
            return sum(1 for _ in DESCRIPTORS.iterdir())

        if not DESCRIPTORS.is_dir():
            pytest.skip("counts through /proc")
        before = open_now()
        for path in ["docs/guide.md", "docs/deep/none", "docs", "../x", "README.md/x"]:
            try:
                workspace.open_for_reading(path).close()
            except WorkspaceError:
                assert open_now() == before
            workspace.list("docs")
        assert open_now() == before


class TestOutside:
    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../secret.txt",
            "docs/../../secret.txt",
            "../ws/../secret.txt",
            "../wsevil/secret.txt",
            "/",
            "/etc/passwd",
        ],
    )
    def test_paths_that_lead_out(self, workspace: Workspace, path: str) -> None:
        message = refusal(workspace, path)
        assert repr(path) in message
        assert "outside the workspace" in message
        with pytest.raises(WorkspaceError):
            workspace.list(path)

    def test_a_sibling_with_the_same_start(self, workspace: Workspace) -> None:
        assert "outside" in refusal(workspace, f"{workspace.root}evil/secret.txt")

    @pytest.mark.parametrize("path", ["a\0b", "x" * 6_000, "\ud800", "docs/" + "y" * 300])
    def test_invalid_paths_are_refused(self, workspace: Workspace, path: str) -> None:
        message = refusal(workspace, path)
        assert len(message) < 400
        message.encode()

    def test_a_path_too_long_to_try(self, workspace: Workspace) -> None:
        assert "is not a valid path" in refusal(workspace, "x/" * 3_000)

    @posix
    def test_links_that_lead_out(self, workspace: Workspace, around: Path) -> None:
        root = workspace.root
        (root / "leaf").symlink_to(around / "secret.txt")
        (root / "relative").symlink_to("../secret.txt")
        (root / "middle").symlink_to(around)
        (root / "docs" / "up").symlink_to("../..")
        (root / "loop").symlink_to("loop")
        for path in ["leaf", "relative", "middle/secret.txt", "docs/up/secret.txt", "loop"]:
            message = refusal(workspace, path)
            assert repr(path) in message
            assert "SECRET" not in message
        for path in ["middle", "docs/up", "middle/wsevil"]:
            with pytest.raises(WorkspaceError):
                workspace.list(path)

    @posix
    def test_links_that_stay_inside(self, workspace: Workspace) -> None:
        (workspace.root / "docs" / "to-readme").symlink_to("../README.md")
        (workspace.root / "manual").symlink_to("docs")
        if workspace._open is open_by_walking:  # it follows none
            assert "goes through a symbolic link" in refusal(workspace, "docs/to-readme")
            assert "goes through a symbolic link" in refusal(workspace, "manual/guide.md")
        else:
            assert read(workspace, "docs/to-readme") == "read me"
            assert read(workspace, "manual/guide.md") == "guide"

    @posix
    def test_a_broken_link(self, workspace: Workspace) -> None:
        (workspace.root / "broken").symlink_to("nothing")
        assert "link" in refusal(workspace, "broken")

    @posix
    def test_non_regular_file_is_rejected(self, workspace: Workspace) -> None:
        os.mkfifo(workspace.root / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(workspace.root / "socket"))
            # A pipe without a writer would block an ordinary open for ever.
            assert "not a regular file" in refusal(workspace, "pipe")
            assert "not a regular file" in refusal(workspace, "socket")
        assert "is a folder. Use list_dir" in refusal(workspace, "docs")
        assert [entry.kind for entry in workspace.list().entries] == ["file", "folder", "other", "other"]

    @posix
    def test_devices_under_a_root_that_has_them(self) -> None:
        assert "not a regular file" in refusal(Workspace("/dev"), "zero")

    @posix
    @pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
    def test_no_permission(self, workspace: Workspace) -> None:
        (workspace.root / "README.md").chmod(0)
        assert "permission denied" in refusal(workspace, "README.md")


class TestMessages:
    @pytest.mark.parametrize(
        ("path", "help_"),
        [
            ("docs/guied.md", "Did you mean 'docs/guide.md'?"),
            ("readme.MD", "Did you mean 'README.md'?"),
            ("dcos/guide.md", "Did you mean 'docs'?"),
            ("zzz", "The workspace has: README.md, docs. Use list_dir"),
            ("docs/deep/zzz", "'docs/deep' is empty."),
            ("README.md/x", "'README.md' is not a folder."),
        ],
    )
    def test_missing_path_suggests_entries(self, workspace: Workspace, path: str, help_: str) -> None:
        if path == "readme.MD" and (workspace.root / path).exists():
            pytest.skip("names have no case here")
        message = refusal(workspace, path)
        assert message.startswith(f"There is no {path!r}. ")
        assert help_ in message

    def test_hidden_names_come_last(self, workspace: Workspace) -> None:
        (workspace.root / ".git").mkdir()
        assert "The workspace has: README.md, docs, .git." in refusal(workspace, "zzz")

    def test_listing_a_file(self, workspace: Workspace) -> None:
        with pytest.raises(WorkspaceError, match=r"is a file, not a folder\. Use read_file"):
            workspace.list("README.md")

    @pytest.mark.parametrize("root", ["missing", "ws/README.md"])
    def test_root_that_is_not_a_folder_is_rejected(self, around: Path, root: str) -> None:
        with pytest.raises(ConfigError, match="not an existing folder"):
            Workspace(around / root)


PARTS = st.sampled_from(
    ["..", ".", "", "docs", "deep", "guide.md", "leaf", "up", "wsevil", "secret.txt", "ws", "/", "~"]
)


@posix
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS | st.text(max_size=3), max_size=8), absolute=st.booleans())
def test_any_path_opens_something_inside_or_is_refused(
    around: Path, parts: list[str], absolute: bool
) -> None:
    root = around / "ws"
    for name, target in {"leaf": "../secret.txt", "docs/up": "../.."}.items():
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    path = (f"{root}/" if absolute else "") + "/".join(parts)
    for opener in OPENERS:
        try:
            found = read(Workspace(root, opener=opener), path)
        except WorkspaceError:
            continue
        assert found in {"read me", "guide"}


SWAPPER = """
import os, sys
inside, outside, link, spare = sys.argv[1:]
print("ready", flush=True)
while True:
    for target in (inside, outside):
        os.symlink(target, spare)
        os.replace(spare, link)
"""


@pytest.fixture
def swapping(around: Path) -> Iterator[Callable[[str, str], None]]:
    """Starts a process that makes `ws/swap` a link to the one and the other, again and again."""
    running = []

    def start(inside: str, outside: str) -> None:
        arguments = [inside, outside, str(around / "ws" / "swap"), str(around / "spare")]
        swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, *arguments], stdout=subprocess.PIPE)
        running.append(swapper)
        assert swapper.stdout is not None
        swapper.stdout.readline()

    yield start
    for swapper in running:
        swapper.kill()
        swapper.communicate()


def outcomes(look: Callable[[], str], wanted: set[str]) -> set[str]:
    """What at least 3,000 looks saw; more if the race has not shown all its faces by then."""
    seen: set[str] = set()
    for count in range(300_000):
        try:
            seen.add(look())
        except WorkspaceError:
            seen.add("refused")
        if count >= 3_000 and wanted <= seen:
            break
    return seen


@posix
@pytest.mark.parametrize("opener", [best_opener(), open_by_walking], ids=lambda opener: opener.__name__)
@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
def test_a_link_swapped_while_files_are_opened(around: Path, swapping, opener, folder: bool) -> None:
    root = around / "ws"
    (root / "docs" / "secret.txt").write_text("harmless")
    workspace = Workspace(root, opener=opener)
    wanted = {"refused"} if opener is open_by_walking else {"refused", "harmless"}
    if folder:
        swapping("docs", "..")
        seen = outcomes(lambda: read(workspace, "swap/secret.txt"), wanted)
    else:
        swapping("docs/secret.txt", "../secret.txt")
        seen = outcomes(lambda: read(workspace, "swap"), wanted)
    assert seen == wanted


@posix
@pytest.mark.parametrize("opener", [best_opener(), open_by_walking], ids=lambda opener: opener.__name__)
def test_a_link_swapped_while_folders_are_listed(around: Path, swapping, opener) -> None:
    workspace = Workspace(around / "ws", opener=opener)
    inside = "deep guide.md"
    wanted = {"refused"} if opener is open_by_walking else {"refused", inside}
    swapping("docs", "..")
    seen = outcomes(lambda: " ".join(entry.name for entry in workspace.list("swap").entries), wanted)
    assert seen == wanted
