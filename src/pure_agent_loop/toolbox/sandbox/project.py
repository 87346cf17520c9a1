"""Find the outside folders that a workspace needs: git's folder, and the top folder of the project.

Files in the workspace are untrusted, so a ``.git`` file is followed only if the folder that it names points
back to the workspace. Commands may then read that folder, and write the parts that a commit writes, but
never what git executes.
"""

# ruff: noqa: PTH112, PTH113, PTH114 - pathlib raises if this user has no access

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pure_agent_loop.support.repository import path_in

# Parts of a git folder that git executes or that redirect git, and parts of a shared git folder that a commit
# writes.
RUNS = ("config", "config.worktree", "hooks", "commondir", "gitdir", "modules", "worktrees", "info")
_COMMITTED = ("objects", "refs", "logs")
_PROJECT_FILES = {
    "pnpm-workspace.yaml": "",
    "go.work": "",
    "package.json": r'"workspaces"\s*:',
    "Cargo.toml": r"^\s*\[workspace\b",  # for Python versions without a TOML parser
    "pyproject.toml": r"^\s*\[tool\.uv\.workspace\b",
}
_TABLES = {"Cargo.toml": ("workspace",), "pyproject.toml": ("tool", "uv", "workspace")}


@dataclass(frozen=True)
class OuterGit:
    """Folders outside a workspace that belong to its repository or project.

    Args:
        own: Git folders that only this workspace uses; approved commands may write in them, except to `RUNS`.
        shared: Writable folders in a git folder that is shared with other worktrees.
        why: Message key and values that describe what is out of reach; empty if nothing is.
    """

    readable: list[str] = field(default_factory=list)
    own: list[Path] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    why: Mapping[str, str] = field(default_factory=dict)


def outer_of(root: Path, is_too_much: Callable[[Path], bool]) -> OuterGit:
    """Find the folders around a workspace.

    Args:
        root: The workspace, resolved.
        is_too_much: Returns True for a folder, such as a home, that must never be shown as a whole.
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
    folder = path_in(git, r"gitdir:\s*(.+)")
    if folder is None:
        return outer
    if folder.is_relative_to(top):
        return _with_git(outer, folder) if os.path.isfile(folder / "HEAD") else outer
    back = path_in(folder / "gitdir") or path_in(folder / "config", r"^\s*worktree\s*=\s*(.+)$")
    if back not in (git, top):
        return OuterGit(why={"key": "git_not_linked", "path": str(git), "other": str(folder)})
    common = path_in(folder / "commondir") or folder
    if common not in (folder, folder.parent.parent):
        return OuterGit(why={"key": "git_not_linked", "path": str(folder), "other": str(common)})
    shared = [str(common / name) for name in _COMMITTED if common != folder and os.path.isdir(common / name)]
    return _with_git(OuterGit([*outer.readable, str(common)], [], shared), folder)


def _with_git(outer: OuterGit, git: Path) -> OuterGit:
    if any(os.path.islink(git / name) for name in RUNS):  # read-only, because a mount cannot protect a link
        return replace(outer, shared=[], why={"key": "git_only_read", "path": str(git)})
    return replace(outer, own=[git])


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
