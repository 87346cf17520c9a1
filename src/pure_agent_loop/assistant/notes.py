"""``AGENTS.md``: a project's notes for agents. `Agent` does not read it; the assistant does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.encoding import UTF16
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_NOTES_BYTES = 32 * 1024
_NAMES = ("AGENTS.md", "CLAUDE.md")  # the second name is used if the first file is missing


@dataclass(frozen=True, slots=True)
class Note:
    """One notes file.

    Args:
        name: Path for display, relative to the project's root.
        text: The content, truncated to the limit.
    """

    name: str
    text: str


def project_notes(
    folder: str | os.PathLike[str],
    *,
    user_file: str | os.PathLike[str] | None = None,
    max_bytes: int = MAX_NOTES_BYTES,
) -> list[Note]:
    """Return the notes that apply to a folder, nearest last.

    The user's notes come first, then those of each folder from the root of the git project down to `folder`;
    outside a git project only those of `folder`. If all notes together exceed `max_bytes`, the nearest ones
    are kept. Links that point outside the project are not followed.

    Args:
        folder: The working directory.
        user_file: The user's notes for all projects.
        max_bytes: Limit for all notes together, in bytes.

    Raises:
        ConfigError: `folder` is not a folder.
    """
    return _notes([*_user(user_file), *_places(Path(folder).expanduser().resolve())], max_bytes)


def user_notes(user_file: str | os.PathLike[str], *, max_bytes: int = MAX_NOTES_BYTES) -> list[Note]:
    """Return only the user's notes, for a folder that is not trusted.

    Args:
        user_file: The user's notes for all projects.
    """
    return _notes(_user(user_file), max_bytes)


def _notes(places: list[tuple[Path, str, str]], left: int) -> list[Note]:
    notes: list[Note] = []
    for root, path, name in reversed(places):
        text = _read(root, path, left) if left > 0 else ""
        if text:
            left -= len(text.encode("utf-8"))
            notes.append(Note(name, text))
    return notes[::-1]


def _user(user_file: str | os.PathLike[str] | None) -> list[tuple[Path, str, str]]:
    path = None if user_file is None else Path(user_file).expanduser()
    return [(path.parent, path.name, f"~/{path.name}")] if path is not None and path.is_file() else []


def _places(folder: Path) -> list[tuple[Path, str, str]]:
    root = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)
    places = []
    for parent in [path for path in (folder, *folder.parents) if path.is_relative_to(root)][::-1]:
        name = next((name for name in _NAMES if (parent / name).is_file()), None)
        if name is not None:
            relative = (parent / name).relative_to(root).as_posix()
            places.append((root, relative, relative))
    return places


def _read(root: Path, path: str, limit: int) -> str:
    try:
        with Workspace(root).open_for_reading(path) as file:
            data = file.read(limit + 1)
    except (WorkspaceError, ConfigError, OSError):
        return ""
    encoding = "utf-16" if data.startswith(UTF16) else "utf-8-sig"  # decode as `read_file` does
    return clean_text(data[:limit].decode(encoding, "ignore" if len(data) > limit else "replace")).strip()
