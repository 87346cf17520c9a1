"""The separate folder of a subagent: a disposable copy of the workspace, or a git worktree."""

from __future__ import annotations

import difflib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.subagents.words import Words
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment, find_program
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.repository import git_folders, odd_entries
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread

MAX_COPIED_BYTES = 200_000_000
MAX_COPIED_FILES = 20_000
MAX_DIFF_CHARS = 20_000
_MAX_COMPARED_BYTES = 500_000
# The data of a repository; it cannot name a program for git to run. The second git folder of a worktree has
# links to this data, but its own configuration: the repository's configuration and hooks are never read.
_DATA = ("objects", "refs", "logs", "packed-refs", "shallow", "info", "lfs")
_WRITTEN = ("refs", "logs", "packed-refs", "worktrees")
# Settings that disable all programs named in the user's own configuration, except filters.
_SETTINGS = {
    "core.bare": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.allow": "never",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
}
_SAFE_OPTIONS = tuple(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))


class PlaceError(PureAgentLoopError):
    """A subagent's folder cannot be created. The error message explains how to fix it."""


class Scratch:
    """A copy of a workspace, without ``.git`` and without links that point outside."""

    def __init__(self, source: Path, words: Words) -> None:
        self._source, self._words = source.resolve(), words
        self._folder = Path(tempfile.mkdtemp(prefix="pal-scratch-"))
        self.root = self._folder / "work"
        self._base = self._folder / "base"
        self._is_closed = threading.Event()

    async def fill(self) -> None:
        """Copy the workspace.

        Raises:
            PlaceError: The workspace is too large or cannot be read.
        """
        try:
            await in_thread(self._copy)
        except OSError as error:
            raise PlaceError(model_text("not_copied", error=error)) from error

    def _copy(self) -> None:
        files = size = 0
        for folder in (self.root, self._base):
            folder.mkdir(mode=0o700)
        for path in _files(self._source):
            status = path.lstat()
            files, size = files + 1, size + status.st_size
            if files > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
                size_limits = {"files": MAX_COPIED_FILES, "megabytes": MAX_COPIED_BYTES // 1_000_000}
                raise PlaceError(model_text("copy_too_large", **size_limits))
            if self._is_closed.is_set():
                shutil.rmtree(self._folder, ignore_errors=True)  # the task has ended in the meantime
                return
            for target in (self.root, self._base):
                copy = target / path.relative_to(self._source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy, follow_symlinks=False)

    async def report(self) -> str:
        """Return a diff of the changes."""
        outcome = await run_in_thread(self._diff)
        diff = "?" if isinstance(outcome, Raised) else str(outcome)
        if not diff:
            return self._words("copy_unchanged")
        if len(diff) > MAX_DIFF_CHARS:
            diff = f"{diff[:MAX_DIFF_CHARS]}\n..."
        return self._words("copy_changed", diff=diff)

    def _diff(self) -> str:
        old, new = _relative(self._base), _relative(self.root)
        return "".join(_file_diff(name, old.get(name), new.get(name)) for name in sorted({*old, *new}))

    def close(self) -> str:
        """Delete the copy."""
        self._is_closed.set()
        shutil.rmtree(self._folder, ignore_errors=True)
        return ""


def _files(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != ".git" and not (Path(folder) / name).is_symlink()]
        for name in files:
            path = Path(folder) / name
            if path.is_symlink():
                if path.resolve().is_relative_to(root) and not path.readlink().is_absolute():
                    yield path
            elif path.is_file():
                yield path


def _relative(root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in _files(root)}


def _file_diff(name: str, old: Path | None, new: Path | None) -> str:
    before, after = _bytes(old), _bytes(new)
    if before == after and (old is None) == (new is None):
        return ""
    if not (_is_text(before) and _is_text(after)):
        return model_text("changed_unseen", name=name)
    lines = difflib.unified_diff(
        before.decode("utf-8", "replace").splitlines(),
        after.decode("utf-8", "replace").splitlines(),
        f"a/{name}" if old else "/dev/null",
        f"b/{name}" if new else "/dev/null",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines) or model_text("changed_empty", name=name)


def _is_text(data: bytes) -> bool:
    return len(data) <= _MAX_COMPARED_BYTES and b"\0" not in data


def _bytes(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.read_bytes()
    except OSError:
        return b"\0"  # an unreadable file is treated as binary and not shown


class Worktree:
    """A git worktree of HEAD on a new branch, in a folder outside the workspace.

    Git never reads the repository's configuration here: it works with a second git folder, which has a
    separate configuration and links to the repository's data. So no program that the repository names can
    run, and objects missing from the repository are never fetched.

    Args:
        path: Folder of the worktree; an existing worktree there is reused.

    Raises:
        PlaceError: git failed or is missing.
    """

    def __init__(self, source: Path, path: Path, branch: str, words: Words) -> None:
        self.path, self._branch, self._words = path, branch, words
        source = source.resolve()
        found = git_folders(source)
        if found is None:
            reason = {"command": "rev-parse", "folder": source, "error": "not a git repository"}
            raise PlaceError(model_text("git_failed", **reason))
        top, self._source_git, common = found
        self._data_git = path.with_name(f"{path.name}.git")
        self._own_git = common / "worktrees" / path.name
        try:
            for part in (*_DATA, *_WRITTEN, "HEAD"):
                _check_plain(common, part)
            self._link_data(common)
            if not path.exists():
                self._add()
            self._base_commit = self._git(self._source_git, "merge-base", "HEAD", self._ref)
            self.root = path / source.relative_to(top)
            self.root.mkdir(parents=True, exist_ok=True)
        except (OSError, PlaceError) as error:
            shutil.rmtree(self._data_git, ignore_errors=True)
            if isinstance(error, PlaceError):
                raise
            raise PlaceError(model_text("git_broken", folder=source, error=error)) from error

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self._branch}"

    def _link_data(self, common: Path) -> None:
        """Create the second git folder, with the object format of the repository."""
        private_folder(self._data_git.parent)
        verify = ("rev-parse", "-q", "--verify", "HEAD^{commit}")
        try:
            self._init_data(common)
            self._git(self._source_git, *verify)
        except PlaceError:
            self._init_data(common, "--object-format=sha256")
            self._git(self._source_git, *verify)

    def _init_data(self, common: Path, *options: str) -> None:
        shutil.rmtree(self._data_git, ignore_errors=True)
        self._start_git("init", "-q", "--bare", "--template=", *options, str(self._data_git))
        for name in _DATA:
            shutil.rmtree(self._data_git / name, ignore_errors=True)
            (self._data_git / name).symlink_to(common / name)

    def _add(self) -> None:
        """Create what ``git worktree add`` creates, and check the files out."""
        self._git(self._source_git, "update-ref", self._ref, "HEAD", "")
        try:
            self._own_git.mkdir(parents=True)
            pointers = {"HEAD": f"ref: {self._ref}", "commondir": "../..", "gitdir": str(self.path / ".git")}
            for name, value in pointers.items():
                (self._own_git / name).write_text(f"{value}\n")
            private_folder(self.path)
            (self.path / ".git").write_text(f"gitdir: {self._own_git}\n")
            self._git(self._own_git, "reset", "-q", "--hard")
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        for folder in (self.path, self._own_git):
            shutil.rmtree(folder)
        self._git(self._source_git, "update-ref", "-d", self._ref)

    async def report(self) -> str:
        """Return the changed files and the location of the worktree."""
        files = self._changes()
        if not files:
            return self._words("tree_removed")
        return self._words("tree_kept", branch=self._branch, path=self.path, files=files)

    def close(self) -> str:
        """Remove the worktree if it has no changes; else keep it and return its path."""
        try:
            if self._changes():
                return str(self.path)
            self._remove()
        except (PlaceError, OSError):
            return str(self.path)
        finally:
            shutil.rmtree(self._data_git, ignore_errors=True)
        return ""

    def _changes(self) -> str:
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=all")
        files = self._git(self._own_git, *words).rstrip()
        commits = self._git(
            self._source_git, "log", "--oneline", f"{self._base_commit}..{self._ref}", "--"
        ).rstrip()
        return "\n".join(part for part in (commits, files) if part)

    def _git(self, folder: Path, *words: str) -> str:
        """Run git in the worktree, with the ``HEAD`` and index of a git folder."""
        folders = {"GIT_DIR": folder, "GIT_COMMON_DIR": self._data_git, "GIT_WORK_TREE": self.path}
        return self._start_git(*words, **{name: str(value) for name, value in folders.items()})

    def _start_git(self, *words: str, **variables: str) -> str:
        git = find_program("git")
        if git is None:
            raise PlaceError(model_text("needs_git"))
        fixed = {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "LC_ALL": "C",
        }
        try:
            done = subprocess.run(  # noqa: S603 - git, with fixed arguments
                [git, *_SAFE_OPTIONS, *words],
                cwd=self.path if self.path.exists() else NEUTRAL_DIR,
                env=child_environment(**fixed, **variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60.0,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlaceError(model_text("git_broken", folder=self.path, error=error)) from error
        if done.returncode:
            error_text = done.stderr.strip()[:500]
            raise PlaceError(model_text("git_failed", command=words[0], folder=self.path, error=error_text))
        return done.stdout.rstrip("\n")


def _check_plain(git: Path, part: str) -> None:
    """Raise PlaceError if git would write through a link, or wait for a named pipe."""
    for path in odd_entries(str(git), part):
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode) and (part in _WRITTEN or not stat.S_ISLNK(mode)):
            raise PlaceError(model_text("git_broken", folder=git, error=f"{path} is not a plain file"))


async def place_for(mode: str, source: Path | None, path: Path, words: Words) -> Scratch | Worktree | None:
    """Create the separate folder of a task; return None if the task works in the shared folder.

    Args:
        mode: ``scratch``, ``worktree``, or any other mode.
        path: Folder for a worktree; the last part of the path is the branch name.

    Raises:
        PlaceError: The folder cannot be created.
    """
    if source is None or mode not in ("scratch", "worktree"):
        return None
    if mode == "worktree":
        return Worktree(source, path, f"pal/{path.name}", words)
    scratch = Scratch(source, words)
    try:
        await scratch.fill()
    except BaseException:
        scratch.close()
        raise
    return scratch


def check_workspace(path: str | os.PathLike[str] | None) -> Path | None:
    """Return the workspace as an absolute path, or None.

    Raises:
        ConfigError: The path is not a folder.
    """
    if path is None:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"workspace={str(path)!r} is not an existing folder.")
    return folder.resolve()
