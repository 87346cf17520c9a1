"""Start a command under a supervisor, which ends every process of the command.

The supervisor is the first process of a PID namespace (bubblewrap), or a small Python program (`reaper.py`)
that adopts orphans. Both use the same protocol: they write ``ready`` to standard error and wait for a line on
standard input before the command starts. End of input ends the command; this happens when the caller closes
the pipe, and also when its process is killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import script_argv
from pure_agent_loop.support.language import model_text

REAPER = Path(__file__).with_name("reaper.py")
READY, LEFT = b"ready\n", b"left "
# Parts of a git folder that git executes or that redirect it; and parts of a shared one that a commit writes.
RUNS = ("config", "config.worktree", "hooks", "commondir", "gitdir", "modules", "worktrees", "info")
_COMMITTED = ("objects", "refs", "logs")
_PROJECT_FILES = {
    "pnpm-workspace.yaml": "",
    "go.work": "",
    "package.json": r'"workspaces"\s*:',
    "Cargo.toml": r"^\s*\[workspace\b",  # where Python has no parser of TOML
    "pyproject.toml": r"^\s*\[tool\.uv\.workspace\b",
}
_TABLES = {"Cargo.toml": ("workspace",), "pyproject.toml": ("tool", "uv", "workspace")}
SAFE_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "false",
    # A repository written by a file tool must not make git start programs.
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "safe.bareRepository",
    "GIT_CONFIG_VALUE_1": "explicit",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
_CACHES = {
    "PYTHONPYCACHEPREFIX": "pycache",
    "MYPY_CACHE_DIR": "mypy",
    "RUFF_CACHE_DIR": "ruff",
    "COVERAGE_FILE": "coverage",
    "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
    "CARGO_TARGET_DIR": "target",
    "npm_config_cache": "npm",
}
_TAKEN_OVER = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|TZ")
_HARMLESS = re.compile(r"[\w.@:/+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a command; None for no limit. Each applies per process.

    Args:
        memory: Bytes of data memory.
        file_size: Bytes a file may grow to.
        processes: Concurrent processes and threads. The kernel exempts root.
        cpu_seconds: Seconds of CPU time.
    """

    memory: int | None = 4 * 1024**3
    file_size: int | None = 1024**3
    processes: int | None = 512
    cpu_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A command to be started.

    Args:
        home: Private folder of this command, or "" if the sandbox has its own.
        info_fd: Descriptor to which bubblewrap writes the id of the first process inside.
        limits: See `Limits`.
        filter_fd: Descriptor from which bubblewrap reads the system call filter.
        read_only: Allow changes only in its private folders, and no network.
    """

    command: Sequence[str]
    cwd: str
    home: str = ""
    input_path: str = "/dev/null"
    info_fd: int = -1
    limits: Limits = field(default_factory=Limits)
    filter_fd: int = -1
    read_only: bool = False


class Sandbox(Protocol):
    """A way to start commands.

    Attributes: `name` is ``bubblewrap``, ``landlock`` or ``none``; `why` explains why no better one is used;
    `supervised` is True if its processes use the protocol above; `private_home` is the commands' home, or
    "" if each needs a new one; `refusal` is a pattern for the kernel's error at a refused write, or "" if
    read-only runs are not possible; `beyond` names what is out of reach around the workspace; see `OuterGit`.
    """

    name: str
    why: str
    supervised: bool
    private_home: str
    refusal: str
    beyond: Mapping[str, str]

    def argv(self, start: Start) -> list[str]:
        """Return program and arguments that start a command."""
        ...

    def prepared(self, start: Start) -> AbstractContextManager[list[str]]:  # noqa: ARG002 - for others
        """Return the context of a running command. When it ends, its list has the restored names."""
        return nullcontext([])


def reaper_argv(start: Start, confine: Mapping[str, Any] | None = None) -> list[str]:
    """Return program and arguments that start a command under `reaper.py`.

    Args:
        confine: The argument of `landlock.restrict`; None to not call it.
    """
    plan = {
        "command": list(start.command),
        "input": start.input_path,
        "limits": asdict(start.limits),
        "confine": confine,
    }
    return script_argv(REAPER, json.dumps(plan))


class Unconfined(Sandbox):
    """Runs commands without a sandbox: they may do all that this user may. Only their end is guaranteed.

    Args:
        why: The reason why there is no sandbox.
    """

    name = "none"
    private_home = ""
    refusal = ""

    def __init__(self, why: str = "") -> None:
        self.beyond: Mapping[str, str] = {}
        self.why = why
        self.supervised = sys.platform == "linux"

    def argv(self, start: Start) -> list[str]:
        """See `Sandbox`."""
        return reaper_argv(start) if self.supervised else list(start.command)


# -- bounded output of a command: the head, the tail, and the number of bytes cut between them -----------


class Captured:
    """A bounded buffer. It holds about `limit` bytes, and twice that while cutting.

    Args:
        limit: Bytes to keep: a third from the start, the rest from the end.
        echo: Called with all bytes as they arrive.
    """

    def __init__(self, limit: int, echo: Callable[[bytes], object] | None = None) -> None:
        self._echo = echo
        self._head_room = limit // 3
        self._tail_room = max(1, limit - self._head_room)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    @property
    def cut(self) -> int:
        """Number of bytes left out."""
        return max(0, self.total - self._head_room - self._tail_room)

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        if self._echo is not None:
            self._echo(data)
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_room :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room]

    def text(self) -> str:
        """Return the captured output. Bytes that are not UTF-8, and NUL, become U+FFFD."""
        if not self.cut:
            return _decoded(bytes(self._head + self._tail))
        tail = bytes(self._tail[-self._tail_room :])
        head = bytes(self._head).decode("utf-8", "replace").removesuffix("\ufffd")
        # The tail may begin within a character.
        rest = next((number for number, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        cut = model_text("bytes_left_out", count=self.cut)
        return head.replace("\0", "\ufffd") + cut + _decoded(tail[rest:])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


# -- find what a workspace needs outside of it: git's folder, and the top of its project -----------------
# Files in the workspace are untrusted, so a ``.git`` file counts only if the folder it names points back to
# it.
# Commands may then read that folder, and write the parts that a commit writes, but never what git executes.

# ruff: noqa: PTH112, PTH113, PTH114 - pathlib raises if this user has no access


@dataclass(frozen=True)
class OuterGit:
    """Folders outside a workspace that belong to its repository or project.

    Args:
        own: Git folders of this workspace alone, writable for approved commands except `RUNS`.
        shared: Writable folders in a git folder shared with others.
        why: What is out of reach: a message key and its values; empty for nothing.
    """

    readable: list[str] = field(default_factory=list)
    own: list[Path] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    why: Mapping[str, str] = field(default_factory=dict)


def outer_of(root: Path, is_too_much: Callable[[Path], bool]) -> OuterGit:
    """Find the folders around a workspace.

    Args:
        root: The workspace, resolved.
        is_too_much: Returns True if a folder, such as a home, is never shown as a whole.
    """
    outer = OuterGit()
    for top in (root, *root.parents):
        git = top / ".git"
        is_repository = os.path.lexists(git)
        if top != root and is_repository and is_too_much(top):
            return OuterGit(why={"key": "git_not_shown", "path": str(top)})
        if top != root and (
            is_repository
            or (not is_too_much(top) and any(_is_project_file(top / name) for name in _PROJECT_FILES))
        ):
            outer = replace(outer, readable=[*outer.readable, str(top)])
        if os.path.isfile(git):
            return _linked_git(top, git, outer)
        if is_repository:
            return _with_git(outer, git) if top != root else outer
    return outer


def _linked_git(top: Path, git: Path, outer: OuterGit) -> OuterGit:
    folder = _path_in(git, r"gitdir:\s*(.+)")
    if folder is None:
        return outer
    if folder.is_relative_to(top):
        return _with_git(outer, folder) if os.path.isfile(folder / "HEAD") else outer
    back = _path_in(folder / "gitdir") or _path_in(folder / "config", r"^\s*worktree\s*=\s*(.+)$")
    if back not in (git, top):
        return OuterGit(why={"key": "git_not_linked", "path": str(git), "other": str(folder)})
    common = _path_in(folder / "commondir") or folder
    if common not in (folder, folder.parent.parent):
        return OuterGit(why={"key": "git_not_linked", "path": str(folder), "other": str(common)})
    shared = [str(common / name) for name in _COMMITTED if common != folder and os.path.isdir(common / name)]
    return _with_git(OuterGit([*outer.readable, str(common)], [], shared), folder)


def _with_git(outer: OuterGit, git: Path) -> OuterGit:
    if any(os.path.islink(git / name) for name in RUNS):  # a mount cannot protect a link: read only
        return replace(outer, shared=[], why={"key": "git_only_read", "path": str(git)})
    return replace(outer, own=[git])


def _path_in(file: Path, pattern: str = "(.+)") -> Path | None:
    """Return the path named in a git file, relative to that file."""
    try:
        match = re.search(pattern, file.read_text("utf-8")[:10_000], re.M) if os.path.isfile(file) else None
    except (OSError, ValueError):
        return None
    return Path(os.path.realpath(file.parent / match[1].strip())) if match else None


def _is_project_file(file: Path) -> bool:
    try:
        text = file.read_text("utf-8") if os.path.isfile(file) else None
        if text is not None and file.suffix == ".toml" and importlib.util.find_spec("tomllib"):
            table: Any = importlib.import_module("tomllib").loads(text)
            for key in _TABLES[file.name]:
                table = table.get(key) if isinstance(table, dict) else None
            return isinstance(table, dict)
        return text is not None and bool(re.search(_PROJECT_FILES[file.name], text, re.M))
    except (OSError, ValueError, RecursionError):
        return False


# -- environment of a command: a short list of harmless variables, and no secrets of this process --------


def clean_environment(
    home: str, *, path: str = "", extra: Mapping[str, str] | None = None, temporary: str = ""
) -> dict[str, str]:
    """Return the variables of a command. Only language and time zone are inherited.

    Args:
        home: Value of ``HOME``.
        path: Value of ``PATH``; the system's folders if empty.
        extra: The caller's variables, which override the others.
        temporary: Value of ``TMPDIR``; the home if empty.

    Raises:
        ConfigError: A name or value of `extra` is invalid.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if _TAKEN_OVER.fullmatch(name) and _HARMLESS.fullmatch(value)
    }
    checked = check_variables(extra or {})
    return {
        "LANG": "C.UTF-8",
        **inherited,
        **_FIXED,
        "HOME": home,
        "TMPDIR": temporary or home,
        "PATH": path or ":".join(SAFE_PATH),
        **checked,
    }


def still_variables(temporary: str) -> dict[str, str]:
    """Return variables for a read-only command: caches in a private folder, and English errors."""
    caches = {name: f"{temporary}/{folder}" for name, folder in _CACHES.items()}
    pytest = f"-o cache_dir={temporary}/pytest-cache"
    return {**caches, "PYTEST_ADDOPTS": pytest, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def check_variables(extra: Mapping[str, str]) -> dict[str, str]:
    """Check variables and return them as a dict.

    Raises:
        ConfigError: A name or value is not a string, or has characters that no environment allows.
    """
    for name, value in dict[Any, Any](extra).items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"env={{{name!r}: ...}} is invalid: names and values must be plain text.")
    return dict(extra)
