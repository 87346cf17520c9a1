"""Where a subagent works: in a copy that is thrown away, or in a git checkout of its own."""

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
from pure_agent_loop.subagents.words import SubagentWords, say
from pure_agent_loop.support.child import ELSEWHERE, child_environment, find_program
from pure_agent_loop.support.paths import private_folder
from pure_agent_loop.support.threads import Raised, run_in_thread

MOST_COPIED_BYTES = 200_000_000
MOST_COPIED_FILES = 20_000
MOST_DIFF_CHARS = 20_000
_MOST_COMPARED_BYTES = 500_000
_GIT_SECONDS = 60.0
# Nothing that a repository brings along may run, whatever a subagent wrote into it.
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.allow": "never",
    "log.showSignature": "false",
    "submodule.recurse": "false",
}
_SAFE = tuple(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))
_FILTER = re.compile(r"filter\..+\.(?:clean|smudge|process|required)", re.S | re.I)


class PlaceError(PureAgentLoopError):
    """A place for a subagent cannot be made. The message says what to do."""


class Place(Protocol):
    """A folder for one task."""

    root: Path

    async def report(self) -> str:
        """What was changed in it, for the agent that gave the task."""
        ...

    def close(self) -> str:
        """Take it away, unless it holds something worth keeping. Never waits for long.

        Returns:
            The folder, if it is kept.
        """
        ...


