"""Snapshots touch nothing of the user's, run nothing of the workspace's, and survive being killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.processes import running
from tests.snapshots.conftest import Lab, digest, tree

from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.snapshots.ignore import Rules, is_left_out


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=n", "-c", "user.email=e@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_repository_of_the_user_is_not_touched(lab):
    lab.write("a", "1")
    git(lab.root, "init", "-q")
    git(lab.root, "add", "a")
    git(lab.root, "commit", "-qm", "first")
    lab.write("staged", "1")
    git(lab.root, "add", "staged")
    there = digest(lab.root / ".git")
    lab.step(1, lambda: (lab.write("a", "2"), lab.write("b", "2")))
    lab.undo()
    lab.redo()
    asyncio.run(lab.shots.prune(keep_days=1e-9))
    assert digest(lab.root / ".git") == there
    assert (lab.read("a"), lab.read("b"), lab.read("staged")) == ("2", "2", "1")


def test_files_of_nested_repositories_are_kept_but_not_their_git(lab):
    inner = lab.write("vendor/inner/x", "1").parent
    git(inner, "init", "-q")
    git(inner, "add", "x")
    git(inner, "commit", "-qm", "first")
    head = (inner / ".git" / "HEAD").read_text()
    found = lab.step(
        1, lambda: (lab.write("vendor/inner/x", "2"), lab.write("vendor/inner/.git/HEAD", "ref: x\n"))
    )
    assert [change.path for change in found.changes] == ["vendor/inner/x"]
    lab.undo()
    assert lab.read("vendor/inner/x") == "1"
    assert (inner / ".git" / "HEAD").read_text() != head


def test_workspace_settings_run_nothing_and_convert_no_line(lab, tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    settings = "\n".join(
        [
            f'[filter "evil"]\nclean = {trap}\nsmudge = {trap}\nprocess = {trap}',
            f"[core]\nfsmonitor = {trap}\nhooksPath = {tmp_path}\nautocrlf = true",
            f'[diff "evil"]\ntextconv = {trap}\ncommand = {trap}\n',
        ]
    )
    (tmp_path / "evilconfig").write_text(settings)
    (tmp_path / ".gitconfig").write_text(settings)
    for name in ("reference-transaction", "post-index-change", "pre-auto-gc"):
        (tmp_path / name).write_text(trap.read_text())
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "evilconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("HOME", str(tmp_path))
    lab.write(
        ".gitattributes", "* text=auto eol=crlf filter=evil diff=evil ident working-tree-encoding=UTF-16\n"
    )
    lab.write(".git/config", settings)
    lab.write("a", b"one\r\ntwo\n$Id$\n")
    there = tree(lab.root)
    lab.step(1, lambda: lab.write("a", b"1\n"))
    lab.undo()
    asyncio.run(lab.shots.prune())
    assert tree(lab.root) == there
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "elsewhere").exists()


CHILD = """
import asyncio, sys
from pathlib import Path
from pure_agent_loop.snapshots import WorkspaceSnapshots

root, store, moment = sys.argv[1:]
shots = WorkspaceSnapshots(root, store=store)

async def run():
    if moment == "after":
        await shots.before("s", 1)
    for n in range(300):
        Path(root, f"new{n}").write_text(f"{n}" * 2_000)
    print("go", flush=True)
    await (shots.after if moment == "after" else shots.before)("s", 1)
    print("done", flush=True)

