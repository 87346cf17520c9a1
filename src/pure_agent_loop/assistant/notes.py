"""``AGENTS.md``: what a project says to those who work in it. `Agent` never reads it by itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_NOTES_BYTES = 32 * 1024
_NAMES = ("AGENTS.md", "CLAUDE.md")  # the second only where the first is missing


@dataclass(frozen=True, slots=True)
class Note:
    """One file of notes.

    Args:
        name: Its path as it is shown: relative to the root of the project.
        text: What it says, perhaps cut.
    """

    name: str
    text: str


def project_notes(
    folder: str | os.PathLike[str],
    *,
    user_file: str | os.PathLike[str] | None = None,
    max_bytes: int = MAX_NOTES_BYTES,
) -> list[Note]:
    """The notes that hold for a folder, the nearest last.

    First the user's own, then those of each folder from the root of the git project down to `folder`; without
    a git project only those of `folder`. Where they are too long together, the nearest are kept. A link that
    leads out of the project is not followed.

    Args:
        folder: Where the work is done.
        user_file: Notes of the user for all projects.
        max_bytes: Of all together.

    Raises:
        ConfigError: `folder` is no folder.
    """
    return _notes([*_user(user_file), *_places(Path(folder).expanduser().resolve())], max_bytes)


def user_notes(user_file: str | os.PathLike[str], *, max_bytes: int = MAX_NOTES_BYTES) -> list[Note]:
    """Only the user's own notes, where those of a folder are not trusted.

    Args:
        user_file: Notes of the user for all projects.
    """
    return _notes(_user(user_file), max_bytes)


def _notes(places: list[tuple[Path, str, str]], left: int) -> list[Note]:
    found: list[Note] = []
    for root, path, name in reversed(places):
        text = _read(root, path, left) if left > 0 else ""
        if text:
            left -= len(text.encode("utf-8"))
            found.append(Note(name, text))
    return found[::-1]


def _user(user_file: str | os.PathLike[str] | None) -> list[tuple[Path, str, str]]:
    path = None if user_file is None else Path(user_file).expanduser()
    return [(path.parent, path.name, f"~/{path.name}")] if path is not None and path.is_file() else []


def _places(folder: Path) -> list[tuple[Path, str, str]]:
    root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
    way = [root]
    for part in folder.relative_to(root).parts:
        way.append(way[-1] / part)
    places = []
    for each in way:
        name = next((name for name in _NAMES if (each / name).is_file()), None)
        if name is not None:
            inside = (each / name).relative_to(root).as_posix()
            places.append((root, inside, inside))
    return places


def _read(root: Path, path: str, limit: int) -> str:
    try:
        with Workspace(root).open_for_reading(path) as file:
            data = file.read(limit + 1)
    except (WorkspaceError, ConfigError, OSError):
        return ""
    text = data[:limit].decode("utf-8", "ignore" if len(data) > limit else "replace").removeprefix("\ufeff")
    return clean_text(text).strip()
