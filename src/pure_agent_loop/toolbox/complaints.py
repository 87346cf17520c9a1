"""Error messages for the model about paths: they quote the path as written, and say what to do instead."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Mapping

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.quoted_paths import quoted_path, unquoted_path

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
    """A path cannot be used. The message quotes the path as the model wrote it, and says what to do."""


def shown(path: str) -> str:
    """Return a path in quotes, shortened if long; special characters are escaped as in listings."""
    quoted = quoted_path(unquoted_path(path))
    path = quoted if len(quoted) <= SHOWN_PATH_CHARS else quoted[:SHOWN_PATH_CHARS] + "..."
    return path if quoted.startswith('"') else repr(path)


def outside_error(path: str) -> WorkspaceError:
    """Return the error for a path that, as written, leads outside the workspace."""
    return WorkspaceError(model_text("outside", path=shown(path)))


def describe_os_error(path: str, error: OSError) -> str:
    """Describe an error from the operating system."""
    kind = _SYSTEM_ERRORS.get(error.errno or 0)
    if kind is not None:
        return model_text(kind, path=shown(path))
    code = errno.errorcode.get(error.errno or 0, "?")
    return model_text("system_error", path=shown(path), error=error.strerror or error, code=code)


def suggest_entries(folder: str, wanted: str, entries: Mapping[str, str]) -> str:
    """Suggest existing entries in place of a missing one.

    Args:
        folder: The folder of the missing entry; empty for the workspace itself.
        wanted: A name that is missing, or that is not a folder.
        entries: Existing entries, as a mapping from name to kind.
    """
    place = shown(folder) if folder else model_text("workspace")
    prefix = f"{folder}/" if folder else ""
    if not entries:
        return model_text("is_empty", place=place)
    if wanted in entries:
        key = "dead_link" if entries[wanted] == "link" else "not_a_folder"
        return model_text(key, path=shown(prefix + wanted))
    lower = {name.lower(): name for name in entries}
    close = difflib.get_close_matches(wanted.lower(), lower, n=SUGGESTIONS, cutoff=0.5)
    if close:
        return model_text("did_you_mean_path", names=", ".join(shown(prefix + lower[name]) for name in close))
    # Hidden names sort first but are hardly ever meant.
    names = sorted(entries, key=lambda name: (name.startswith("."), name))
    ellipsis = ", ..." if len(names) > SUGGESTIONS else ""
    return model_text(
        "place_has", place=place, names=", ".join(map(quoted_path, names[:SUGGESTIONS])) + ellipsis
    )
