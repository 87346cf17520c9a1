"""The separate folder of a subagent: a disposable copy of the workspace, or a git worktree."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.subagents.words import SubagentWords
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment, find_program
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread

MAX_COPIED_BYTES = 200_000_000
MAX_COPIED_FILES = 20_000
MAX_DIFF_CHARS = 20_000
_MAX_COMPARED_BYTES = 500_000
_GIT_SECONDS = 60.0
# Never run code from the repository: a subagent may have written hooks or settings into it.
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.allow": "never",
    "log.showSignature": "false",
    "submodule.recurse": "false",
}
_SAFE_OPTIONS = tuple(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))
_FILTER = re.compile(r"filter\..+\.(?:clean|smudge|process|required)", re.S | re.I)


class PlaceError(PureAgentLoopError):
    """A subagent's folder cannot be created. The error message explains how to fix it."""


class TaskFolder(Protocol):
    """The separate folder of one task."""

    root: Path

    async def report(self) -> str:
        """Return the changes made in the folder, as text for the parent."""
        ...

    def close(self) -> str:
        """Delete the folder, unless it has changes to keep.

        Returns: The folder if it is kept, else an empty string.
        """
        ...


class Scratch:
    """A copy of a workspace, without ``.git`` and without links that point outside."""

    def __init__(self, source: Path, words: SubagentWords) -> None:
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
                shutil.rmtree(self._folder, ignore_errors=True)  # the task ended while copying
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
            return self._words.copy_unchanged
        if len(diff) > MAX_DIFF_CHARS:
            diff = f"{diff[:MAX_DIFF_CHARS]}\n..."
        return self._words.copy_changed.format(diff=diff)

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
        return b"\0"  # treated as binary and not shown


class Worktree:
    """A git worktree of HEAD on a new branch, in a folder outside the workspace.

    Args:
        path: Folder of the worktree; an existing worktree there is reused.

    Raises:
        PlaceError: git failed or is missing.
    """

    def __init__(self, source: Path, path: Path, branch: str, words: SubagentWords) -> None:
        self._source, self.path, self._branch, self._words = source.resolve(), path, branch, words
        top = self._git_in_source("rev-parse", "--show-toplevel", "--git-common-dir", "--show-prefix").split(
            "\n"
        )
        self._git_folder = str((self._source / top[1]).resolve())
        if not path.exists():
            private_folder(path.parent)
            self._git_in_source("worktree", "add", "-q", "-b", branch, str(path), "HEAD")
        self._worktree_git_dir = str(Path(self._git_folder) / "worktrees" / path.name)
        self._base_commit = self._git_in_source("merge-base", "HEAD", branch)
        self.root = path / top[2] if len(top) > 2 else path
        self.root.mkdir(parents=True, exist_ok=True)

    async def report(self) -> str:
        """Return the changed files and the location of the worktree."""
        files = self._changes()
        if not files:
            return self._words.tree_removed
        return self._words.tree_kept.format(branch=self._branch, path=self.path, files=files)

    def close(self) -> str:
        """Remove the worktree if it has no changes."""
        try:
            if self._changes():
                return str(self.path)
            self._git_in_source("worktree", "remove", "--force", str(self.path))
            self._git_in_source("branch", "-q", "-D", self._branch)
        except PlaceError:
            return str(self.path)
        return ""

    def _changes(self) -> str:
        # Do not read the worktree's .git file: the subagent may have replaced it.
        options = ("--git-dir", self._worktree_git_dir, "--work-tree", str(self.path))
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=all")
        files = self._git(self.path, *words, options=options).rstrip()
        commits = self._git_in_source("log", "--oneline", f"{self._base_commit}..{self._branch}", "--")
        return "\n".join(part for part in (commits, files) if part)

    def _git_in_source(self, *words: str) -> str:
        return self._git(self._source, *words)

    def _git(self, folder: Path, *words: str, options: tuple[str, ...] = ()) -> str:
        # Turn off filter programs that the repository configures, but not those in the user's git settings.
        listing = ("config", "--list", "--show-scope", "--name-only", "-z")
        fields = self._start_git(folder, *listing, options=options).split("\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        filters = {key for scope, key in pairs if scope in ("local", "worktree") and _FILTER.fullmatch(key)}
        if any("=" in key for key in filters):
            raise PlaceError(f"The git settings of {folder} have a filter with '=' in its name. Remove it.")
        off = (word for key in sorted(filters) for word in ("-c", f"{key}="))
        return self._start_git(folder, *words, options=(*off, *options))

    def _start_git(self, folder: Path, *words: str, options: tuple[str, ...]) -> str:
        git = find_program("git")
        if git is None:
            raise PlaceError(model_text("needs_git"))
        try:
            done = subprocess.run(  # noqa: S603 - git, with fixed arguments
                [git, *_SAFE_OPTIONS, "-C", str(folder), *options, *words],
                cwd=NEUTRAL_DIR,
                env=child_environment(GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0", LC_ALL="C"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_GIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlaceError(model_text("git_broken", folder=folder, error=error)) from error
        if done.returncode:
            error_text = done.stderr.strip()[:500]
            raise PlaceError(model_text("git_failed", command=words[0], folder=folder, error=error_text))
        return done.stdout.removesuffix("\n") if words[0] != "rev-parse" else done.stdout.rstrip("\n")


async def place_for(mode: str, source: Path | None, path: Path, words: SubagentWords) -> TaskFolder | None:
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
