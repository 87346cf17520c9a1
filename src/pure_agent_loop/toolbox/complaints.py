"""What a model is told when a path cannot be used: the path as it wrote it, and the way out."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Mapping

from pure_agent_loop.errors import PureAgentLoopError

SHOWN_PATH_CHARS = 200
SUGGESTIONS = 5


class WorkspaceError(PureAgentLoopError):
    """A path cannot be used. The message is for the model: it names the path as given and the way out."""


def shown(path: str) -> str:
    """A path in quotes, not too long."""
    return repr(path if len(path) <= SHOWN_PATH_CHARS else path[:SHOWN_PATH_CHARS] + "...")


def outside(path: str) -> WorkspaceError:
    """A path that lies outside as it is written."""
    return WorkspaceError(
        f"{shown(path)} is outside the workspace. Use a path relative to it, for example 'docs/guide.md'; "
        "'.' is the workspace itself."
    )


def in_words(path: str, error: OSError) -> str:
    """An error of the operating system."""
    name = shown(path)
    return {
        errno.ENOTDIR: f"{name} is a file, not a folder. Use read_file.",
        errno.EXDEV: f"{name} leads outside the workspace. Only what is inside can be used.",
        errno.ELOOP: f"{name} goes through a symbolic link that is not followed. Use the real path.",
        errno.EACCES: f"{name} cannot be opened: permission denied. Use another one.",
        errno.EISDIR: f"{name} is a folder, not a file.",
        errno.ENAMETOOLONG: f"{name} is too long for a path.",
        errno.ENXIO: f"{name} is not a regular file (a socket or pipe). Only files can be read.",
        errno.ENOSPC: f"{name} cannot be written: the disk is full.",
        errno.EROFS: f"{name} cannot be written: the file system is read-only.",
    }.get(error.errno or 0, f"{name} cannot be opened: {error.strerror or error}.")


def instead(folder: str, wanted: str, entries: Mapping[str, str]) -> str:
    """What there is in place of something missing.

    Args:
        folder: Where it was looked for; empty for the workspace itself.
        wanted: The name that is missing, or is there and no folder.
        entries: Kind by name of what is there.
    """
    place = shown(folder) if folder else "The workspace"
    before = f"{folder}/" if folder else ""
    if not entries:
        return f"{place} is empty."
    if wanted in entries:
        link = entries[wanted] == "link"
        what = "a symbolic link to something that does not exist" if link else "not a folder"
        return f"{shown(before + wanted)} is {what}."
    lower = {name.lower(): name for name in entries}
    close = difflib.get_close_matches(wanted.lower(), lower, n=SUGGESTIONS, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(repr(before + lower[name]) for name in close)}?"
    # Hidden names come first in the order and are hardly ever meant.
    names = sorted(entries, key=lambda name: (name.startswith("."), name))
    more = ", ..." if len(names) > SUGGESTIONS else ""
    return f"{place} has: {', '.join(names[:SUGGESTIONS])}{more}. Use list_dir to see everything."