class Scratch:
    """A copy of a workspace, without ``.git``; links that lead out of it are left out.

    Args:
        source: The workspace.
        words: For the report.
    """

    def __init__(self, source: Path, words: SubagentWords) -> None:
        self._source, self._words = source.resolve(), words
        self._folder = Path(tempfile.mkdtemp(prefix="pal-scratch-"))
        self.root = self._folder / "work"
        self._base = self._folder / "base"
        self._is_closed = threading.Event()

    async def fill(self) -> None:
        """Copy the workspace.

        Raises:
            PlaceError: It is too large, or cannot be read.
        """
        found = await run_in_thread(self._copy)
        if isinstance(found, Raised):
            if isinstance(found.error, OSError):
                raise PlaceError(say("not_copied", error=found.error)) from found.error
            raise found.error

    def _copy(self) -> None:
        files = size = 0
        for folder in (self.root, self._base):
            folder.mkdir(mode=0o700)
        for path in _files(self._source):
            status = path.lstat()
            files, size = files + 1, size + status.st_size
            if files > MOST_COPIED_FILES or size > MOST_COPIED_BYTES:
                size_limits = {"files": MOST_COPIED_FILES, "megabytes": MOST_COPIED_BYTES // 1_000_000}
                raise PlaceError(say("copy_too_large", **size_limits))
            if self._is_closed.is_set():
                shutil.rmtree(self._folder, ignore_errors=True)  # it was stopped meanwhile
                return
            for target in (self.root, self._base):
                copy = target / path.relative_to(self._source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy, follow_symlinks=False)

    async def report(self) -> str:
        """A diff of what was changed."""
        found = await run_in_thread(self._diff)
        diff = "?" if isinstance(found, Raised) else str(found)
        if not diff:
            return self._words.copy_unchanged
        if len(diff) > MOST_DIFF_CHARS:
            diff = f"{diff[:MOST_DIFF_CHARS]}\n..."
        return self._words.copy_changed.format(diff=diff)

    def _diff(self) -> str:
        old, new = _relative(self._base), _relative(self.root)
        return "".join(_file_diff(name, old.get(name), new.get(name)) for name in sorted({*old, *new}))

    def close(self) -> str:
        """Take the copy away."""
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
        return say("changed_unseen", name=name)
    lines = difflib.unified_diff(
        before.decode("utf-8", "replace").splitlines(),
        after.decode("utf-8", "replace").splitlines(),
        f"a/{name}" if old else "/dev/null",
        f"b/{name}" if new else "/dev/null",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines) or say("changed_empty", name=name)


def _is_text(data: bytes) -> bool:
    return len(data) <= _MOST_COMPARED_BYTES and b"\0" not in data


def _bytes(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.read_bytes()
    except OSError:
        return b"\0"  # nothing that could be shown


class Worktree:
    """A git checkout of the newest commit, on a branch of its own, in a folder outside the workspace.

    Args:
        source: A folder in a repository.
        path: Where the checkout goes; one that exists from an earlier time is used again.
        words: For the report.

    Raises:
        PlaceError: It cannot be made.
    """

    def __init__(self, source: Path, path: Path, branch: str, words: SubagentWords) -> None:
        self._source, self.path, self._branch, self._words = source.resolve(), path, branch, words
        top = self._repository("rev-parse", "--show-toplevel", "--git-common-dir", "--show-prefix").split(
            "\n"
        )
        self._git_folder = str((self._source / top[1]).resolve())
        if not path.exists():
            private_folder(path.parent)
            self._repository("worktree", "add", "-q", "-b", branch, str(path), "HEAD")
        self._own = str(Path(self._git_folder) / "worktrees" / path.name)
        self._begun = self._repository("merge-base", "HEAD", branch)
        self.root = path / top[2] if len(top) > 2 else path
        self.root.mkdir(parents=True, exist_ok=True)

    async def report(self) -> str:
        """Which files were changed, and where they are."""
        files = self._changed()
        if not files:
            return self._words.tree_removed
        return self._words.tree_kept.format(branch=self._branch, path=self.path, files=files)

    def close(self) -> str:
        """Take the checkout away, if nothing was changed in it."""
        try:
            if self._changed():
                return str(self.path)
            self._repository("worktree", "remove", "--force", str(self.path))
            self._repository("branch", "-q", "-D", self._branch)
        except PlaceError:
            return str(self.path)
        return ""

    def _changed(self) -> str:
        # The checkout's own .git file is not read: a subagent may have written another one.
        own = ("--git-dir", self._own, "--work-tree", str(self.path))
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=all")
        files = self._git(self.path, *words, options=own).rstrip()
        commits = self._repository("log", "--oneline", f"{self._begun}..{self._branch}", "--")
        return "\n".join(part for part in (commits, files) if part)

    def _repository(self, *words: str) -> str:
        return self._git(self._source, *words)

    def _git(self, folder: Path, *words: str, options: tuple[str, ...] = ()) -> str:
        # A repository may name programs that all contents go through. Those of the user's own settings stay.
        listing = ("config", "--list", "--show-scope", "--name-only", "-z")
        named = self._start_git(folder, *listing, options=options).split("\0")
        pairs = zip(named[::2], named[1::2], strict=False)
        filters = {key for scope, key in pairs if scope in ("local", "worktree") and _FILTER.fullmatch(key)}
        if any("=" in key for key in filters):
            raise PlaceError(f"The settings of the repository in {folder} hold a filter with a strange name.")
        off = (word for key in sorted(filters) for word in ("-c", f"{key}="))
        return self._start_git(folder, *words, options=(*off, *options))

    def _start_git(self, folder: Path, *words: str, options: tuple[str, ...]) -> str:
        git = find_program("git")
        if git is None:
            raise PlaceError(say("needs_git"))
        try:
            done = subprocess.run(  # noqa: S603 - git itself, with words of our own
                [git, *_SAFE, "-C", str(folder), *options, *words],
                cwd=ELSEWHERE,
                env=child_environment(GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0", LC_ALL="C"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_GIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlaceError(say("git_broken", folder=folder, error=error)) from error
        if done.returncode:
            error_text = done.stderr.strip()[:500]
            raise PlaceError(say("git_failed", command=words[0], folder=folder, error=error_text))
        return done.stdout.removesuffix("\n") if words[0] != "rev-parse" else done.stdout.rstrip("\n")


async def place_for(mode: str, source: Path | None, path: Path, words: SubagentWords) -> Place | None:
    """Make the folder a task works in; None where it works in the shared one.

    Args:
        mode: ``scratch``, ``worktree``, or another.
        path: Where a checkout goes; its last part names it.

    Raises:
        PlaceError: It cannot be made.
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
    """A folder, or None.

    Raises:
        ConfigError: It is no folder.
    """
    if path is None:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"workspace={str(path)!r} is not an existing folder.")
    return folder.resolve()
