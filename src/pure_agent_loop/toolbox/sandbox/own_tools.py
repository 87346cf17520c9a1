"""The user's own programs, as ``PATH`` names them: virtual environments, pyenv, node, cargo and the like.

A sandbox shows the system's folders. What else stands in ``PATH`` is shown too, with what belongs to it, but
never a home as a whole: beside the programs lie keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pure_agent_loop.support.child import find_program
from pure_agent_loop.toolbox.sandbox.environment import SAFE_PATH
from pure_agent_loop.toolbox.sandbox.system_files import SYSTEM_FOLDERS

_BESIDE = ("lib", "lib64", "libexec", "include", "share/man")  # of a folder ``bin``
_HOMES = {".cargo": ("RUSTUP_HOME", ".rustup"), ".pyenv": ("PYENV_ROOT", ".pyenv")}


def user_path() -> list[str]:
    """The existing folders of our ``PATH``: absolute, and none that any user may write to."""
    folders = (Path(each) for each in os.environ.get("PATH", "").split(":") if each.startswith("/"))
    return [str(each) for each in folders if each.is_dir() and not each.stat().st_mode & 0o002]


def shown_for(path: list[str], workspace: Path) -> list[str]:
    """What has to be readable for the programs of these folders, without what is shown anyway.

    Args:
        path: See `user_path`.
        workspace: Shown already.
    """
    found: dict[str, None] = {}
    for each in path:
        for needed in _needed(Path(each)):
            resolved = needed.resolve()
            hidden = not any(resolved.is_relative_to(shown) for shown in (*SYSTEM_FOLDERS, workspace))
            if needed.exists() and hidden and not _holds_a_home(resolved):
                found[str(needed)] = found[str(resolved)] = None
    return list(found)


def _needed(folder: Path) -> Iterator[Path]:
    yield folder
    above = folder.parent
    if (above / "pyvenv.cfg").is_file():
        yield above
        yield from _base_of(above / "pyvenv.cfg")
    if folder.name == "shims":
        yield above
    if folder.name == "bin":
        yield from (above / each for each in _BESIDE)
    if above.name == ".cargo":
        yield from (above / "registry", above / "git")
        yield Path(os.environ.get("RUSTUP_HOME") or above.parent / ".rustup")


def _base_of(settings: Path) -> Iterator[Path]:
    """The interpreter that a virtual environment was made from."""
    found = re.search(r"^home\s*=\s*(.+)$", settings.read_text("utf-8", "replace"), re.M)
    if found is not None:
        base = Path(found[1].strip())
        yield base.parent if base.name == "bin" else base


def _holds_a_home(folder: Path) -> bool:
    home = Path.home().resolve()
    return home.is_relative_to(folder) or folder.parent == Path("/home") or (folder / ".ssh").exists()


def variables_for(path: list[str]) -> dict[str, str]:
    """Variables without which these programs do not find what belongs to them: their home is another one."""
    found: dict[str, str] = {}
    for each in map(Path, path):
        name, folder = _HOMES.get(each.parent.name, ("", ""))
        place = Path(os.environ.get(name) or each.parent.parent / folder) if name else None
        if place is not None and place.is_dir():
            found.setdefault(name, str(place))
        if (each.parent / "pyvenv.cfg").is_file():
            found.setdefault("VIRTUAL_ENV", str(each.parent))
    return found


def missing(names: list[str], path: str) -> Iterator[str]:
    """Why a program is not found, for each that is on our own ``PATH`` only.

    Args:
        names: Of commands.
        path: The ``PATH`` that commands have.
    """
    for name in dict.fromkeys(names):
        there = find_program(name) if re.fullmatch(r"[\w.+-]+", name) else None
        if there and not any((Path(folder) / name).is_file() for folder in path.split(":")):
            yield f"{name} is {there}, which the sandbox does not show"


def joined(*parts: list[str]) -> str:
    """A ``PATH`` of these folders and the system's."""
    return ":".join(dict.fromkeys([*(each for part in parts for each in part), *SAFE_PATH]))