asyncio.run(run())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_in_the_middle_leaves_a_valid_store(lab, moment):
    lab.write("a", "1")
    words = [sys.executable, "-c", CHILD, str(lab.root), str(lab.store), moment]
    with running(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        assert child.stdout.readline() == b"go\n"
        child.send_signal(signal.SIGKILL)
    found = lab.step(1, lambda: lab.write("a", "2"))
    assert "a" in [change.path for change in found.changes]
    assert "a" in lab.undo().restored
    assert lab.read("a") == "1"
    asyncio.run(lab.shots.prune())


def test_locks_and_lines_that_a_kill_left_are_cleared(lab):
    lab.step(1, lambda: lab.write("a", "1"))
    base = lab.shots.folder / "git"
    for name in ("packed-refs.lock", "refs/snapshots/x.lock", "HEAD.lock"):
        (base / "objects.git" / name).touch()
    with (base / "steps.jsonl").open("ab") as file:
        file.write(b'{"type":"before","id":"to')
    lab.write(".pal-undo-1234", "left over")
    lab.shots = lab.fresh()
    lab.step(2, lambda: lab.write("a", "2"))
    asyncio.run(lab.shots.prune())
    assert lab.undo().steps == (2,)
    assert lab.read("a") == "1"
    assert not (lab.root / ".pal-undo-1234").exists()


def test_a_cancelled_snapshot_leaves_no_process_and_no_lock(lab):
    for number in range(50):
        lab.write(f"f{number}", os.urandom(100_000))

    async def run():
        task = asyncio.create_task(lab.shots.before("s", 1))
        lock = lab.shots.folder / "git" / "lock"
        while not lock.exists() and not task.done():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not lock.exists()

    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text().split() if children.exists() else []  # of other tests in this process
    asyncio.run(run())
    if children.exists():
        assert set(children.read_text().split()) <= set(before)
    assert lab.step(1, lambda: lab.write("f0", "x")).changes[0].path == "f0"


def test_several_writers_in_one_workspace(lab):
    lab.write("a", "0")
    others = [lab.fresh() for _ in range(3)]

    async def work(number: int, shots: WorkspaceSnapshots):
        for step in (1, 2, 3):
            await shots.before(f"s{number}", step)
            (lab.root / f"{number}-{step}").write_text(f"{number}-{step}")
            await shots.after(f"s{number}", step)
            if step == 2:
                await shots.prune()

    async def run():
        await asyncio.gather(*(work(number, shots) for number, shots in enumerate(others)))

    asyncio.run(run())
    for number in range(3):
        steps = asyncio.run(lab.shots.steps(f"s{number}"))
        assert [step.step for step in steps] == [1, 2, 3]
        for step in steps:
            paths = [change.path for change in asyncio.run(lab.shots.diff(f"s{number}", step.step))]
            assert f"{number}-{step.step}" in paths


def test_pruned_content_is_stored_again(lab):
    lab.write("a", "0")
    lab.step(1, lambda: lab.write("a", "1"))
    asyncio.run(lab.fresh().prune(keep_days=1e-9))
    lab.step(2, lambda: lab.write("b", "1"))
    lab.undo()
    assert [step.step for step in asyncio.run(lab.shots.steps("s"))] == [2]
    lab.step(3, lambda: (lab.root / "a").unlink())
    assert lab.undo().restored == ("a",)
    assert lab.read("a") == "1"


def test_oldest_steps_are_pruned(lab):
    for number in range(1, 5):
        lab.step(number, lambda n=number: lab.write("a", str(n)))
    assert asyncio.run(lab.shots.prune(keep_steps=2)) == 2
    assert [step.step for step in asyncio.run(lab.shots.steps("s"))] == [3, 4]
    assert lab.undo(to_step=3).steps == (4, 3)
    assert lab.read("a") == "2"


# -- any changes at all --------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "e", "d", "ü\n"])
WORK = st.tuples(
    st.sampled_from(["write", "append", "delete", "link", "chmod", "folder"]),
    NAMES,
    st.sampled_from([b"", b"x\n", b"\0", b"line\r\n" * 3]),
)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            clear(each)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def work(root: Path, what: str, name: str, data: bytes) -> None:
    path = root / name
    if what == "delete":
        if not any(p.is_symlink() or p.is_file() for p in path.parents if p != root and root in p.parents):
            clear(path)
        return
    for folder in reversed([p for p in path.parents if root in p.parents]):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        folder.mkdir(exist_ok=True)
    if what == "append" and path.is_file() and not path.is_symlink():
        path.write_bytes(path.read_bytes() + data)
    elif what == "chmod" and path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o111)
    else:
        clear(path)
        if what == "link":
            path.symlink_to("a" if data else "../b")
        elif what == "folder":
            path.mkdir()
        else:
            path.write_bytes(data)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.lists(WORK, min_size=1, max_size=5), min_size=1, max_size=4),
    back=st.integers(1, 4),
)
def test_undo_to_any_step_gives_the_same_tree_again(tmp_path_factory, steps, back):
    lab = Lab(tmp_path_factory.mktemp("round"))
    (lab.root / "kept").touch()
    before = []
    for number, works in enumerate(steps, 1):
        before.append(tree(lab.root))
        lab.step(number, lambda works=works: [work(lab.root, *each) for each in works])
    last = tree(lab.root)
    target = min(back, len(steps))
    lab.shots = lab.fresh()
    report = lab.undo(to_step=target)
    assert report.conflicts == ()
    assert tree(lab.root) == before[target - 1]
    assert lab.redo().conflicts == ()
    assert tree(lab.root) == last


# -- ignore rules ------------------------------------------------------------------------------------------

PATTERN = st.text(st.sampled_from("ab/*?[]!-\\. #^"), min_size=1, max_size=7)
PATH = st.lists(st.text(st.sampled_from("ab.-"), min_size=1, max_size=3), min_size=1, max_size=3).map(
    "/".join
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(PATTERN, min_size=1, max_size=4),
    paths=st.lists(PATH, min_size=1, max_size=12, unique=True),
)
def test_ignore_rules_are_those_of_git(tmp_path_factory, lines, paths):
    folder = tmp_path_factory.mktemp("rules")
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("\n".join(lines) + "\n")
    paths = [path for path in paths if not {".", ".."} & set(path.split("/"))]
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin", "-v", "-n"],
        input="\0".join(paths) + "\0" if paths else "",
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    fields = done.stdout.split("\0")[:-1]
    rows = [fields[at + 2 : at + 4] for at in range(0, len(fields), 4)]
    theirs = {path: bool(pattern) and not pattern.startswith("!") for pattern, path in rows}
    rules = [Rules("", lines)]

    def ours(path: str) -> bool:
        parts = path.split("/")
        folders = ["/".join(parts[:n]) for n in range(1, len(parts))]
        return any(is_left_out(rules, each, is_folder=each != path) for each in (*folders, path))

    assert {path: ours(path) for path in paths} == theirs


def test_a_hostile_pattern_costs_little():
    rules = [Rules("", ["*a" * 40 + "b", "**/" * 30 + "x", "[a-"])]
    assert not is_left_out(rules, "a" * 200 + "/" + "a" * 200, is_folder=False)
