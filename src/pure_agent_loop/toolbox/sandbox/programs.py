"""The user's own programs in ``PATH``: virtual environments, pyenv, node, cargo and the like.

A sandbox shows the system's folders. It also shows the other folders in ``PATH``, with the folders that
belong to them, but never a whole home directory, which contains keys.
"""

# ruff: noqa: PTH110, PTH112, PTH113 - pathlib raises if this user has no access; these functions do not

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pure_agent_loop.support.child import find_program
from pure_agent_loop.toolbox.sandbox.system_files import SYSTEM_FOLDERS
from pure_agent_loop.toolbox.sandbox.variables import SAFE_PATH

# Folders next to a ``bin`` folder that its programs may need.
_SIBLINGS = ("lib", "lib64", "libexec", "include", "share/man")
_HOMES = {".cargo": ("RUSTUP_HOME", ".rustup"), ".pyenv": ("PYENV_ROOT", ".pyenv")}


def user_path() -> list[str]:
    """Return the folders of ``PATH`` that exist, are absolute and are not writable by everyone."""
    folders = (Path(entry) for entry in os.environ.get("PATH", "").split(":") if entry.startswith("/"))
    return [str(folder) for folder in folders if may_enter(folder) and not folder.stat().st_mode & 0o002]


def may_enter(path: Path) -> bool:
    """Return True if this user may list and enter a folder. Never raises."""
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)


def readable_for(path: list[str], workspace: Path) -> list[str]:
    """Return the folders that these programs need, except those that are visible anyway.

    Args:
        path: See `user_path`.
        workspace: The workspace, which is visible.
    """
    shown: dict[str, None] = {}
    for folder in path:
        for needed in _needed(Path(folder)):
            resolved = Path(os.path.realpath(needed))
            hidden = not any(resolved.is_relative_to(visible) for visible in (*SYSTEM_FOLDERS, workspace))
            if os.access(needed, os.R_OK) and hidden and not _holds_a_home(resolved):
                shown[str(needed)] = shown[str(resolved)] = None
    return list(shown)


def _needed(folder: Path) -> Iterator[Path]:
    yield folder
    above = folder.parent
    if os.path.isfile(above / "pyvenv.cfg"):
        yield above
        yield from _base_of(above / "pyvenv.cfg")
    if folder.name == "shims":
        yield above
    if folder.name == "bin":
        yield from (above / name for name in _SIBLINGS)
    if above.name == ".cargo":
        yield from (above / "registry", above / "git")
        yield Path(os.environ.get("RUSTUP_HOME") or above.parent / ".rustup")


def _base_of(settings: Path) -> Iterator[Path]:
    """Yield the base interpreter of a virtual environment."""
    text = settings.read_text("utf-8", "replace") if os.access(settings, os.R_OK) else ""
    match = re.search(r"^home\s*=\s*(.+)$", text, re.M)
    if match is not None:
        base = Path(match[1].strip())
        yield base.parent if base.name == "bin" else base


def _holds_a_home(folder: Path) -> bool:
    home = Path(os.path.realpath(Path.home()))
    return home.is_relative_to(folder) or folder.parent == Path("/home") or os.path.exists(folder / ".ssh")


def variables_for(path: list[str]) -> dict[str, str]:
    """Return the variables that these programs need because ``HOME`` is another folder."""
    variables: dict[str, str] = {}
    for folder in map(Path, path):
        name, default = _HOMES.get(folder.parent.name, ("", ""))
        place = Path(os.environ.get(name) or folder.parent.parent / default) if name else None
        if place is not None and may_enter(place):
            variables.setdefault(name, str(place))
        if os.path.isfile(folder.parent / "pyvenv.cfg"):
            variables.setdefault("VIRTUAL_ENV", str(folder.parent))
    return variables


def missing(names: list[str], path: str) -> Iterator[str]:
    """Yield an explanation for each missing program that is on this process's ``PATH`` only.

    Args:
        path: The ``PATH`` of the commands.
    """
    for name in dict.fromkeys(names):
        there = find_program(name) if re.fullmatch(r"[\w.+-]+", name) else None
        if there and not any(os.path.isfile(Path(folder) / name) for folder in path.split(":")):
            yield f"{name} is {there}, which the sandbox does not show"


def join_path(*parts: list[str]) -> str:
    """Join these folders and the system's into a ``PATH``."""
    return ":".join(dict.fromkeys([*(folder for part in parts for folder in part), *SAFE_PATH]))
