"""What a model is told when a path cannot be used: the path as it wrote it, and the way out."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Mapping

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.toolbox.files.words import say

SHOWN_PATH_CHARS = 200
SUGGESTIONS = 5
_SYSTEM_ERRORS = {
    errno.ENOTDIR: "no_folder",
    errno.EXDEV: "leads_outside",
    errno.ELOOP: "through_link",
    errno.EACCES: "no_permission",
    errno.EISDIR: "no_file",
    errno.ENAMETOOLONG: "path_too_long",
    errno.ENXIO: "a_socket",
    errno.ENOSPC: "disk_full",
    errno.EROFS: "read_only_disk",
}


class WorkspaceError(PureAgentLoopError):
    """A path cannot be used. The message is for the model: it names the path as given and the way out."""


def shown(path: str) -> str:
    """A path in quotes, not too long."""
    return repr(path if len(path) <= SHOWN_PATH_CHARS else path[:SHOWN_PATH_CHARS] + "...")


def outside(path: str) -> WorkspaceError:
    """A path that lies outside as it is written."""
    return WorkspaceError(say("outside", path=shown(path)))


def in_words(path: str, error: OSError) -> str:
    """An error of the operating system."""
    kind = _SYSTEM_ERRORS.get(error.errno or 0)
    if kind is not None:
        return say(kind, path=shown(path))
    code = errno.errorcode.get(error.errno or 0, "?")
    return say("system_error", path=shown(path), error=error.strerror or error, code=code)


def instead(folder: str, wanted: str, entries: Mapping[str, str]) -> str:
    """What there is in place of something missing.

    Args:
        folder: Where it was looked for; empty for the workspace itself.
        wanted: The name that is missing, or is there and no folder.
        entries: Kind by name of what is there.
    """
    place = shown(folder) if folder else say("workspace")
    before = f"{folder}/" if folder else ""
    if not entries:
        return say("is_empty", place=place)
    if wanted in entries:
        what = "dead_link" if entries[wanted] == "link" else "not_a_folder"
        return say(what, path=shown(before + wanted))
    lower = {name.lower(): name for name in entries}
    close = difflib.get_close_matches(wanted.lower(), lower, n=SUGGESTIONS, cutoff=0.5)
    if close:
        return say("did_you_mean_path", names=", ".join(repr(before + lower[name]) for name in close))
    # Hidden names come first in the order and are hardly ever meant.
    names = sorted(entries, key=lambda name: (name.startswith("."), name))
    more = ", ..." if len(names) > SUGGESTIONS else ""
    return say("place_has", place=place, names=", ".join(names[:SUGGESTIONS]) + more)
